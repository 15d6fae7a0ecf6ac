"""Far from the optimum, Newton's method takes the Hessian of a sample of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.engines.host_dataset import HostDataset
from batchsvm.losses import LOSSES, Huber, Logistic, SquaredError
from batchsvm.methods.newton import (
    LEAST_ROWS_PER_SAMPLED_ROW,
    MIN_SAMPLED_ENTRIES,
    MOST_ROUGH_STEPS,
    MOST_ROWS_PER_SAMPLED_ROW,
    SAMPLED_ROWS_PER_COLUMN,
    is_column_seen,
    is_quadratic,
    rows_per_sampled_row,
)
from helpers import HOST_ENGINES, LAM

P = 4
N = int(SAMPLED_ROWS_PER_COLUMN * P * MOST_ROWS_PER_SAMPLED_ROW) * 8


def tall(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, P))
    return X, np.where(X @ rng.normal(size=P) + rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.fixture
def hessians(monkeypatch):
    """A letter for each Hessian: r for that of a sample, e for an exact one, - for none."""
    made = []
    rough, exact = HostDataset.rough_hessian, HostDataset.hessian

    def rough_noted(self, problem, W):
        found = rough(self, problem, W)
        made.append("-" if found is None else "r")
        return found

    def exact_noted(self, problem, W):
        made.append("e")
        return exact(self, problem, W)

    monkeypatch.setattr(HostDataset, "rough_hessian", rough_noted)
    monkeypatch.setattr(HostDataset, "hessian", exact_noted)
    return made


def test_a_sampled_row_stands_for_as_many_as_the_columns_allow():
    least = LEAST_ROWS_PER_SAMPLED_ROW
    for every in (least, least + 1, MOST_ROWS_PER_SAMPLED_ROW):
        rows = int(every * SAMPLED_ROWS_PER_COLUMN * P)
        assert rows_per_sampled_row(np.full(rows, 0.25), P) == every
        fewer = every - 1 if every > least else 1
        assert rows_per_sampled_row(np.full(rows - 1, 0.25), P) == fewer
    assert rows_per_sampled_row(np.full(10 * N, 0.1), P) == MOST_ROWS_PER_SAMPLED_ROW


def test_rows_without_curvature_do_not_count():
    curvatures = np.zeros(N)
    assert rows_per_sampled_row(curvatures, P) == 1
    curvatures[:10] = 1.0
    assert rows_per_sampled_row(curvatures, P) == 1


def test_a_column_needs_some_entries_of_one_size():
    count = int(MIN_SAMPLED_ENTRIES)
    columns = np.zeros((count, 4))
    columns[:, 0] = -3.0
    columns[1:, 1] = 3.0
    columns[0, 2], columns[1:, 2] = 1e6, 1.0
    seen = is_column_seen(np.square(columns).sum(axis=0), np.abs(columns).sum(axis=0))
    assert seen.tolist() == [True, False, False, False]


@pytest.mark.parametrize("bias", [None, 0.5])
@pytest.mark.parametrize("stored", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_it_is_that_of_every_eighth_row(engine, stored, bias):
    X, y = tall()
    rows = X if bias is None else np.hstack([X, np.full((N, 1), bias)])
    w = 0.1 * np.ones(rows.shape[1])
    loss = Logistic()
    with place_on(engine, stored(X), 1) as data:
        problem = make_problem(data.targets(y), loss, LAM, bias)
        found = data.rough_hessian(problem, w[:, np.newaxis])
        exact = data.hessian(problem, w[:, np.newaxis])
    every = MOST_ROWS_PER_SAMPLED_ROW
    curvatures = loss.second_derivative(y * (rows @ w))
    some = curvatures[::every, np.newaxis] * rows[::every]
    scale = curvatures.sum() / curvatures[::every].sum() / N
    np.testing.assert_allclose(found, scale * rows[::every].T @ some, rtol=1e-10, atol=1e-14)
    assert np.abs(found - exact).max() < 0.3 * np.abs(exact).max()


@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_there_is_none_where_rows_are_few_or_a_column_is_rare(engine):
    X, y = tall()
    for rows in (X[:40], np.where(np.arange(N) % 97 == 0, 1.0, 0.0)[:, np.newaxis] * X):
        with place_on(engine, rows, 1) as data:
            problem = make_problem(data.targets(y[: len(rows)]), Logistic(), LAM)
            assert data.rough_hessian(problem, np.zeros((P, 1))) is None


@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_the_first_steps_are_rough_and_the_last_one_is_exact(engine, hessians):
    X, y = tall()
    found = batchsvm.fit(X, y, loss="logistic", lam=LAM, tol=1e-7, method="newton", engine=engine)
    assert found.certificate.relative_gap <= 1e-7
    assert hessians[0] == "r"
    assert hessians[-1] == "e"
    assert hessians == sorted(hessians, reverse=True)


def test_a_fit_that_starts_near_its_end_takes_exact_steps(hessians):
    X, y = tall()
    with batchsvm.place(X) as data:
        arguments = {"loss": "logistic", "lam": LAM, "method": "newton"}
        first = batchsvm.fit(data, y, tol=1e-3, **arguments)
        hessians.clear()
        batchsvm.fit(data, y, tol=1e-7, initial=first, **arguments)
    assert set(hessians) == {"e"}


def test_one_exact_step_solves_a_quadratic_problem(hessians):
    X, _ = tall()
    batchsvm.fit(X, X @ np.ones(P), loss="squared_error", lam=LAM, tol=1e-7, method="newton")
    assert hessians == ["e"]
    assert is_quadratic(SquaredError())
    assert not is_quadratic(Huber())
    assert not is_quadratic(Logistic())


def test_a_step_of_a_sample_that_misleads_is_the_last_one(hessians):
    X, y = tall()
    X[::MOST_ROWS_PER_SAMPLED_ROW] *= 1e-3  # which have next to no curvature
    found = batchsvm.fit(X, y, loss="logistic", lam=1e-9, tol=1e-6, method="newton")
    assert found.certificate.relative_gap <= 1e-6
    assert hessians[0] == "r"
    assert hessians.count("r") == 1
    assert "-" not in hessians


def test_a_sample_that_does_not_do_is_not_taken_again(hessians):
    X, y = tall()
    X[np.arange(N) % 97 != 0, 0] = 0.0
    batchsvm.fit(X, y, loss="logistic", lam=1e-6, tol=1e-6, method="newton")
    assert hessians[0] == "-"
    assert set(hessians[1:]) == {"e"}


def test_rough_steps_are_few(hessians, monkeypatch):
    monkeypatch.setattr("batchsvm.engines.newton.FAR", 0.0)
    X, y = tall()
    batchsvm.fit(X, y, loss="logistic", lam=LAM, tol=1e-9, method="newton")
    assert 1 <= hessians.count("r") <= MOST_ROUGH_STEPS


@pytest.mark.parametrize("loss_name", ["hinge", "absolute"])
def test_losses_with_kinks_take_exact_steps(loss_name, hessians):
    X, y = tall()
    targets = y if LOSSES[loss_name].task == "classification" else X @ np.ones(P) + y
    batchsvm.fit(X, targets, loss=loss_name, lam=LAM, tol=1e-3, method="newton")
    assert set(hessians) == {"e"}
