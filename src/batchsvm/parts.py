"""Rows cut down to some of their columns, one part for each worker of a team.

A worker that owns some columns computes its part of every <x_i, w>, and is the only one to
write its part of w: no locks, and w stays in the workers' own caches.  Columns are cut such
that a sample of rows has about as many non-zeros in each part.  Each further part of sparse
data takes one integer a row.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.prefetch import PARTS_AHEAD, prefetch
from batchsvm.rows import CSR, Biased, Dense, Rows
from batchsvm.team import Team, Threads

SAMPLED_ROWS = 128


class DensePart(NamedTuple):
    """The columns of a dense array from `start` to `stop`."""

    values: np.ndarray
    start: int
    stop: int

    def span(self, i):
        return self.start, self.stop

    dot, add, add_norm2, flush = Dense.dot, Dense.add, Dense.add_norm2, Dense.flush
    expect, hint = Dense.expect, Dense.hint


class CSRPart(NamedTuple):
    """The part of each sparse row that lies between bounds[i, part] and bounds[i, part + 1]."""

    values: np.ndarray
    indices: np.ndarray
    bounds: np.ndarray
    part: int

    def span(self, i):
        return self.bounds[i, self.part], self.bounds[i, self.part + 1]

    def hint(self, i, j):
        prefetch(self.bounds[:, self.part], i)
        start, stop = self.span(j)
        self.fetch(np.int64(start), np.int64(stop))

    dot, add, add_norm2, flush = CSR.dot, CSR.add, CSR.add_norm2, CSR.flush
    fetch = CSR.fetch

    def expect(self, order, k):
        if k + 2 * PARTS_AHEAD < order.size:
            self.hint(order[k + 2 * PARTS_AHEAD], order[k + PARTS_AHEAD])


Part = Dense | CSR | Biased | DensePart | CSRPart


@Kernel
def find_bounds(team, indices, starts, cuts, bounds):
    """Where each row's entries pass each of the column numbers `cuts`; indices increase."""
    first, last = team.portion(starts.size - 1)
    for i in range(first, last):
        low, end = np.int64(starts[i]), np.int64(starts[i + 1])
        bounds[i, 0] = low
        for k in range(cuts.size):
            high = end
            while low < high:
                middle = (low + high) // 2
                if indices[middle] < cuts[k]:
                    low = middle + 1
                else:
                    high = middle
            bounds[i, k + 1] = low
        bounds[i, cuts.size + 1] = end


def even_cuts(rows: CSR, size: int) -> np.ndarray:
    """Column numbers that cut a sample of the non-zeros into `size` equal parts."""
    n = rows.shape[0]
    sample = np.unique(np.linspace(0, n - 1, SAMPLED_ROWS).astype(np.int64))
    spans = [slice(int(rows.starts[i]), int(rows.starts[i + 1])) for i in sample]
    seen = np.concatenate([rows.indices[span] for span in spans])
    if seen.size < size:
        return np.arange(1, size, dtype=np.int64) * rows.columns // size
    places = np.arange(1, size) * seen.size // size
    return np.partition(seen, places)[places].astype(np.int64)


def split(rows: Rows, threads: Threads, size: int) -> list[Part]:
    """The rows in `size` parts; sparse rows must have increasing indices."""
    if size == 1:
        return [rows]
    if isinstance(rows, Biased):  # the constant column belongs to the last part
        *others, last = split(rows.base, threads, size)
        return [*others, Biased(last, rows.columns, rows.constant)]  # type: ignore[arg-type]
    if isinstance(rows, Dense):
        edges = [k * rows.shape[1] // size for k in range(size + 1)]
        return [DensePart(rows.values, *edge) for edge in pairwise(edges)]
    cuts = even_cuts(rows, size)
    bounds = np.empty((rows.shape[0], size + 1), rows.starts.dtype)

    def find(team: Team) -> None:
        find_bounds(team, rows.indices, rows.starts, cuts, bounds)

    threads.together(find)
    return [CSRPart(rows.values, rows.indices, bounds, k) for k in range(size)]
