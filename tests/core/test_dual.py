"""Dual points stay in the memory of their engine until somebody asks for them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import batchsvm
from batchsvm import BatchSVC
from batchsvm.core.certificate import Certificate
from batchsvm.core.dual import HostDual, dual_of
from batchsvm.core.intercept import Intercept, LinearStart, _FreeIntercept
from batchsvm.core.many import train_many
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.training import Start, train
from batchsvm.losses import LOSSES
from batchsvm.models.model import model_of_solution
from device import GONE, DeviceDataset
from helpers import LAM, one_problem, toy

X, Y = toy("hinge")
CLASSES = np.arange(len(Y)) % 3


def test_alpha_is_fetched_when_it_is_asked_for_and_once():
    data = DeviceDataset(X)
    solution = batchsvm.fit(data, Y, lam=LAM, random_state=0)
    labelled = replace(solution, classes=np.array([0, 1]))
    assert "alpha" not in repr(solution)
    assert str(solution)
    assert data.fetches == []
    expected = batchsvm.fit(X, Y, lam=LAM, random_state=0, engine="reference").alpha
    np.testing.assert_array_equal(solution.alpha, expected)
    assert solution.alpha is solution.alpha
    assert data.fetches == [(60, 1)]
    np.testing.assert_array_equal(labelled.alpha, expected)


def test_a_problem_fetches_its_own_column_alone():
    data = DeviceDataset(X)
    solutions = batchsvm.fit_many(data, CLASSES, lam=LAM, random_state=0)
    expected = batchsvm.fit_many(X, CLASSES, lam=LAM, random_state=0, engine="reference")
    assert data.fetches == []
    np.testing.assert_array_equal(solutions[1].alpha, expected[1].alpha)
    assert data.fetches == [(60, 1)]


def test_a_closed_engine_may_refuse_what_was_not_asked_for_before():
    data = DeviceDataset(X)
    early, late = (batchsvm.fit(data, Y, lam=LAM, random_state=seed) for seed in range(2))
    assert early.alpha.shape == (60,)
    kept = early.fetched()
    data.close()
    assert early.alpha.shape == kept.alpha.shape == (60,)
    with pytest.raises(ValueError, match=GONE):
        _ = late.alpha
    with batchsvm.place(X) as host:
        solution = batchsvm.fit(host, Y, lam=LAM, random_state=0)
    assert solution.alpha.shape == (60,)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_and_pickles_of_a_solution_hold_alpha_itself(again):
    data = DeviceDataset(X)
    solution = batchsvm.fit(data, Y, lam=LAM, random_state=0)
    other = again(solution)
    data.close()
    assert isinstance(other.dual, HostDual)
    np.testing.assert_array_equal(other.alpha, solution.alpha)
    assert other.certificate == solution.certificate
    assert other != solution


def test_alpha_outlives_data_that_a_fit_has_placed_itself(monkeypatch):
    from batchsvm.engines import placing

    made = []

    def place(X, jobs, tuning, keeps_norms):
        made.append(DeviceDataset(X))
        made[-1].__class__ = ClosingDataset
        return made[-1]

    monkeypatch.setitem(placing.ENGINES, "cpu", place)
    solution = batchsvm.fit(X, Y, lam=LAM)
    assert not made[-1].fetches  # nothing is copied before somebody asks
    assert solution.alpha.shape == (60,)
    assert all(s.alpha.shape == (60,) for s in batchsvm.fit_many(X, CLASSES, lam=LAM))
    model = BatchSVC(lam=LAM).fit(X, CLASSES)
    assert model.dual_coef_.shape == (3, 60)
    assert len(made) == 3
    assert all(data.closed and data.duals_outlive for data in made)


class ClosingDataset(DeviceDataset):
    """One that is closed at the end of a block."""

    def __exit__(self, *_):
        self.close()


@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
def test_no_alpha_is_copied_along_a_path(intercept):
    data, lams = DeviceDataset(X), [0.1, 0.01, 0.001]
    options = {"intercept": intercept, "tol": 1e-5, "random_state": 0}
    path = batchsvm.path(data, Y, lams, **options)
    assert data.fetches == data.starts == []
    if intercept == "free":
        assert len(data.trainers) > 3  # several problems for each lam
    expected = batchsvm.path(X, Y, lams, engine="reference", **options)
    np.testing.assert_array_equal(path.coefs, expected.coefs)
    np.testing.assert_array_equal(path.intercepts, expected.intercepts)
    for ours, theirs in zip(path.models, expected.models, strict=True):
        np.testing.assert_array_equal(ours.solution.alpha, theirs.solution.alpha)


@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
def test_many_problems_start_from_handles(intercept):
    kind, options = Intercept(intercept), FitOptions(tol=1e-6)
    data, other = DeviceDataset(X), DeviceDataset(X)
    first = train_many(data, classes_on(data), options, kind, 0)
    assert all(model.solution.history.epoch[-1] > 1 for model in first)
    starts = [LinearStart(alpha=m.solution.dual, intercept=m.intercept) for m in first]
    options = FitOptions(tol=1e-5)
    again = train_many(data, classes_on(data), options, kind, 0, starts)
    assert data.fetches == data.starts == []
    elsewhere = train_many(other, classes_on(other), options, kind, 0, starts)
    assert data.fetches == [(60, 1)] * 3
    assert [k for _, k in other.starts] == ([3] if intercept != "free" else [1, 1, 1])
    for models in (again, elsewhere):
        for before, after in zip(first, models, strict=True):
            assert after.solution.history.epoch[-1] < before.solution.history.epoch[-1] / 4
            assert after.solution.status.converged


def test_handles_arrays_and_nothing_go_together():
    data, options = DeviceDataset(X), FitOptions(tol=1e-6)
    first = train_many(data, classes_on(data), options, Intercept(), 0)
    starts = [
        LinearStart(alpha=first[0].solution.dual),
        LinearStart(),
        LinearStart(alpha=first[2].solution.alpha),
    ]
    again = train_many(data, classes_on(data), FitOptions(tol=1e-5), Intercept(), 0, starts)
    assert [model.solution.history.iteration[-1] > 0 for model in again] == [False, True, False]


def test_a_problem_that_zero_solves_starts_from_zero():
    data = DeviceDataset(X)
    dual = data.dual(one_problem(data, Y, lam=LAM), np.full((60, 1), 0.5))
    nothing = one_problem(data, np.zeros(60), "absolute", LAM)
    [solution] = train(data, nothing, FitOptions(), Start(0, dual))
    assert not solution.alpha.any()
    assert solution.history.iteration.tolist() == [0]


def classes_on(data):
    targets = data.targets(CLASSES, classes=3)
    return make_problem(targets, LOSSES["hinge"](), 1e-2)


def test_an_array_is_a_dual_point_too():
    alpha = np.arange(4.0)
    dual = dual_of(alpha)
    assert dual.fetch().shape == (4, 1)
    assert np.shares_memory(dual.only(0).fetch(), alpha)
    two = HostDual(np.column_stack([alpha, -alpha]))
    np.testing.assert_array_equal(two.only(1).fetch()[:, 0], -alpha)
    assert np.shares_memory(two.only(1).fetch(), two.alpha)


def test_a_model_of_a_solution_knows_its_rows():
    solution = batchsvm.fit(X, Y, lam=LAM, random_state=0)
    assert model_of_solution(solution).trained_on.n == 60


def test_a_free_intercept_keeps_the_best_w_and_the_best_alpha_of_different_points():
    data = DeviceDataset(X)
    problem = one_problem(data, Y, lam=LAM)
    [solution] = train(data, problem, FitOptions(), Start(0))
    outer = _FreeIntercept(data, problem, FitOptions(), LinearStart(), StopFlag())
    points = [(np.full(6, value), value, data.dual(problem)) for value in (0.0, 1.0, 2.0)]
    at = [Certificate(p, d, 0.0, 0.0, 0) for p, d in ((3.0, 1.0), (2.0, 0.5), (2.5, 1.5))]
    # Of the three, the first begins, the second has the best w, the third the best alpha.
    for (w, b, dual), seen, best in zip(points, at, [(0, 0), (1, 0), (1, 2)], strict=True):
        outer._keep(solution, w, b, dual, seen)
        kept = outer.best
        assert kept.intercept == points[best[0]][1]
        assert kept.coef is kept.solution.w is points[best[0]][0]
        assert kept.solution.dual is points[best[1]][2]
        assert kept.solution.certificate.primal == at[best[0]].primal
        assert kept.solution.certificate.dual == at[best[1]].dual
    assert data.fetches == []
