"""Numbers whose squares or products are beyond float64: one sentence before any work, or a fit."""

from __future__ import annotations

import re

import numpy as np
import pytest

import batchsvm
from batchsvm import BatchSVC, losses
from batchsvm.engines import ENGINES
from batchsvm.models.fitting import fit_model

X = np.random.default_rng(0).normal(size=(24, 3))
Y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)

LONG_COLUMNS = {
    "fit": lambda bias, engine: batchsvm.fit(X, Y, bias=bias, engine=engine),
    "certify": lambda bias, engine: batchsvm.certify(
        X, Y, np.zeros(4), np.zeros(24), bias=bias, engine=engine
    ),
    "fit_many": lambda bias, engine: batchsvm.fit_many(
        X, Y, intercept="penalised", scaling=bias, engine=engine
    ),
    "path": lambda bias, engine: batchsvm.path(
        X, Y, [0.1], intercept="penalised", scaling=bias, engine=engine
    ),
    "fit_model": lambda bias, engine: fit_model(X, Y, intercept_scaling=bias, engine=engine),
    "BatchSVC": lambda bias, engine: BatchSVC(intercept_scaling=bias, engine=engine).fit(X, Y),
    "partial_fit": lambda bias, engine: BatchSVC(intercept_scaling=bias, engine=engine).partial_fit(
        X, Y, classes=[-1, 1]
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("call", LONG_COLUMNS)
def test_a_constant_column_whose_square_overflows(call, engine):
    words = r"^(bias|scaling|intercept_scaling) must be below 1e\+150, so that its square is finite"
    for bias in (1e150, 1e200):
        with pytest.raises(ValueError, match=f"{words}, not {re.escape(repr(bias))}$"):
            LONG_COLUMNS[call](bias, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_longest_constant_column(engine):
    options = {"lam": 0.1, "engine": engine, "max_epochs": 3, "random_state": 0, "warn": False}
    found = batchsvm.fit(1e149 * X, Y, bias=9.9e149, **options)
    assert np.isfinite(found.certificate.gap)


@pytest.mark.parametrize("engine", ENGINES)
def test_max_epochs_may_be_any_number(engine):
    options = {"lam": 0.1, "engine": engine, "random_state": 0}
    found = batchsvm.fit(X, Y, max_epochs=1e308, **options)
    assert found.status.converged


@pytest.mark.parametrize("engine", ENGINES)
def test_a_margin_whose_square_overflows(engine):
    loss = losses.SquaredHinge(margin=1e200)
    with pytest.raises(ValueError, match=r"^y must have a finite mean loss.* the margin of the"):
        batchsvm.fit(X, Y, loss, engine=engine)
