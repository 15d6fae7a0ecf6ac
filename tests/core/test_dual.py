"""Dual points stay in the memory of their engine until somebody asks for them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import batchsvm
from batchsvm import BatchSVC
from batchsvm.core.dual import HostDual, dual_of
from batchsvm.models.model import model_of_solution
from device import GONE, DeviceDataset
from helpers import LAM, toy

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


def test_what_places_data_itself_fetches_alpha_before_it_closes_them(monkeypatch):
    from batchsvm.engines import placing

    made = []

    def place(X, jobs, tuning, keeps_norms):
        made.append(DeviceDataset(X))
        made[-1].__class__ = ClosingDataset
        return made[-1]

    monkeypatch.setitem(placing.ENGINES, "cpu", place)
    assert batchsvm.fit(X, Y, lam=LAM).alpha.shape == (60,)
    assert all(s.alpha.shape == (60,) for s in batchsvm.fit_many(X, CLASSES, lam=LAM))
    model = BatchSVC(lam=LAM).fit(X, CLASSES)
    assert model.dual_coef_.shape == (3, 60)
    assert len(made) == 3
    assert all(data.closed for data in made)


class ClosingDataset(DeviceDataset):
    """One that is closed at the end of a block."""

    def __exit__(self, *_):
        self.close()


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
