"""What is said of a fit: gaps are never negative in words, and a model of zeros is named so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm import BatchSVC
from batchsvm.core.certificate import Certificate
from batchsvm.core.convergence_warning import convergence_problem
from batchsvm.core.progress import GapMeter
from batchsvm.core.solution import Checkpoint, LinearModel, Status

X = np.random.default_rng(0).normal(size=(60, 4))
Y = np.where(X[:, 0] > 0, 1, -1)

# What rounding can make of a gap that is zero.
NEGATIVE = Certificate(0.5, 0.5 + 2e-16, 1e-16, 0.0, 3)
assert NEGATIVE.gap < 0.0


def precise(certificate):
    solution = batchsvm.fit(X, Y, lam=0.1, random_state=0)
    return replace(solution, certificate=certificate, status=Status.PRECISION)


def test_a_negative_gap_is_zero_in_words():
    assert "at most 0 above the optimum (0 of the primal, rounding 1e-16)" in str(NEGATIVE)
    solution = precise(NEGATIVE)
    assert "at most 0 above" in str(solution)
    sentence = convergence_problem(solution, 1000)
    assert "at most 0 above its optimum, which is 0 of it" in sentence
    assert "Float64 can prove a tol of about 4e-16 here." in sentence
    model = LinearModel(solution.w, 0.0, solution)
    path = batchsvm.Path(np.array([0.1]), solution.w[np.newaxis], np.zeros(1), (model,))
    assert str(path).splitlines()[1].split()[2] == "0"
    meter = GapMeter(["fit"], tol=1e-4)
    meter.see(0, Checkpoint(1, 1.0, 0.0, NEGATIVE, solution.w, solution.w))
    assert meter.words.startswith("gap 0, tol 0.0001")
    assert meter.share == 1.0


def test_where_float64_proves_nothing_it_says_so():
    sentence = convergence_problem(precise(Certificate(0.5, 0.5, 3.0, 0.0, 3)), 1000)
    assert "Float64 can prove nothing better here; scale the rows of X" in sentence


def test_a_model_of_zeros_is_named_so_and_wants_more_epochs():
    with pytest.warns(ConvergenceWarning) as caught:
        solution = batchsvm.fit(X, Y, lam=1e-6, method="pegasos", max_epochs=1, random_state=0)
    assert not solution.w.any()
    sentence = str(caught[0].message)
    assert "The model is w = 0, where training began" in sentence
    assert "which takes more epochs. To get closer, raise max_epochs (now 1)" in sentence
    with pytest.warns(ConvergenceWarning) as caught:
        BatchSVC(lam=1e-6, method="pegasos", max_epochs=1, random_state=0).fit(X, Y)
    assert "The model is w = 0" in str(caught[0].message)
    with pytest.warns(ConvergenceWarning) as caught:
        assert batchsvm.fit(X, Y, lam=1e-6, max_epochs=1, random_state=0).w.any()
    assert "w = 0" not in str(caught[0].message)
