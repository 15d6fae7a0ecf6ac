"""Sparse matrices as rows of a device: uploaded as they are, and checked there.

A pass over the indices takes a device less time than the upload, and a host more.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from batchsvm.core.data_checks import tell_conversion
from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.rows import ITEM_BYTES
from batchsvm.engines.gpu.sparse_rows import CsrRows, rows_of_entries


class CsrFact(IntEnum):
    """What the kernel `csr_check` finds; all are 0 before."""

    BELOW_ZERO = 0  # minus the lowest index, if that is negative
    HIGHEST = 1  # index
    FALLS = 2  # whether a row ends before it begins
    UNORDERED = 3  # whether the indices of some row do not increase
    LONGEST = 4  # row
    FIRST = 5  # entry of the starts
    LAST = 6
    LARGEST_NORM2 = 7  # the bits of a float64, whose order is that of the numbers; NaN is above all


def upload_csr(matrix: Any, device: CudaDevice) -> CsrRows:
    """A CSR matrix of this host, the lengths of whose parts are checked already; indices become as
    narrow as can be."""
    values, indices, starts = device.upload_large(matrix.data, matrix.indices, matrix.indptr)
    rows = checked_rows(device, values, indices, starts, matrix.shape)
    # Only now: a wrong index might become a right one.
    if rows.d < 2**31:
        rows.indices = rows.indices.astype(np.int32, copy=False)
    if rows.nonzeros < 2**31:
        rows.starts = rows.starts.astype(np.int32, copy=False)
    return rows


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
    return checked_rows(device, values, X.indices, X.indptr, X.shape)


def checked_rows(
    device: CudaDevice, values: Any, indices: Any, starts: Any, shape: tuple[int, int]
) -> CsrRows:
    """The rows of these parts, refused if they do not fit together: kernels believe them."""
    n, d = shape
    wrong = None
    if starts.size != n + 1:
        wrong = f"indptr must have {n + 1} entries, not {starts.size}"
    elif indices.size != values.size:
        wrong = f"data must have as many entries as indices, {indices.size}, not {values.size}"
    if wrong is None:
        rows = CsrRows(device, values, indices, starts, d, indices.size)
        found, norms2 = device.xp.zeros(len(CsrFact), np.int64), device.xp.empty(n)
        device.kernels.csr_check(rows, norms2, found)
        seen = device.to_host(found)
        facts, largest = seen.tolist(), float(seen.view(np.float64)[CsrFact.LARGEST_NORM2])
        wrong = _wrong_entries(facts, indices.size, d)
    if wrong is not None:
        raise ValueError(f"X must be a valid CSR matrix, but its {wrong}")
    rows.nonzeros, rows.longest = facts[CsrFact.LAST], facts[CsrFact.LONGEST]
    rows.known_norms2 = norms2, largest
    return _without_repeats(rows) if facts[CsrFact.UNORDERED] else rows


def _wrong_entries(facts: list[int], count: int, d: int) -> str | None:
    """What is wrong with the entries of the starts or of the indices."""
    first, last = facts[CsrFact.FIRST], facts[CsrFact.LAST]
    low, high = -facts[CsrFact.BELOW_ZERO], facts[CsrFact.HIGHEST]
    if first != 0:
        return f"indptr must begin with 0, not {first}"
    if facts[CsrFact.FALLS]:
        return "indptr must not fall from one entry to the next"
    if last > count:
        return f"indptr must end at {count} or below, the length of indices, not {last}"
    if low < 0 or high >= d:
        return f"indices must lie between 0 and {d - 1}, not {low if low < 0 else high}"
    return None


def _without_repeats(rows: CsrRows) -> CsrRows:
    """The rows as they are, or with the entries of repeated indices added up."""
    xp, end = rows.device.xp, rows.nonzeros
    used, numbers = rows.indices[:end], rows_of_entries(xp, rows.starts, end)
    order = xp.lexsort(xp.stack([used.astype(np.int64), numbers.astype(np.int64)]))
    used, numbers = used[order], numbers[order]
    is_first = xp.ones(end, bool)
    is_first[1:] = (used[1:] != used[:-1]) | (numbers[1:] != numbers[:-1])
    if bool(is_first.all()):
        return rows
    tell_conversion("X", "CSR with repeated indices", "canonical CSR")
    values = _added_up(xp, rows.values[:end][order], is_first)
    numbers = numbers[is_first]
    starts = xp.searchsorted(numbers, xp.arange(rows.n + 1, dtype=numbers.dtype))
    starts, longest = starts.astype(rows.starts.dtype), int((starts[1:] - starts[:-1]).max())
    return CsrRows(rows.device, values, used[is_first], starts, rows.d, values.size, longest)


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
