"""Inner products and norms of vectors, without BLAS.

The threads of BLAS go on spinning for a while after their work, on cores that ours need.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from batchsvm.compiled import Kernel, callable_in_kernels

CHUNK = 64  # terms that are summed up one after another; then these sums pairwise


def chunk_squares(v, out, first, last):
    """out[k] = ||v||^2 over chunk k, k from `first` to before `last`.  For long vectors it takes
    two thirds of the time of their inner product with themselves."""
    for k in range(first, last):
        total = 0.0
        for j in range(k * CHUNK, min((k + 1) * CHUNK, v.size)):
            total += v[j] * v[j]
        out[k] = total


callable_in_kernels(chunk_squares)


@Kernel
def _all_chunk_squares(v, out):
    chunk_squares(v, out, 0, out.size)


@Kernel
def _chunk_products(u, v, out):
    for k in range(out.size):
        total = 0.0
        for j in range(k * CHUNK, min((k + 1) * CHUNK, u.size)):
            total += u[j] * v[j]
        out[k] = total


@Kernel
def _chunk_squares_of_columns(V, out):
    for c in range(out.shape[1]):
        for k in range(out.shape[0]):
            total = 0.0
            for j in range(c * CHUNK, min((c + 1) * CHUNK, V.shape[0])):
                total += V[j, k] * V[j, k]
            out[k, c] = total


def chunks_of(v: np.ndarray) -> int:
    """How many chunks a vector has."""
    return -(-v.size // CHUNK)


def inner(u: np.ndarray, v: np.ndarray) -> float:
    """<u, v>."""
    sums = np.empty(chunks_of(u))
    _chunk_products(u, v, sums)
    return float(sums.sum())


def norm(v: np.ndarray) -> float:
    """||v||."""
    sums = np.empty(chunks_of(v))
    _all_chunk_squares(v, sums)
    return sqrt(sums.sum())


def column_norms(V: np.ndarray) -> np.ndarray:
    """||v|| of each column, to the same bits as `norm` computes it."""
    sums = np.empty((V.shape[1], -(-V.shape[0] // CHUNK)))
    _chunk_squares_of_columns(V, sums)
    return np.sqrt(sums.sum(axis=1))  # pairwise: the terms of a column are next to each other
