"""Sums over the entries of one sparse row, and slices of columns that take equally long."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from batchsvm.compiled import Kernel
from batchsvm.engines import place_on
from batchsvm.engines.cpu.column_slices import RARE_ENTRY_COST, even_cuts


@Kernel
def dot(rows, i, w):
    return rows.dot(i, w)


@Kernel
def add_norm2(rows, i, c, v):
    return rows.add_norm2(i, c, v)


def rows_of_all_lengths(most=9, columns=12, dtype=np.float64, index=np.int32):
    """Row i has i entries: none, an odd and an even number of them."""
    rng = np.random.default_rng(0)
    X = np.zeros((most, columns), dtype)
    for i in range(most):
        X[i, rng.permutation(columns)[:i]] = rng.normal(size=i)
    found = sp.csr_array(X)
    found.indices, found.indptr = found.indices.astype(index), found.indptr.astype(index)
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sums_over_the_entries_of_a_row(dtype, index):
    X = rows_of_all_lengths(dtype=dtype, index=index)
    full, w = X.toarray().astype(np.float64), np.random.default_rng(1).normal(size=X.shape[1])
    with place_on("cpu", X, 1) as data:
        for i, row in enumerate(full):
            assert dot(data.rows, i, w) == pytest.approx(row @ w, rel=1e-14, abs=1e-14)
            v = w.copy()
            change = add_norm2(data.rows, i, 0.7, v)
            np.testing.assert_allclose(v, w + 0.7 * row, rtol=1e-14)
            assert change == pytest.approx(v @ v - w @ w, rel=1e-12, abs=1e-13)


def frequent_and_rare(n=120, frequent=4, per_row=8):
    """Every row has all of the frequent columns, which come first, and rare ones of its own."""
    rng = np.random.default_rng(0)
    rare = frequent + rng.permutation(n * per_row).reshape(n, per_row)
    columns = np.hstack([np.tile(np.arange(frequent), (n, 1)), np.sort(rare, axis=1)])
    shape = n, frequent + n * per_row
    starts = np.arange(n + 1) * columns.shape[1]
    return sp.csr_array((np.ones(columns.size), columns.ravel(), starts), shape=shape)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_slices_of_columns_cost_the_same(size):
    X = frequent_and_rare()
    with place_on("cpu", X, 1) as data:
        cuts = even_cuts(data.rows, size)
    assert len(cuts) == size - 1
    edges = [0, *cuts, X.shape[1]]
    counts = np.bincount(X.indices, minlength=X.shape[1])
    costs = np.where(counts == 1, RARE_ENTRY_COST, counts)
    parts = [costs[a:b].sum() for a, b in itertools.pairwise(edges)]
    assert max(parts) - min(parts) <= 2 * costs.max()
    # Equal numbers of entries would give the slice of the frequent columns too little to do.
    assert counts[: edges[1]].sum() > X.nnz / size


@pytest.mark.parametrize(
    ("columns", "size", "cuts"), [(16, 2, [8]), (16, 4, [4, 8, 12]), (2, 2, [1])]
)
def test_full_columns_are_cut_evenly(columns, size, cuts):
    with place_on("cpu", sp.csr_array(np.ones((20, columns))), 1) as data:
        assert even_cuts(data.rows, size).tolist() == cuts


def test_a_sample_with_fewer_entries_than_slices():
    X = sp.csr_array((np.ones(2), ([0, 3], [1, 5])), shape=(4, 8))
    with place_on("cpu", X, 1) as data:
        assert even_cuts(data.rows, 4).tolist() == [2, 4, 6]
