"""The index arrays of sparse rows: whether they are in order, and how long the longest row is."""

from __future__ import annotations

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.engines.cpu.prefetch import ENTRIES_AHEAD, prefetch_lines


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
    for i in range(begin, end):
        start, stop = np.int64(starts[i]), np.int64(starts[i + 1])
        if start < 0 or start > stop or stop > indices.size:  # below 0: from 2^63 on, unsigned
            return False
        if start == stop:
            continue
        prefetch_lines(indices, start + ENTRIES_AHEAD, stop + ENTRIES_AHEAD)
        falls = 0
        for k in range(start + 1, stop):  # without a way out, so that it is vectorised
            falls += indices[k] <= indices[k - 1]
        last = np.int64(indices[stop - 1])
        if falls or last < 0 or last >= columns:
            return False
    return True


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
