"""The compiled engine's data set: X in this machine's memory, and the threads that work on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np

from batchsvm.core.data_checks import refuse_infinite
from batchsvm.core.problem import Problem
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines.cpu.column_slices import ColumnSlice, slice_columns, with_bias
from batchsvm.engines.cpu.passes import blocks_for, blocks_of, over_blocks
from batchsvm.engines.cpu.problem import CpuProblem
from batchsvm.engines.cpu.read import first_row_not_finite, read_rows
from batchsvm.engines.cpu.rows import (
    CSR,
    Biased,
    Dense,
    Rows,
    absolute_sums,
    add_rows,
    as_scipy,
    densify,
    gram_coefficients,
    products,
    some_norms2,
    some_rows,
)
from batchsvm.engines.cpu.steppers import make_stepper
from batchsvm.engines.cpu.workers import Worker, WorkerPool
from batchsvm.engines.host_dataset import HostDataset
from batchsvm.engines.host_problem import AlphaOf
from batchsvm.engines.trainer import HostTrainer
from batchsvm.methods import Method


class PlacedRows:
    """What all views of one placed data set share."""

    def __init__(self, rows: Dense | CSR) -> None:
        self.rows = rows
        self.norms2: np.ndarray | None = None
        self.slices: dict[int, list[ColumnSlice]] = {}
        self.lock = Lock()
        self.memo: dict[Any, Any] = {}


class CpuDataset(HostDataset):
    """A `Dataset`: see `engines/protocol.py`."""

    engine = "cpu"

    def __init__(
        self,
        placed: PlacedRows,
        jobs: int = 1,
        tuning: Tuning = DEFAULT_TUNING,
        keeps_norms: bool = True,
        pool: WorkerPool | None = None,
    ) -> None:
        self._placed, self._rows, self.memo = placed, placed.rows, placed.memo
        self.jobs, self.tuning, self.keeps_norms = jobs, tuning, keeps_norms
        self.n, self.d = placed.rows.shape
        self.nonzeros, self.sliceable = placed.rows.nonzeros, placed.rows.increasing
        self.pool = WorkerPool(jobs) if pool is None else pool
        # The workers that pass over all rows; kernels may be run by all of them.
        least = tuning.min_parallel_nonzeros
        if self.d <= tuning.max_exchanged_columns:
            least = min(least, tuning.min_shared_pass_nonzeros)
        worth = max(2, self.nonzeros // tuning.min_worker_pass_nonzeros)
        self.pass_pool = self.pool.limited_to(worth) if self.nonzeros >= least else WorkerPool()
        self._blocks = blocks_of(self.n, self.pass_pool.size, tuning.max_block_rows)
        self._rows_pool = self.pass_pool.limited_to(max(1, self.n // tuning.min_worker_rows))

    # What it is.

    @property
    def rows(self) -> Dense | CSR:
        self.require_open()
        return self._rows

    @property
    def norms2(self) -> np.ndarray:
        """||x_i||^2 of every row."""
        placed = self._placed
        if placed.norms2 is None:
            found = np.empty(self.n)
            self.pass_over_blocks(lambda i, j: some_norms2(self.rows, i, found[i:j]))
            self.refuse_infinite(found)
            placed.norms2 = found
        return placed.norms2

    @cached_property
    def longest_row(self) -> int:
        """The non-zeros of the longest row."""
        return self.rows.longest

    @cached_property
    def mean_norm2(self) -> float:
        if self.keeps_norms:  # which every problem needs
            return float((self.norms2 / self.n).sum())
        rows = self.rows
        axes = "i,i->" if isinstance(rows, CSR) else "ij,ij->"
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(np.einsum(axes, rows.values, rows.values, dtype=np.float64))
        if np.isfinite(total):
            return total / self.n
        return float((self.norms2 / self.n).sum())  # refuses X, unless the sum alone overflows

    @property
    def bytes_per_row(self) -> float:
        return self.rows.nbytes / self.n

    def column_slices(self, size: int, bias: float | None = None) -> list[ColumnSlice]:
        """The rows in a slice of the columns for each of so many workers; made once."""
        placed, rows = self._placed, self._biased(bias)
        if size == 1:
            return [rows]
        with placed.lock:
            if size not in placed.slices:
                placed.slices[size] = slice_columns(placed.rows, self.pool, size)
        slices = placed.slices[size]
        return with_bias(slices, rows) if isinstance(rows, Biased) else slices

    def refuse_infinite(self, norms2: np.ndarray) -> None:
        refuse_infinite(first_row_not_finite(self.rows, norms2))

    def _biased(self, bias: float | None) -> Rows:
        return self.rows if bias is None else Biased(self.rows, self.d, bias)

    # Other data sets over the same rows.

    def sample(self, rows: np.ndarray) -> Any:
        taken = some_rows(self.rows, np.asarray(rows))
        return as_scipy(taken) if isinstance(taken, CSR) else taken.values.astype(np.float64)

    def subset(self, rows: np.ndarray) -> CpuDataset:
        rows = np.asarray(rows)
        part = PlacedRows(some_rows(self.rows, rows))
        part.norms2 = self.norms2[rows]
        return CpuDataset(part, self.jobs, self.tuning)

    def share(self, jobs: int) -> CpuDataset:
        self.require_open()
        return CpuDataset(self._placed, jobs, self.tuning, self.keeps_norms)

    # Passes.

    def over_blocks(self, work: Callable[[int, int], Any]) -> list[Any]:
        self.require_open()
        return over_blocks(self._blocks, self._rows_pool, work)

    def pass_over_blocks(self, work: Callable[[int, int], Any]) -> list[Any]:
        """The same for work that reads X."""
        self.require_open()
        return over_blocks(self._blocks, self.pass_pool, work)

    def blocks_for(self, worker: Worker) -> list[tuple[int, int]]:
        """The blocks of rows that one of the workers of `pass_pool` takes."""
        return [self._blocks[k] for k in blocks_for(worker, len(self._blocks))]

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.rows, CSR)

    def bind(self, problem: Problem) -> CpuProblem:
        return CpuProblem(self, problem)

    def combine(self, coefficients: AlphaOf, bias: float | None) -> np.ndarray:
        rows, pool = self._biased(bias), self.pass_pool
        p = rows.shape[1]
        if self.adds_up_vectors(p):
            return self.add_up(pool.run(partial(self._add_own, rows, coefficients)))
        v = np.zeros(p)
        workers = pool.size if self.sliceable else 1
        if workers == 1:
            for start, stop in self._blocks:
                add_rows(rows, start, coefficients(start, stop), v)
            return v
        c = np.empty(self.n)

        def fill(start: int, stop: int) -> None:
            c[start:stop] = coefficients(start, stop)

        self.over_blocks(fill)  # by rows; then each worker to its columns
        slices = self.column_slices(workers, bias)
        pool.run(lambda worker: add_rows(slices[worker.rank], 0, c, v))
        return v

    def adds_up_vectors(self, columns: int) -> bool:
        """Whether, for a combination of rows, each worker has a vector of its own: columns are few,
        or few beside the entries."""
        if columns <= self.tuning.max_exchanged_columns:
            return True
        workers = self.pass_pool.size
        return workers > 1 and self.tuning.entries_per_sum * workers * columns <= self.nonzeros

    def add_up(self, vectors: list[np.ndarray]) -> np.ndarray:
        """The sum of a vector of each worker of `pass_pool`."""
        size = vectors[0].size
        if len(vectors) == 1:
            return vectors[0]
        if size <= self.tuning.max_exchanged_columns:
            return np.sum(vectors, axis=0)
        total = np.empty(size)

        def add(worker: Worker) -> None:
            part = slice(*worker.portion(size))
            np.add(vectors[0][part], vectors[1][part], out=total[part])
            for vector in vectors[2:]:
                total[part] += vector[part]

        self.pass_pool.run(add)
        return total

    def _add_own(self, rows: Rows, coefficients: AlphaOf, worker: Worker) -> np.ndarray:
        v = np.zeros(rows.shape[1])
        for start, stop in self.blocks_for(worker):
            add_rows(rows, start, coefficients(start, stop), v)
        return v

    def gram_times(
        self, V: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> np.ndarray:
        rows, tuning = self._biased(bias), self.tuning
        entries = min(self.n, tuning.dense_block_rows) * V.shape[0]
        many = V.shape[1] >= tuning.min_dense_block_vectors
        if many and entries <= tuning.max_dense_block_entries:
            return self._dense_gram_times(rows, V, normalize)
        columns = [self._gram_times_one(rows, v, normalize) for v in np.ascontiguousarray(V.T)]
        return np.column_stack(columns)

    def _gram_times_one(self, rows: Rows, v: np.ndarray, normalize: bool) -> np.ndarray:
        def own(worker: Worker) -> np.ndarray:
            out = np.zeros(v.size)
            for start, stop in self.blocks_for(worker):
                u = np.empty(stop - start)
                gram_coefficients(rows, start, v, u, bool(normalize))
                add_rows(rows, start, u, out)
            return out

        return np.sum(self.pass_pool.run(own), axis=0)

    def _dense_gram_times(self, rows: Rows, V: np.ndarray, normalize: bool) -> np.ndarray:
        out, size = np.zeros(V.shape), self.tuning.dense_block_rows
        for start in range(0, self.n, size):
            part = np.zeros((min(size, self.n - start), V.shape[0]))
            densify(rows, start, part)
            if normalize:
                norms = np.sqrt(np.einsum("ij,ij->i", part, part))
                part /= np.where(norms > 0, norms, 1.0)[:, np.newaxis]
            out += part.T @ (part @ V)
        return out

    def absolute_sums(
        self, normalize: bool = True, bias: float | None = None
    ) -> tuple[np.ndarray, float]:
        rows = self._biased(bias)
        columns = np.zeros(rows.shape[1])
        return columns, float(absolute_sums(rows, self.n, columns, bool(normalize)))

    def column_norms2(self) -> np.ndarray:
        rows = self.rows
        if isinstance(rows, Dense):
            return np.einsum("ij,ij->j", rows.values, rows.values, dtype=np.float64)
        squares = rows.values.astype(np.float64) ** 2
        return np.bincount(rows.indices.astype(np.intp), squares, minlength=self.d)

    def scores(self, W: np.ndarray) -> np.ndarray:
        out = np.empty((self.n, W.shape[1]), order="F")
        rows = np.ascontiguousarray(W.T, dtype=np.float64)
        for k in range(W.shape[1]):
            w, column = rows[k], out[:, k]
            self.pass_over_blocks(partial(_multiply, self.rows, w, column))
        return out

    def problems_at_once(self, method: Method | None = None) -> float:
        return 1

    def trainer(self, problem: Problem) -> HostTrainer:
        return HostTrainer(self.bound_anew(problem), make_stepper, self.bytes_per_row, self.tuning)

    def close(self) -> None:
        super().close()
        self.pool.close()


def _multiply(rows: Rows, w: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    products(rows, start, w, out[start:stop])


def place(
    X: Any, jobs: int = 1, tuning: Tuning = DEFAULT_TUNING, keeps_norms: bool = True
) -> CpuDataset:
    """X in this machine's memory, used in place; `keeps_norms` for more than one problem."""
    pool = WorkerPool(jobs)
    try:
        placed = PlacedRows(read_rows(X, pool, tuning))
    except BaseException:
        pool.close()
        raise
    keeps_norms = keeps_norms or placed.rows.shape[0] <= tuning.max_block_rows
    return CpuDataset(placed, jobs, tuning, keeps_norms, pool)
