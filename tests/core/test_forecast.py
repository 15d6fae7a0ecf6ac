"""Forecasts are of the right size, and are left out where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest

import batchsvm
from batchsvm.core.forecast import Forecast, epochs_of
from batchsvm.core.problem import Facts, make_problem
from batchsvm.engines.targets import make_targets
from batchsvm.losses import LOSSES
from helpers import toy


def epochs(loss, pull, tol=1e-3):
    problem = make_problem(make_targets(2, np.ones(2)), LOSSES[loss](), 1e-2)
    one = np.ones(1)
    facts = Facts(100, 5, 1.0, 100 * one, 100 * one, one, pull * one)  # lam N is 1
    return epochs_of(problem, facts, tol)


def test_epochs_grow_with_the_pull_of_a_row_and_with_the_digits():
    for loss in LOSSES:
        assert 1.5 < epochs(loss, 0.01) < 6
        assert epochs(loss, 100.0) > 2 * epochs(loss, 1.0)
        assert epochs(loss, 10.0, 1e-6) > epochs(loss, 10.0, 1e-3)
    assert epochs("squared_hinge", 10.0) > epochs("smoothed_hinge", 10.0)


def test_a_larger_problem_takes_longer():
    rng = np.random.default_rng(0)
    times = []
    for n in (1_000, 100_000):
        X = rng.normal(size=(n, 10))
        plan = batchsvm.plan(X, np.sign(X[:, 0]), lam=100.0 / n)
        [cpu] = [one for one in plan.times if one.engine == "cpu"]
        assert plan.times[0] == cpu  # the plan's own comes first
        times.append(cpu.seconds)
    assert 5e-4 < times[0] < 1e-2
    assert 5 < times[1] / times[0] < 200


def test_a_fit_that_sdca_is_likely_to_win_has_a_forecast_for_each_engine():
    """Newton's method may take over, late."""
    X = np.random.default_rng(0).normal(size=(2000, 10))
    y = np.sign(X[:, 0])
    plan = batchsvm.plan(X, y, lam=0.1)
    assert (plan.fallback, plan.is_trial) == ("newton", False)
    assert [one.engine for one in plan.times] == ["cpu", "gpu", "streamed"]
    hard = batchsvm.plan(1e3 * X, y, lam=1e-6)
    assert hard.is_trial or hard.method == "newton"
    assert [one.engine for one in hard.times] == ["cpu"]


def test_conjugate_gradients_cost_no_factor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3500))
    plan = batchsvm.plan(X, np.arange(50) % 2, loss="logistic", method="newton")
    assert plan.times[0].seconds < 1.0


@pytest.mark.parametrize("method", ["safe", "naive", "pegasos", "aggressive"])
def test_no_forecast_where_the_epochs_are_not_known(method):
    X, y = toy("hinge")
    assert batchsvm.plan(X, y, method=method, batch_size=8).times == ()
    assert "expected time" not in str(batchsvm.plan(X, y, method=method, batch_size=8))


def test_words():
    assert str(Forecast("cpu", 1, 0.0123)) == "cpu, 1 thread: 12 ms"
    assert str(Forecast("cpu", 2, 1.26)) == "cpu, 2 threads: 1.3 s"
    assert str(Forecast("gpu", 1, 754.0)) == "gpu (an H200, with upload): 13 min"
