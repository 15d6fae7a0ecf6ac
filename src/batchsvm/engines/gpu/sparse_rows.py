"""Sparse rows on the device (CSR), in the numbers and indices that they came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.core.data_checks import tell_conversion
from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.rows import ITEM_BYTES

REPEATED = "CSR with repeated indices"


class CsrRows:
    """The `DeviceRows` of a CSR matrix without repeated indices; within a row, they are in any
    order.

    `combine` adds with atomic operations, so that its result is rounded differently from call to
    call, within the bounds of `core/rounding.py`.  With `deterministic` it has the same bits every
    time: it then keeps a transposed copy of the rows, and sums up column by column.
    """

    is_dense = False
    deterministic = False

    def __init__(self, device: CudaDevice, values: Any, indices: Any, starts: Any, d: int) -> None:
        self.device, self.values, self.indices, self.starts = device, values, indices, starts
        self.kind = str(values.dtype)
        self.n, self.d = len(starts) - 1, d
        self.nonzeros = int(starts[-1])
        self.longest = int((starts[1:] - starts[:-1]).max())
        entry = ITEM_BYTES[self.kind] + indices.dtype.itemsize
        self.nbytes = entry * self.nonzeros + starts.dtype.itemsize * len(starts)
        self._columns: CsrRows | None = None

    def norms2(self) -> Any:
        out = self.device.xp.empty(self.n)
        self.device.kernels.csr_norms2(self, out)
        return out

    def products(self, cut: Any, W: Any, out: Any) -> None:
        self.device.kernels.csr_products(self, cut, self.device.xp.ascontiguousarray(W), out)

    def combine(self, cut: Any, coefficients: Any, out: Any) -> None:
        kernels, xp = self.device.kernels, self.device.xp
        coefficients = xp.ascontiguousarray(coefficients)
        if not self.deterministic:
            kernels.csr_combine(self, cut, coefficients, out)
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
            numbers = _rows_of_entries(xp, self.starts, end)[order]
            self._columns = CsrRows(
                self.device, self.values[:end][order], numbers, starts.astype(np.int64), self.n
            )
        return self._columns

    def release(self) -> None:
        """Give the transposed copy back."""
        self._columns = None

    def take(self, rows: Any) -> CsrRows:
        xp = self.device.xp
        rows = rows.astype(np.int64)
        lengths = (self.starts[1:] - self.starts[:-1])[rows]
        starts = xp.zeros(len(rows) + 1, np.int64)
        starts[1:] = xp.cumsum(lengths, dtype=np.int64)
        count = int(starts[-1])
        starts = starts.astype(self.starts.dtype if count < 2**31 else np.int64)
        taken = CsrRows(
            self.device,
            xp.empty(count, self.values.dtype),
            xp.empty(count, self.indices.dtype),
            starts,
            self.d,
        )
        if count:
            self.device.kernels.csr_take(self, rows, taken)
        taken.deterministic = self.deterministic
        return taken

    def to_host(self, rows: np.ndarray) -> Any:
        taken = self.take(self.device.upload(np.asarray(rows)))
        fetch = self.device.to_host
        parts = fetch(taken.values).astype(np.float64), fetch(taken.indices), fetch(taken.starts)
        return scipy.sparse.csr_array(parts, shape=(taken.n, self.d))


def upload_csr(matrix: Any, device: CudaDevice) -> CsrRows:
    """A CSR matrix of this host, whose parts are checked already; indices as narrow as can be."""
    # The flags of a matrix that somebody else has made may be wrong: a new one looks for itself.
    own = scipy.sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    if not own.has_canonical_format:
        summed = own.copy()
        summed.sum_duplicates()
        if summed.nnz < own.nnz:
            tell_conversion("X", REPEATED, "canonical CSR")
        own = summed
    starts = np.int32 if own.nnz < 2**31 else np.int64
    index = np.int32 if own.shape[1] < 2**31 else np.int64
    return CsrRows(
        device,
        device.upload(own.data),
        device.upload(own.indices, index),
        device.upload(own.indptr, starts),
        own.shape[1],
    )


def csr_on_device(X: Any, device: CudaDevice) -> CsrRows:
    """A sparse matrix that is on the device, without a copy if it is CSR as kernels read it."""
    if len(X.shape) != 2 or 0 in X.shape:
        raise ValueError(
            "X must have two dimensions, with at least one row and one column, not shape"
            f" {tuple(X.shape)}"
        )
    if X.format != "csr":
        tell_conversion("X", X.format.upper(), "CSR")
        X = X.tocsr()
    values = X.data
    if str(values.dtype) not in ITEM_BYTES:
        if values.dtype.kind not in "biuf":
            raise ValueError(f"X must hold real numbers, not {values.dtype}")
        tell_conversion("X", values.dtype, "float32")
        values = values.astype(np.float32)
    refuse_broken_parts(X.indices, X.indptr, values.size, X.shape)
    return _without_repeats(device, values, X.indices, X.indptr, X.shape[1])


def refuse_broken_parts(indices: Any, starts: Any, count: int, shape: tuple[int, int]) -> None:
    """Refuse CSR of the device whose parts do not fit together: kernels believe them."""
    n, d = shape
    wrong = None
    if starts.size != n + 1:
        wrong = f"indptr must have {n + 1} entries, not {starts.size}"
    elif indices.size != count:
        wrong = f"data must have as many entries as indices, {indices.size}, not {count}"
    elif int(starts[0]) != 0:
        wrong = f"indptr must begin with 0, not {int(starts[0])}"
    elif bool((starts[1:] < starts[:-1]).any()):
        wrong = "indptr must not fall from one entry to the next"
    elif int(starts[-1]) > count:
        wrong = f"indptr must end at {count} or below, the length of indices, not {int(starts[-1])}"
    elif int(starts[-1]):
        used = indices[: int(starts[-1])]
        low, high = int(used.min()), int(used.max())
        if low < 0 or high >= d:
            bad = low if low < 0 else high
            wrong = f"indices must lie between 0 and {d - 1}, not {bad}"
    if wrong is not None:
        raise ValueError(f"X must be a valid CSR matrix, but its {wrong}")


def _without_repeats(device: CudaDevice, values: Any, indices: Any, starts: Any, d: int) -> CsrRows:
    """The rows as they are, or with the entries of repeated indices added up."""
    xp, end = device.xp, int(starts[-1])
    used = indices[:end]
    increases = used[1:] > used[:-1]
    borders = starts[1:-1]
    borders = borders[(borders > 0) & (borders < end)]
    increases[borders - 1] = True  # from one row to the next
    if not bool(increases.all()):
        rows = _rows_of_entries(xp, starts, end)
        order = xp.lexsort(xp.stack([used.astype(np.int64), rows.astype(np.int64)]))
        used, rows = used[order], rows[order]
        is_first = xp.ones(end, bool)
        is_first[1:] = (used[1:] != used[:-1]) | (rows[1:] != rows[:-1])
        if not bool(is_first.all()):
            tell_conversion("X", REPEATED, "canonical CSR")
            values = _added_up(xp, values[:end][order], is_first)
            indices, rows = used[is_first], rows[is_first]
            numbers = xp.arange(len(starts), dtype=rows.dtype)
            starts = xp.searchsorted(rows, numbers).astype(starts.dtype)
    return CsrRows(device, values, indices, starts, d)


def _added_up(xp: Any, values: Any, is_first: Any) -> Any:
    """The sums of groups of values that follow each other, each from its first value on: in no
    fixed order, a sum of three would be rounded differently each time."""
    groups, begins = xp.cumsum(is_first) - 1, xp.flatnonzero(is_first)
    places = xp.arange(len(values)) - begins[groups]
    found = values[begins]
    for place in range(1, int(places.max()) + 1):
        chosen = xp.flatnonzero(places == place)
        found[groups[chosen]] += values[chosen]
    return found


def _rows_of_entries(xp: Any, starts: Any, count: int) -> Any:
    """The row of each entry, int32."""
    entries = xp.arange(count, dtype=starts.dtype)
    return (xp.searchsorted(starts, entries, side="right") - 1).astype(np.int32)
