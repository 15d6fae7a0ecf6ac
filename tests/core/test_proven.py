"""What a certificate proves of single rows is so in the optimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import batchsvm
from batchsvm.core.proven import settled
from batchsvm.engines import ENGINES
from batchsvm.losses import LOSSES


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", LOSSES)
def test_rows_that_are_proven_are_so_in_the_optimum(name, engine):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 4))
    z = X @ rng.standard_normal(4) + 0.5 * rng.standard_normal(120)
    loss = LOSSES[name]()
    y = np.where(z > 0, 1.0, -1.0) if loss.task == "classification" else z
    c = rng.uniform(0.5, 2.0, 120)
    options = {"lam": 0.05, "sample_weight": c, "bias": 1.5, "random_state": 0, "warn": False}
    sharp = batchsvm.fit(X, y, name, tol=1e-12, max_epochs=10**5, **options)
    for tol in (0.1, 1e-3, 1e-6):
        rough = batchsvm.fit(X, y, name, tol=tol, max_epochs=10**4, **options)
        found = batchsvm.proven(X, y, rough, c, bias=1.5, engine=engine)
        assert found.dtype == np.int8
        assert np.abs(sharp.alpha[found == 0]).max(initial=0.0) <= 1e-9
        at_bound = found == 1
        np.testing.assert_allclose(sharp.alpha[at_bound], loss.upper * c[at_bound], rtol=1e-9)
    if getattr(loss, "corners", True) and name not in ("absolute",):
        few = {"huber": 3, "squared_epsilon_insensitive": 10}
        assert (found >= 0).sum() > few.get(name, 30)
    else:
        assert name in ("logistic", "absolute", "squared_error")


def test_what_proven_refuses():
    X, y = np.random.default_rng(0).standard_normal((20, 2)), np.tile([-1, 1], 10)
    [solution] = batchsvm.fit_many(X, y, intercept="free", warn=False)
    with pytest.raises(ValueError, match="solution must have no free intercept"):
        batchsvm.proven(X, y, solution)
    with pytest.raises(TypeError, match="solution must be what fit returns, not str"):
        batchsvm.proven(X, y, "x")
    biased = batchsvm.fit(X, y, bias=1.0, warn=False)
    with pytest.raises(ValueError, match=r"solution\.w"):
        batchsvm.proven(X, y, biased)


def test_a_w_far_from_the_optimum_proves_nothing_of_rows():
    X, y = np.array([[1e150], [1e-150]]), np.array([1, -1])
    solution = batchsvm.fit(X, y, lam=1e-300, max_epochs=1, warn=False)
    assert batchsvm.proven(X, y, solution).tolist()[1] == -1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", LOSSES)
def test_responses_that_overflow_prove_nothing_of_rows(name, engine):
    X, y = np.array([[1e150, -1e150], [-1e150, 1e150]]), np.array([1.0, -1.0])
    solution = batchsvm.fit(X, y, name, lam=1e300, max_epochs=1, warn=False)
    # <x_i, w> is inf - inf, or inf where sums are fused.
    far = replace(solution, w=np.array([1e200, 1e200]))
    with np.errstate(all="ignore"):
        found = batchsvm.proven(X, y, far, engine=engine)
    assert found.tolist() == [-1, -1]


@pytest.mark.parametrize("name", LOSSES)
def test_a_response_that_is_nan_or_infinite_proves_nothing(name):
    responses = np.array([np.nan, np.nan, np.nan, np.inf, -np.inf, 5.0])
    off = np.array([0.0, np.inf, np.nan, 0.0, 0.0, np.nan])
    with np.errstate(invalid="ignore"):
        assert settled(LOSSES[name](), responses, off).tolist() == [-1] * 6
