"""Inner products and norms of vectors, without BLAS.

The threads of BLAS go on spinning for a while after their work, on cores that ours need.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from batchsvm.compiled import Kernel

CHUNK = 64  # terms that are summed up one after another; then these sums pairwise


@Kernel
def _chunk_products(u, v, out):
    for k in range(out.size):
        total = 0.0
        for j in range(k * CHUNK, min((k + 1) * CHUNK, u.size)):
            total += u[j] * v[j]
        out[k] = total


def inner(u: np.ndarray, v: np.ndarray) -> float:
    """<u, v>."""
    sums = np.empty(-(-u.size // CHUNK))
    _chunk_products(u, v, sums)
    return float(sums.sum())


def norm(v: np.ndarray) -> float:
    """||v||."""
    return sqrt(inner(v, v))
