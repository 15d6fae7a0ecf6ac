"""Sums over the entries of one sparse row, in a fixed order."""

from __future__ import annotations

import numpy as np

from batchsvm.compiled import summed_in_order
from batchsvm.engines.cpu.prefetch import ENTRIES_AHEAD, prefetch


@summed_in_order
def sparse_dot(values, indices, start, stop, w):
    """The sum of values[k] * w[indices[k]], k from `start` to `stop`.

    Two sums hide how long an addition takes.  Were LLVM allowed to reorder them, it would gather
    entries of w by vector instructions, which take 1.2 to 1.6 times as long.
    """
    even, odd = 0.0, 0.0
    k, end = np.int64(start), np.int64(stop)
    while k + 1 < end:
        even += values[k] * w[indices[k]]
        odd += values[k + 1] * w[indices[k + 1]]
        k += 2
    if k < end:
        even += values[k] * w[indices[k]]
    return even + odd


@summed_in_order
def sparse_dot_in_pass(values, indices, start, stop, w):
    """The same number, in a pass over rows in the order of memory.

    The hardware sees entries coming on one page of memory, and has to find the next page when it
    gets there.  So entries some pages ahead are prefetched.
    """
    even, odd = 0.0, 0.0
    k, end = np.int64(start), np.int64(stop)
    prefetch(values, k + ENTRIES_AHEAD)
    prefetch(indices, k + ENTRIES_AHEAD)
    # 8 values of float64 are a cache line.  The last ones are left to the next loop: with <= here,
    # rows of 15 entries take 1.12 times as long.
    while k + 8 < end:
        prefetch(values, k + 8 + ENTRIES_AHEAD)
        prefetch(indices, k + 8 + ENTRIES_AHEAD)
        for j in range(k, k + 8, 2):
            even += values[j] * w[indices[j]]
            odd += values[j + 1] * w[indices[j + 1]]
        k += 8
    while k + 1 < end:
        even += values[k] * w[indices[k]]
        odd += values[k + 1] * w[indices[k + 1]]
        k += 2
    if k < end:
        even += values[k] * w[indices[k]]
    return even + odd


@summed_in_order
def sparse_add_norm2(values, indices, start, stop, c, v):
    """v[indices[k]] += c * values[k], k from `start` to `stop`, whose indices are distinct; returns
    the change of ||v||^2, by two sums."""
    even, odd = 0.0, 0.0
    k, end = np.int64(start), np.int64(stop)
    while k + 1 < end:
        i, j = indices[k], indices[k + 1]
        old, other = v[i], v[j]
        step, other_step = c * values[k], c * values[k + 1]
        v[i] = old + step
        v[j] = other + other_step
        even += step * (2.0 * old + step)
        odd += other_step * (2.0 * other + other_step)
        k += 2
    if k < end:
        old, step = v[indices[k]], c * values[k]
        v[indices[k]] = old + step
        even += step * (2.0 * old + step)
    return even + odd
