"""Launches of the kernels for sparse rows (csr.cu), for mini-batch steps (sparse.cu) and for
asynchronous ones (asynchronous.cu).

`tests/simulated_sparse.py` has the same methods in NumPy.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.engines.gpu.kernels import (
    CTYPES,
    THREADS,
    CudaKernels,
    _source_of,
    _targets,
    _typed,
    parameter_of,
)
from batchsvm.engines.gpu.strips import STRIPS
from batchsvm.methods.asynchronous import ROUNDING

if TYPE_CHECKING:
    from batchsvm.engines.gpu.asynchronous import AsynchronousState
    from batchsvm.engines.gpu.sparse import BatchState
    from batchsvm.engines.gpu.sparse_rows import CsrRows

INDEX_TYPES = {np.dtype(np.int32): "int", np.dtype(np.int64): "long long"}
BLOCKS_PER_MULTIPROCESSOR = 2  # more make waiting longer, fewer leave memory idle
BLOCKS_OF_ROWS = 2  # for asynchronous steps
PROBLEMS_AT_ONCE = 4  # for which a product reads a row once: AT_ONCE of csr.cu
MANY_WARPS = 2**13  # fill a device
COLUMNS_PER_THREAD = 4  # of the pass over w, before more threads are worth the waiting


class Setting(IntEnum):
    """Numbers of a fit that stay as they are."""

    UNIT = 0  # 1/(lam N)
    BIAS = 1
    LEAST_NORM2 = 2  # 1 makes the step the literal one
    BETA_B = 3
    GAMMA = 4
    LAM = 5
    SHARE = 6  # of Pegasos: what a row's subgradient is multiplied by
    RADIUS = 7  # -1 for none
    PARAMETER = 8  # of the loss
    LIMIT = 9  # the longest step in fixed point


class Control(IntEnum):
    """Numbers that one launch leaves to the next one."""

    BETA = 0
    REFUSED = 1
    ESTIMATE = 2  # N times the gap that the epoch has shown so far
    TURN = 3  # which of the two deltas, and of the two lines of sums, is clear
    ITERATIONS = 4  # t of Pegasos
    SHRINK = 5  # what v of Pegasos is still to be multiplied by, since it was projected
    SHOWN = 6  # N times the gap that the last whole epoch has shown
    DONE = 7  # iterations that the last launch has made


class EpochControl(IntEnum):
    """Numbers that a launch of asynchronous steps leaves to the next one."""

    AT_ONCE = 0  # rows that are worked on at once
    POSITION = 1  # visits of the epoch that is under way
    EPOCHS = 2  # that have ended in the last launch
    VISITS = 3  # of the last launch
    ENOUGH = 4  # whether the last epoch has shown gaps within the goals


class Line(IntEnum):
    """Lines of numbers that asynchronous steps keep of each problem."""

    SQUARE = 0  # ||w||^2 lam N / 2 when the epoch began
    SHOWN = 1  # N times the gap that the last epoch has shown
    REFUSED = 2  # epochs that were taken back
    FELL = 3  # whether the last one was
    GOAL = 4  # N times the gap to be shown


SUMS = 5  # that an iteration makes: see sparse.cu
COPIES, EPOCH_SUMS = 32, 3  # of the sums of an epoch: see asynchronous.cu
PLACES = 1024  # for parts of a sum in a fixed order, one of each block


class DeviceKernels(CudaKernels):
    """All kernels: those of `CudaKernels`, and these."""

    def __init__(self, cupy: Any) -> None:
        super().__init__(cupy)
        self._room: dict[int, int] = {}

    # Sparse rows (csr.cu).

    def _csr(self, rows: CsrRows, name: str, count: int, arguments: tuple[Any, ...]) -> None:
        """Launch a kernel with one warp for each of `count`."""
        defines = {**_source_of(rows), **_index_of(rows), "STRIPS": STRIPS}
        kernel = self.function("csr.cu", name, "float64", **defines)
        blocks = max(1, -(-count * 32 // THREADS))
        kernel((blocks,), (THREADS,), _typed((*_arrays_of(rows), *arguments)))

    def csr_check(self, rows: CsrRows, norms2: Any, facts: Any) -> None:
        """||x_i||^2 of every row that is there, and what `sparse_read.CsrFact` names, where all of
        it has been 0; the rows need not fit together."""
        arguments = norms2, facts, np.int64(rows.n), np.int64(rows.indices.size)
        self._csr(rows, "csr_check", rows.n, arguments)

    def csr_norms2(self, rows: CsrRows, out: Any) -> None:
        self._csr(rows, "csr_norms2", rows.n, (out, np.int64(rows.n)))

    def csr_dense(self, rows: CsrRows, cut: Any, out: Any) -> None:
        """out (rows of the cut, d) = the rows, where out has been 0."""
        self._csr(rows, "csr_dense", cut.size, (cut, cut.size, out, rows.d))

    def csr_products(self, rows: CsrRows, cut: Any, W: Any, out: Any) -> None:
        """out (K, rows of the cut) = <w_k, x_i>; several warps share a row where rows are few."""
        shares = max(1, min(-(-len(W) // PROBLEMS_AT_ONCE), MANY_WARPS // max(cut.size, 1)))
        arguments = cut, cut.size, W, out, len(W), rows.d, shares
        self._csr(rows, "csr_products", cut.size * shares, arguments)

    def csr_combine(self, rows: CsrRows, cut: Any, coefficients: Any, out: Any) -> None:
        """out (K, places) += sum_i c_ki x_i in strips, in no fixed order."""
        arguments = cut, cut.size, coefficients, out, len(out), out.shape[1] // STRIPS
        self._csr(rows, "csr_combine", cut.size, arguments)

    def from_strips(self, array: Any, out: Any, adds: bool = False) -> None:
        """out (K, columns) = what is in strips, (places, K), in the order of the columns; added to
        what is there if `adds` (strips.cu)."""
        source = CTYPES[str(array.dtype)]
        kernel = self.function("strips.cu", "from_strips", "float64", SOURCE=source, STRIPS=STRIPS)
        strides = (np.int64(stride // array.itemsize) for stride in array.strides)
        arguments = array, *strides, out, *out.shape, len(array) // STRIPS, int(adds)
        kernel((-(-out.size // THREADS),), (THREADS,), _typed(arguments))

    def csr_columns(self, columns: CsrRows, coefficients: Any, out: Any) -> None:
        """The same from the transposed rows, in a fixed order; coefficients (K, n) of all rows."""
        arguments = coefficients, np.int64(columns.d), out, len(out), columns.n
        self._csr(columns, "csr_columns", columns.n, arguments)

    def csr_take(self, rows: CsrRows, chosen: Any, taken: CsrRows) -> None:
        """The entries of the chosen rows, whose starts are known, into `taken`."""
        starts = taken.starts.astype(np.int64)
        arguments = chosen, starts, taken.values, taken.indices, np.int64(taken.n)
        self._csr(rows, "csr_take", taken.n, arguments)

    # Mini-batch steps (sparse.cu).

    def column_peaks(self, rows: Any, out: Any) -> None:
        """out (d,) = the largest |x_ij| of every column, where out has been 0."""
        defines = {**_source_of(rows), **_index_of(rows)}
        kernel = self.function(
            "peaks.cu", "column_peaks", "float64", **defines, DENSE=int(rows.is_dense)
        )
        arguments = *_arrays_of(rows), out, np.int64(rows.n), rows.d
        kernel((-(-rows.n * 32 // THREADS),), (THREADS,), _typed(arguments))

    def train_batches(self, state: BatchState, first: int, count: int, target: float) -> None:
        """Iterations with up to `count` batches of the order, from the place `first` on; they end
        with an epoch that has shown a gap of at most target / N.  A count of 0 compiles what the
        next call needs."""
        s, rows = state, state.rows
        assert first + count <= len(s.order)
        defines = {**_source_of(rows), **_index_of(rows)}
        raw = self.function(
            "sparse.cu", "train", s.real, s.loss, **defines, DENSE=int(rows.is_dense),
            RULE=s.rule, THREADS=THREADS, BLOCKS=BLOCKS_PER_MULTIPROCESSOR,
            DETERMINISTIC=int(s.scales is not None),
        )  # fmt: skip
        kernel = raw.kernel  # a function of the device: here it is compiled
        if not count:
            return
        arguments = (
            *_arrays_of(rows), s.norms2, s.cut, s.order, first, count, len(s.cut), s.B,
            np.float64(target), *_targets(s.targets), s.constants, s.problems, s.settings, s.scales,
            rows.d, len(s.w), s.w, s.deltas, s.alpha, s.before, s.control, s.sums, s.arrived,
        )  # fmt: skip
        for_rows = -(-s.B * 32 // THREADS)
        for_columns = -(-len(s.w) // (COLUMNS_PER_THREAD * THREADS))
        blocks = min(max(for_rows, for_columns), self._resident_blocks(kernel))
        assert blocks <= PLACES
        # Launched so, all blocks are on the device at the same time, or it is an error.
        kernel((blocks,), (THREADS,), _typed(arguments), enable_cooperative_groups=True)

    # Asynchronous steps (asynchronous.cu).

    def train_rows(self, state: AsynchronousState, epoch: int, visits: int) -> None:
        """So many visits at the most, from the epoch of this number on; they end with an epoch that
        has shown gaps within the goals.  None compile what the next call needs."""
        s, rows = state, state.rows
        raw = self.function(
            "asynchronous.cu", "train", s.real, s.loss, **_source_of(rows), **_index_of(rows),
            GROUP=min(32, 1 << (s.K - 1).bit_length()), THREADS=THREADS,
            BLOCKS=BLOCKS_OF_ROWS, ROUNDING=ROUNDING[s.real], STRIPS=STRIPS,
        )  # fmt: skip
        kernel = raw.kernel
        if not visits:
            return
        real = np.dtype(s.real).type
        arguments = (
            *_arrays_of(rows), s.norms2, np.uint64(s.key), np.uint64(epoch), np.int64(rows.n),
            np.int64(visits),
            *_targets(s.targets), s.constants, s.problems, s.units, s.biases,
            np.float64(s.share), real(parameter_of(s.loss)), s.K, rows.d, len(s.W) // STRIPS,
            np.int64(len(s.alpha)), s.W, s.alpha, s.W_before, s.alpha_before, s.control, s.lines,
            s.sums, s.arrived,
        )  # fmt: skip
        # A warp for each row that may be worked on at once, and threads enough for a pass over W.
        for_rows = -(-s.most_at_once * 32 // THREADS)
        for_columns = -(-s.W.size // (COLUMNS_PER_THREAD * THREADS))
        blocks = min(max(for_rows, for_columns), self._resident_blocks(kernel, BLOCKS_OF_ROWS))
        kernel((blocks,), (THREADS,), _typed(arguments), enable_cooperative_groups=True)

    def _resident_blocks(self, kernel: Any, most: int = BLOCKS_PER_MULTIPROCESSOR) -> int:
        """So many blocks can be on the device at the same time, if no multiprocessor has more than
        `most`."""
        if kernel.ptr not in self._room:
            cuda = self._cupy.cuda
            room = cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.ptr, THREADS, 0)
            room = min(max(room, 1), most)
            self._room[kernel.ptr] = room * cuda.Device().attributes["MultiProcessorCount"]
        return self._room[kernel.ptr]


def _index_of(rows: Any) -> dict[str, Any]:
    if rows.is_dense:
        return {"INDEX": "int", "START": "int"}  # which nobody reads
    indices, starts = (INDEX_TYPES[part.dtype] for part in (rows.indices, rows.starts))
    return {"INDEX": indices, "START": starts}


def _arrays_of(rows: Any) -> tuple[Any, Any, Any]:
    if rows.is_dense:
        return rows.values, None, None
    return rows.values, rows.indices, rows.starts
