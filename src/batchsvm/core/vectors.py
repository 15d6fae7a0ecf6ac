"""Inner products and norms of vectors, without BLAS.

The threads of BLAS go on spinning for a while after their work, on cores that ours need.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from batchsvm.compiled import Kernel, callable_in_kernels

CHUNK = 64  # terms that are summed up one after another; then these sums pairwise


def chunk_products(u, v, out, first, last):
    """out[k] = <u, v> over chunk k, k from `first` to before `last`.

    Slices and a loop of known length let LLVM use vector instructions: a third of the time.
    """
    for k in range(first, last):
        a, b = u[k * CHUNK : (k + 1) * CHUNK], v[k * CHUNK : (k + 1) * CHUNK]
        total = 0.0
        if a.size == CHUNK:
            for j in range(CHUNK):
                total += a[j] * b[j]
        else:
            for j in range(a.size):
                total += a[j] * b[j]
        out[k] = total


callable_in_kernels(chunk_products)


@Kernel
def _all_chunk_products(u, v, out):
    chunk_products(u, v, out, 0, out.size)


@Kernel
def _chunk_squares_of_rows(rows, out):
    for k in range(len(rows)):
        chunk_products(rows[k], rows[k], out[k], 0, out.shape[1])


def chunks_of(v: np.ndarray) -> int:
    """How many chunks a vector has."""
    return -(-v.size // CHUNK)


def inner(u: np.ndarray, v: np.ndarray) -> float:
    """<u, v>."""
    sums = np.empty(chunks_of(u))
    _all_chunk_products(u, v, sums)
    return float(sums.sum())


def norm(v: np.ndarray) -> float:
    """||v||."""
    sums = np.empty(chunks_of(v))
    _all_chunk_products(v, v, sums)
    return sqrt(sums.sum())


def column_norms(V: np.ndarray) -> np.ndarray:
    """||v|| of each column, to the same bits as `norm` computes it."""
    rows = np.ascontiguousarray(V.T)
    sums = np.empty((len(rows), -(-len(V) // CHUNK)))
    _chunk_squares_of_rows(rows, sums)
    return np.sqrt(sums.sum(axis=1))  # pairwise: the terms of a row are next to each other
