"""X as rows that kernels can read: a view of dense or CSR data, checked; others are converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchsvm.core.data_checks import as_matrix, refuse_broken, tell_conversion
from batchsvm.core.tuning import Tuning
from batchsvm.engines.cpu.indices import indices_are_distinct, indices_increase
from batchsvm.engines.cpu.rows import CSR, Dense, unsigned
from batchsvm.engines.cpu.workers import WorkerPool


def read_rows(X: Any, pool: WorkerPool, tuning: Tuning) -> Dense | CSR:
    """The rows of X in float32 or float64, in place wherever that can be."""
    matrix = as_matrix(X)
    if isinstance(matrix, np.ndarray):
        return Dense(matrix)
    indices, starts = unsigned(matrix.indices), unsigned(matrix.indptr)
    checkers = pool if matrix.nnz >= tuning.min_parallel_nonzeros else WorkerPool()
    increasing = all(
        checkers.run(
            lambda worker: indices_increase(
                indices, starts, matrix.shape[1], *worker.portion(starts.size - 1)
            )
        )
    )
    if not (increasing or indices_are_distinct(indices, starts, np.full(matrix.shape[1], -1))):
        refuse_broken(matrix)
        tell_conversion("X", "CSR with repeated indices", "canonical CSR")
        matrix = matrix.copy()
        matrix.sum_duplicates()
        indices, starts, increasing = unsigned(matrix.indices), unsigned(matrix.indptr), True
    return CSR(matrix.data, indices, starts, matrix.shape[1], increasing)


def first_row_not_finite(rows: Dense | CSR, norms2: np.ndarray) -> tuple[int, float] | None:
    """The number of the first row that holds NaN, infinity, or a value whose square overflows,
    and that value; the norms show all of them."""
    bad = np.flatnonzero(~np.isfinite(norms2))
    if not bad.size:
        return None
    i = int(bad[0])
    row = (
        rows.values[i]
        if isinstance(rows, Dense)
        else rows.values[rows.starts[i] : rows.starts[i + 1]]
    )
    worst = row[~np.isfinite(row)]
    return i, float(worst[0] if worst.size else row[np.argmax(np.abs(row))])
