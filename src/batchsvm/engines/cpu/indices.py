"""The index arrays of sparse rows: whether they are in order, and how long the longest row is."""

from __future__ import annotations

import numpy as np

from batchsvm.compiled import Kernel, callable_in_kernels

ROWS_PER_CHECK = 64  # whose indices are compared in one loop


@Kernel
def longest_row(starts):
    """The number of non-zeros in the longest row."""
    longest = np.int64(0)
    for i in range(starts.size - 1):
        longest = max(longest, np.int64(starts[i + 1]) - np.int64(starts[i]))
    return longest


@Kernel
def indices_increase(indices, starts, columns, begin, end):
    """Whether, in rows from `begin` to `end`, starts grow, and indices increase strictly and
    are below `columns`."""
    for first in range(begin, end, ROWS_PER_CHECK):
        last = min(first + ROWS_PER_CHECK, end)
        if not _are_in_order(indices, starts, columns, first, last):
            return False
    return True


def _are_in_order(indices, starts, columns, first, last):
    begin, end = np.int64(starts[first]), np.int64(starts[last])
    # Indices fall from a row to the next one; within a row they must not.
    allowed = np.int64(0)
    for i in range(first, last):
        start, stop = np.int64(starts[i]), np.int64(starts[i + 1])
        if start < 0 or start > stop or stop > indices.size:  # below 0: from 2^63 on, unsigned
            return False
        if start < stop:
            largest = np.int64(indices[stop - 1])
            if largest < 0 or largest >= columns:
                return False
            if start > begin:
                allowed += indices[start] <= indices[start - 1]
    part, falls = indices[begin:end], np.int64(0)
    for k in range(1, part.size):  # without a way out, so that it is vectorised
        falls += part[k] <= part[k - 1]
    return falls == allowed


callable_in_kernels(_are_in_order)


@Kernel
def indices_are_distinct(indices, starts, last_row):
    """Whether no row has an index twice or beyond the columns; last_row is -1 for each column."""
    for i in range(starts.size - 1):
        start, stop = np.int64(starts[i]), np.int64(starts[i + 1])
        if start < 0 or start > stop or stop > indices.size:
            return False
        for k in range(start, stop):
            index = np.int64(indices[k])
            if index < 0 or index >= last_row.size or last_row[index] == i:
                return False
            last_row[index] = i
    return True
