"""What tol means: the objective is proven to be within a part tol of its optimum."""

from __future__ import annotations

import numpy as np
import pytest

import batchsvm
from batchsvm import BatchSVR
from batchsvm.core.best_constant import primal_at_zero
from batchsvm.core.problem import make_problem
from batchsvm.core.solution import Status
from batchsvm.losses import LOSSES
from helpers import LAM, toy


@pytest.mark.parametrize("loss", LOSSES)
def test_the_bound_is_within_tol_of_the_objective(loss):
    X, y = toy(loss)
    sharp = batchsvm.fit(X, y, loss, LAM, tol=1e-9, max_epochs=10**5, random_state=0)
    kind = LOSSES[loss]()
    responses = np.zeros_like(y) if kind.task == "classification" else -y
    at_zero = float(np.mean(kind.value(responses)))
    for tol in (0.1, 1e-2, 1e-4):
        solution = batchsvm.fit(X, y, loss, LAM, tol=tol, max_epochs=10**4, random_state=0)
        certificate = solution.certificate
        assert solution.status is Status.CONVERGED
        allowed = tol * max(certificate.primal, tol * at_zero)
        assert certificate.bound <= allowed
        assert certificate.relative_gap == certificate.bound / certificate.primal
        assert certificate.primal <= sharp.certificate.primal + 1.01 * allowed


def test_an_optimum_next_to_nothing_is_reached_to_a_part_of_p0():
    """P* is far below tol P(0): the bound is then within tol^2 P(0), not within tol P*."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    y = X @ np.array([1.0, -2.0, 0.5])
    solution = batchsvm.fit(X, y, "huber", lam=1e-9, tol=1e-2, max_epochs=10**4, random_state=0)
    at_zero = float(np.mean(LOSSES["huber"]().value(-y)))
    certificate = solution.certificate
    assert solution.status is Status.CONVERGED
    assert certificate.primal < 1e-4 * at_zero
    assert certificate.bound <= 1e-4 * at_zero


def test_with_an_intercept_p0_is_that_of_the_best_constant():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = 1e4 + X @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.standard_normal(60)
    model = BatchSVR("absolute", lam=0.01, intercept="free", tol=1e-2, random_state=0).fit(X, y)
    # P(0) is 1e4: a thousandth of that would be met by any model.
    assert model.certificate_.bound <= 1e-2 * model.certificate_.primal < 1e-2
    np.testing.assert_allclose(model.coef_, [1.0, -2.0, 0.5], atol=0.2)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("bias", [None, 1.0])
def test_if_p0_is_nothing_w_is_zero(engine, bias):
    X = np.random.default_rng(0).standard_normal((20, 3))
    for start in (None, (np.zeros(3 + (bias is not None)), np.full(20, 0.5))):
        solution = batchsvm.fit(
            X, np.zeros(20), "absolute", lam=0.1, initial=start, bias=bias, engine=engine
        )
        assert solution.status is Status.CONVERGED
        assert not solution.w.any()
        assert solution.certificate.primal == 0.0
        assert solution.certificate.relative_gap == 0.0


@pytest.mark.parametrize(("loss", "y"), [("absolute", 1e6), ("huber", -3.0), ("quantile", 0.1)])
def test_a_constant_target_with_a_free_intercept(loss, y):
    X = np.random.default_rng(0).standard_normal((20, 3))
    model = BatchSVR(loss, intercept="free", random_state=0).fit(X, np.full(20, y))
    assert model.certificate_.primal == 0.0
    np.testing.assert_array_equal(model.predict(X), np.full(20, y))


def test_p0_knows_nothing_of_rows_that_weigh_nothing_and_little_of_outliers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 40))
    y = 1e6 + X @ rng.standard_normal(40)
    y[:2] = 1e13, -1e13
    for weight in (0.0, 1e-20):
        weights = np.ones(200)
        weights[:2] = weight
        with batchsvm.place(X) as data:
            problem = make_problem(data.targets(y, weights), LOSSES["absolute"](), 1.0)
            found = primal_at_zero(data, problem, has_intercept=True)
        # Of absolute deviations the median is the best constant.
        expected = np.abs(y[2:] - np.median(y[2:])).sum() / weights.sum()
        assert found == pytest.approx(expected, rel=1e-2)
