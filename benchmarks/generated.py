"""Generated data: large sparse sets, made quickly, in blocks, on all threads, and dense ones.

NumPy and SciPy are all that it needs.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp

BLOCK = 1 << 22  # non-zeros made at once by one thread


def sparse_set(
    rows: int, features: int, per_row: int, seed: int = 0, dtype: type = np.float64
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Text-like data with labels that a linear model explains but for noise; rows of norm 1.

    The columns are cut into `per_row` strips, narrow ones first, and a row has one non-zero
    in each: columns are sorted and distinct without any work, and the first ones are
    frequent, as words are.  The same seed gives the same data on any number of threads.
    """
    if per_row > features:
        raise ValueError(f"{per_row} non-zeros do not fit into rows of {features} columns")
    edges = np.floor((features - per_row) * (np.arange(per_row + 1) / per_row) ** 2)
    edges = edges.astype(np.int64) + np.arange(per_row + 1)  # every strip has a column
    first, width = edges[:-1].astype(np.int32), np.diff(edges).astype(np.float32)
    last = width.astype(np.int32) - 1
    truth = np.random.default_rng(seed).standard_normal(features).astype(np.float32)
    nonzeros = rows * per_row
    index = np.int32 if nonzeros < 2**31 else np.int64
    data, indices = np.empty((rows, per_row), dtype), np.empty((rows, per_row), index)
    y = np.empty(rows)
    step = max(1, BLOCK // per_row)

    def make(start: int) -> None:
        stop = min(rows, start + step)
        rng = np.random.default_rng((seed, start))
        draws = rng.random((stop - start, per_row), np.float32)
        draws *= width
        columns = np.minimum(draws.astype(np.int32), last)  # float32 may round up to the width
        columns += first
        indices[start:stop] = columns
        values = rng.random((stop - start, per_row), np.float32)
        values += np.float32(0.1)
        values /= np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
        data[start:stop] = values
        scores = np.einsum("ij,ij->i", values, truth[columns])
        scores += 0.5 * rng.standard_normal(stop - start)
        y[start:stop] = np.where(scores > 0, 1.0, -1.0)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, range(0, rows, step)))
    indptr = np.arange(0, nonzeros + 1, per_row, dtype=index)
    X = sp.csr_matrix((rows, features), dtype=dtype)  # no checks, which would take passes
    X.data, X.indices, X.indptr = data.ravel(), indices.ravel(), indptr
    X.has_sorted_indices = X.has_canonical_format = True
    return X, y


def dense_set(rows: int, columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float32 rows of two classes that overlap, the smaller one with 30 % of the rows.

    Columns have different sizes and are not centred, so that an intercept matters.  The mean
    square of the norm of a row is 1.
    """
    rng = np.random.default_rng(seed)
    scale = np.arange(1, columns + 1, dtype=np.float32) ** np.float32(-0.5)
    shift = 1.5 * rng.standard_normal(columns, np.float32) / np.float32(columns**0.5)
    centre = 0.5 * rng.standard_normal(columns, np.float32)
    y = np.where(rng.random(rows) < 0.3, 1.0, -1.0)
    X = rng.standard_normal((rows, columns), np.float32)
    X += centre
    X += y.astype(np.float32)[:, None] * shift
    X *= scale
    X /= np.sqrt(np.einsum("ij,ij->", X, X, dtype=np.float64) / rows).astype(np.float32)
    return X, y


def repeated(X: sp.csr_matrix, y: np.ndarray, rows: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """The rows over and over again, up to so many."""
    times, rest = divmod(rows, X.shape[0])
    cut = X.indptr[rest]
    steps = np.diff(X.indptr)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.tile(steps, times), steps[:rest]]))])
    long = sp.csr_matrix((rows, X.shape[1]), dtype=X.dtype)
    long.data = np.concatenate([np.tile(X.data, times), X.data[:cut]])
    long.indices = np.concatenate([np.tile(X.indices, times), X.indices[:cut]])
    long.indptr = indptr.astype(X.indptr.dtype if indptr[-1] < 2**31 else np.int64)
    long.has_sorted_indices = X.has_sorted_indices
    return long, np.concatenate([np.tile(y, times), y[:rest]])
