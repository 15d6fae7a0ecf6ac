"""On many rows of few columns, the mean of recent iterates stands beside the last iterate."""

from __future__ import annotations

import numpy as np
import pytest

import batchsvm
from batchsvm.core.loop import NEAR
from batchsvm.core.tuning import Tuning
from batchsvm.engines import place_on
from batchsvm.engines.averaging import FADING, REMEMBERED, RecentMean
from helpers import placed, quietly


def tall(n=20_000, d=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)


def test_the_mean_weighs_recent_epochs_more():
    recent = RecentMean(np.zeros(1), np.zeros(2))
    assert recent.recent is None
    for value in (1.0, 5.0):
        for _ in range(4 * REMEMBERED):
            recent.observe_primal(1.0, np.array([value]))
        if value == 1.0:
            recent.fade()
    assert recent.recent[0] == pytest.approx((FADING * 1.0 + 5.0) / (FADING + 1.0))


@pytest.mark.parametrize("jobs", [1, 2])
def test_where_a_certificate_is_asked_for_it_is_of_the_better_of_the_two(jobs):
    X, y = tall()
    arguments = {"lam": 1e-4, "tol": 1e-9, "random_state": 0, "max_epochs": 2}
    with placed(X, jobs, min_parallel_nonzeros=0) as data:  # all data are large
        with_mean = quietly(data, y, **arguments)
        again = batchsvm.certify(data, y, with_mean.w, with_mean.alpha, lam=1e-4)
    assert again == with_mean.certificate
    last = X.T @ (with_mean.alpha * y) / (1e-4 * len(y))  # w(alpha), the last iterate
    assert not np.allclose(with_mean.w, last)
    at_last = batchsvm.certify(X, y, last, with_mean.alpha, lam=1e-4)
    exact = batchsvm.fit(X, y, lam=1e-4, tol=1e-7, max_epochs=10_000)
    best = exact.certificate.dual
    assert with_mean.certificate.primal - best < 0.5 * (at_last.primal - best)
    assert with_mean.certificate.dual == pytest.approx(at_last.dual, abs=1e-12)


def test_the_mean_ends_training_where_the_last_iterate_is_near_the_goal_and_not_within():
    X, y = tall()
    ends = set()
    for tol in np.geomspace(1e-1, 1e-4, 12):
        with placed(X, min_parallel_nonzeros=0) as data:
            found = batchsvm.fit(data, y, lam=1e-4, tol=tol, random_state=0)
        last = X.T @ (found.alpha * y) / (1e-4 * len(y))
        at_last = batchsvm.certify(X, y, last, found.alpha, lam=1e-4)
        takes_mean = not np.allclose(found.w, last, rtol=1e-9)
        assert found.certificate.bound <= tol * found.certificate.primal
        assert (at_last.bound > tol * found.certificate.primal) == takes_mean
        assert at_last.gap <= NEAR * tol * at_last.primal
        ends.add(takes_mean)
    assert ends == {True, False}


def test_both_engines_remember_the_same():
    X, y = tall(2000)
    for jobs in (1, 2):
        runs = []
        for engine in ("cpu", "reference"):
            tuning = Tuning(min_parallel_nonzeros=0, min_rows_per_block=8, max_rows_per_block=8)
            with place_on(engine, X, jobs, tuning) as data:
                runs.append(quietly(data, y, lam=1e-3, tol=0, max_epochs=2, random_state=11))
        ours, oracle = runs
        np.testing.assert_allclose(ours.w, oracle.w, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(ours.alpha, oracle.alpha, rtol=1e-9, atol=1e-11)
        assert not np.allclose(ours.w, X.T @ (ours.alpha * y) / (1e-3 * len(y)), rtol=1e-3)


def test_nothing_is_remembered_where_a_method_was_asked_for():
    X, y = tall(2000)
    with placed(X, min_parallel_nonzeros=0) as data:
        solution = batchsvm.fit(
            data, y, lam=1e-3, tol=1e-2, method="safe", batch_size=1, random_state=0
        )
    np.testing.assert_allclose(solution.w, X.T @ (solution.alpha * y) / (1e-3 * len(y)), rtol=1e-9)
