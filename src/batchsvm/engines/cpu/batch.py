"""What the workers tell each other about the batch at hand.

What a worker writes no other writes, in this or any other batch, and next to nothing of it is
read by others: a cache line that another core has written costs more than a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import struct_methods
from batchsvm.engines.cpu.column_slices import ColumnSlice
from batchsvm.engines.cpu.prefetch import ROWS_AHEAD, prefetch
from batchsvm.engines.cpu.workers import Worker


class Batch(NamedTuple):
    """A line of each array is a worker's."""

    size: int  # rows of the batch
    products: np.ndarray  # <x_i, w> over the worker's columns, for each row of the batch
    counts: np.ndarray  # how many of the batch's rows are listed in what follows
    rows: np.ndarray
    coefficients: np.ndarray  # of x_i in what is to be added to w or to Delta
    responses: np.ndarray
    new: np.ndarray  # alpha_i / c_i after the step
    moved: np.ndarray
    totals: np.ndarray  # sums over the worker's rows and over its columns
    due: np.ndarray  # whether a full pass is due: one truth value

    def multiply(self, worker, rows, examples, order, start, w):
        """A worker's part of <x_i, w> for the batch that starts at `start`."""
        first, last = worker.portion(examples.size)
        for k in range(start, start + self.size):
            rows.prefetch_ahead(order, k)
            ahead = order[min(k + ROWS_AHEAD, order.size - 1)]
            if first <= ahead < last:  # fetched by another, it would have to come back
                prefetch(examples, ahead)
            self.products[worker.rank, k - start] = rows.dot(order[k], w)

    def product(self, k):
        """<x_i, w> of the k-th row, of the parts that the workers have computed."""
        total = 0.0
        for other in range(self.products.shape[0]):
            total += self.products[other, k]
        return total

    def slack_of(self, screening):
        """The slack, where the workers have put rows seen and violation in `totals`."""
        seen, violation = 0.0, 0.0
        for worker in range(self.totals.shape[0]):
            seen += self.totals[worker, 0]
            violation += self.totals[worker, 1]
        return screening.slack(seen, violation)


struct_methods(Batch.multiply, Batch.product, Batch.slack_of)


class BatchWorker(NamedTuple):
    """One of the workers that share batches: its slice of the columns, and the batch at hand."""

    worker: Worker
    rows: ColumnSlice
    batch: Batch


def make_batch(workers: int, size: int) -> Batch:
    # Lines are padded, or two workers would write to one cache line.
    wide = (workers, -(-size // 8) * 8 + 8)
    return Batch(
        size=size,
        products=np.zeros(wide),
        counts=np.zeros((workers, 16), np.int64),
        rows=np.zeros(wide, np.int64),
        coefficients=np.zeros(wide),
        responses=np.zeros(wide),
        new=np.zeros(wide),
        moved=np.zeros(wide, np.int64),
        totals=np.zeros((workers, 16)),
        due=np.zeros(1, np.bool_),
    )
