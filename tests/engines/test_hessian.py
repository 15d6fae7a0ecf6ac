"""Hessians of more columns than a block of the matrix has, in every storage; rows so long that
Newton steps need all digits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.core.problem import make_problem
from batchsvm.core.solution import Status
from batchsvm.engines import place_on
from batchsvm.engines.cpu.curvature import BLOCK
from batchsvm.losses import Logistic
from helpers import HOST_ENGINES, LAM

N, P = 300, 2 * BLOCK + 7


def sparse_rows():
    """Rows of every length from 0 on, and signs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < np.linspace(0.0, 0.5, N)[:, np.newaxis])
    X[:3] = 0.0
    X[3, 5] = X[4, 6] = X[4, 8] = 1.0
    return X, np.where(rng.random(N) < 0.4, 1.0, -1.0)


def scrambled(X):
    """CSR whose indices do not increase."""
    rows, rng = sp.csr_array(X), np.random.default_rng(1)
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        order = start + rng.permutation(stop - start)
        rows.data[start:stop], rows.indices[start:stop] = rows.data[order], rows.indices[order]
    rows.has_sorted_indices = False
    return rows


@pytest.mark.parametrize("bias", [None, 0.5])
@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array, scrambled])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_it_is_that_of_numpy(engine, jobs, stored, bias):
    X, y = sparse_rows()
    rows = X if bias is None else np.hstack([X, np.full((N, 1), bias)])
    weights = np.random.default_rng(2).integers(0, 3, N) / 2
    w = np.random.default_rng(3).normal(size=rows.shape[1]) / 4
    with place_on(engine, stored(X), jobs) as data:
        problem = make_problem(data.targets(y, weights), Logistic(), LAM, bias)
        found = data.hessian(problem, w[:, np.newaxis])
    curvatures = weights * Logistic().second_derivative(y * (rows @ w))
    expected = rows.T @ (curvatures[:, np.newaxis] * rows) / weights.sum()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(found, found.T)


def test_one_long_row_far_from_its_target_is_solved():
    """Where w is far, differences of responses have too few digits for a dual point."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1, 44)) * 10.0 ** rng.uniform(-8, 8, 44)
    for target in (-300.0, 2.0, 1e3):
        options = {"lam": 0.1, "tol": 1e-6, "method": "newton", "max_epochs": 200}
        [found] = batchsvm.fit_many(X, [target], "huber", intercept="penalised", **options)
        assert found.status is Status.CONVERGED
