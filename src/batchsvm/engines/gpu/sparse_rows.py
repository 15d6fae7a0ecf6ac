"""Sparse rows on the device (CSR), in the numbers and indices that they came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.rows import ITEM_BYTES
from batchsvm.engines.gpu.strips import padded_columns


class CsrRows:
    """The `DeviceRows` of a CSR matrix without repeated indices; within a row, they are in any
    order.

    `combine` adds with atomic operations, so that its result is rounded differently from call to
    call, within the bounds of `core/rounding.py`.  With `deterministic` it has the same bits every
    time: it then keeps a transposed copy of the rows, and sums up column by column.
    """

    is_dense = False
    deterministic = False

    def __init__(
        self,
        device: CudaDevice,
        values: Any,
        indices: Any,
        starts: Any,
        d: int,
        nonzeros: int,
        longest: int = 0,
    ) -> None:
        """`nonzeros` and `longest`, the most of a row, are known to whoever has made the parts."""
        self.device, self.values, self.indices, self.starts = device, values, indices, starts
        self.kind = str(values.dtype)
        self.n, self.d = len(starts) - 1, d
        self.nonzeros, self.longest = nonzeros, longest
        self.known_norms2: tuple[Any, float] | None = None  # what `norms2` returns
        self._columns: CsrRows | None = None

    @property
    def nbytes(self) -> int:
        entry = ITEM_BYTES[self.kind] + self.indices.dtype.itemsize
        return entry * self.nonzeros + self.starts.dtype.itemsize * len(self.starts)

    def norms2(self) -> tuple[Any, float]:
        if self.known_norms2 is None:
            out = self.device.xp.empty(self.n)
            self.device.kernels.csr_norms2(self, out)
            self.known_norms2 = out, float(out.max())
        return self.known_norms2

    def dense(self, cut: Any) -> Any:
        out = self.device.xp.zeros((cut.size, self.d))
        self.device.kernels.csr_dense(self, cut, out)
        return out

    def work_columns(self, K: int) -> int:
        return K

    def products(self, cut: Any, W: Any, out: Any) -> None:
        self.device.kernels.csr_products(self, cut, self.device.xp.ascontiguousarray(W), out)

    def combine(self, cut: Any, coefficients: Any, out: Any) -> None:
        kernels, xp = self.device.kernels, self.device.xp
        coefficients = xp.ascontiguousarray(coefficients)
        if not self.deterministic:
            found = xp.zeros((len(out), padded_columns(self.d)))
            kernels.csr_combine(self, cut, coefficients, found)
            kernels.from_strips(found.T, out, adds=True)
            return
        of_rows = xp.zeros((len(coefficients), self.n))
        places = xp.flatnonzero(cut >= 0)
        of_rows[:, cut[places]] = coefficients[:, places]
        kernels.csr_columns(self._transposed(), of_rows, out)

    def _transposed(self) -> CsrRows:
        """The columns as rows, each in the order of its rows."""
        if self._columns is None:
            xp, end = self.device.xp, self.nonzeros
            indices = self.indices[:end]
            order = xp.argsort(indices, kind="stable")
            starts = xp.searchsorted(indices[order], xp.arange(self.d + 1, dtype=indices.dtype))
            numbers = rows_of_entries(xp, self.starts, end)[order]
            values, starts = self.values[:end][order], starts.astype(np.int64)
            self._columns = CsrRows(self.device, values, numbers, starts, self.n, end)
        return self._columns

    def take(self, rows: Any) -> CsrRows:
        return self._take(rows.astype(np.int64))[0]

    def _take(self, rows: Any) -> tuple[CsrRows, np.ndarray]:
        """These rows, and on this host where each of them starts."""
        device, xp = self.device, self.device.xp
        begins, ends = device.to_host(self.starts[xp.stack([rows, rows + 1])]).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(ends - begins)])
        count, longest = int(starts[-1]), int((ends - begins).max())
        taken = CsrRows(
            device,
            xp.empty(count, self.values.dtype),
            xp.empty(count, self.indices.dtype),
            device.upload(starts, self.starts.dtype if count < 2**31 else np.int64),
            self.d,
            count,
            longest,
        )
        if count:
            device.kernels.csr_take(self, rows, taken)
        taken.deterministic = self.deterministic
        return taken, starts

    def to_host(self, rows: np.ndarray) -> Any:
        taken, starts = self._take(self.device.upload(np.asarray(rows, dtype=np.int64)))
        fetch = self.device.to_host
        parts = fetch(taken.values).astype(np.float64), fetch(taken.indices), starts
        return scipy.sparse.csr_array(parts, shape=(taken.n, self.d))


def rows_of_entries(xp: Any, starts: Any, count: int) -> Any:
    """The row of each entry, int32."""
    entries = xp.arange(count, dtype=starts.dtype)
    return (xp.searchsorted(starts, entries, side="right") - 1).astype(np.int32)
