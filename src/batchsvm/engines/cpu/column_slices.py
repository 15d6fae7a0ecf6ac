"""Column slices: the rows cut down to some of their columns, one slice for each worker.

A worker that owns some columns computes its part of every <x_i, w>, and is the only one to
write its part of w: no locks, and w stays in the workers' own caches.  Columns are cut such
that each slice of a sample of rows takes about as long.  Each further slice of sparse data takes
one integer per row.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.engines.cpu.prefetch import SLICES_AHEAD, prefetch
from batchsvm.engines.cpu.rows import CSR, Biased, Dense, Rows
from batchsvm.engines.cpu.workers import Worker, WorkerPool

SAMPLED_ROWS = 128
# What an entry of a rare column costs, where one of a frequent column costs 1: its place in w is
# seldom in the cache.  Rare is a column that the sample has once.
RARE_ENTRY_COST = 1.8


class DenseSlice(NamedTuple):
    """The columns of a dense array from `start` to `stop`."""

    values: np.ndarray
    start: int
    stop: int

    def span(self, i):
        return self.start, self.stop

    dot, add, add_norm2, flush = Dense.dot, Dense.add, Dense.add_norm2, Dense.flush
    prefetch_ahead, prefetch_row = Dense.prefetch_ahead, Dense.prefetch_row


class CSRSlice(NamedTuple):
    """The part of each sparse row that lies between bounds[i, number] and bounds[i, number + 1]."""

    values: np.ndarray
    indices: np.ndarray
    bounds: np.ndarray
    number: int

    def span(self, i):
        return self.bounds[i, self.number], self.bounds[i, self.number + 1]

    def prefetch_row(self, i, j):
        prefetch(self.bounds[:, self.number], i)
        start, stop = self.span(j)
        self.prefetch_entries(np.int64(start), np.int64(stop))

    dot, add, add_norm2, flush = CSR.dot, CSR.add, CSR.add_norm2, CSR.flush
    prefetch_entries = CSR.prefetch_entries

    def prefetch_ahead(self, order, k):
        if k + 2 * SLICES_AHEAD < order.size:
            self.prefetch_row(order[k + 2 * SLICES_AHEAD], order[k + SLICES_AHEAD])


ColumnSlice = Dense | CSR | Biased | DenseSlice | CSRSlice


@Kernel
def find_bounds(worker, indices, starts, cuts, bounds):
    """Where each row's entries pass each of the column numbers `cuts`; indices increase."""
    first, last = worker.portion(starts.size - 1)
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
    """Column numbers that cut a sample of the rows into `size` parts of equal cost."""
    n = rows.shape[0]
    sample = np.unique(np.linspace(0, n - 1, SAMPLED_ROWS).astype(np.int64))
    spans = [slice(int(rows.starts[i]), int(rows.starts[i + 1])) for i in sample]
    seen = np.concatenate([rows.indices[span] for span in spans])
    if seen.size < size:
        return np.arange(1, size, dtype=np.int64) * rows.columns // size
    columns, counts = np.unique(seen, return_counts=True)
    costs = np.cumsum(np.where(counts == 1, RARE_ENTRY_COST, counts))
    shares = np.arange(1, size) * costs[-1] / size
    return columns[np.searchsorted(costs, shares, side="right")].astype(np.int64)


def slice_columns(rows: Rows, pool: WorkerPool, size: int) -> list[ColumnSlice]:
    """The rows in `size` slices; sparse rows must have increasing indices."""
    if size == 1:
        return [rows]
    if isinstance(rows, Biased):  # the constant column belongs to the last slice
        return with_bias(slice_columns(rows.base, pool, size), rows)
    if isinstance(rows, Dense):
        edges = [k * rows.shape[1] // size for k in range(size + 1)]
        return [DenseSlice(rows.values, *edge) for edge in pairwise(edges)]
    cuts = even_cuts(rows, size)
    bounds = np.empty((rows.shape[0], size + 1), rows.starts.dtype)

    def find(worker: Worker) -> None:
        find_bounds(worker, rows.indices, rows.starts, cuts, bounds)

    pool.run(find)
    return [CSRSlice(rows.values, rows.indices, bounds, k) for k in range(size)]


def with_bias(slices: list[ColumnSlice], rows: Biased) -> list[ColumnSlice]:
    """Slices of the base of these rows, with the constant column in the last of them."""
    *others, last = slices
    return [*others, Biased(last, rows.columns, rows.constant)]  # type: ignore[arg-type]
