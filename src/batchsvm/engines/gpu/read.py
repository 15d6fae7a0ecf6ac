"""X as rows on a device: in place where it is on one, uploaded in blocks otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.core.arrays import dtype_name, is_device_array
from batchsvm.core.data_checks import as_matrix, refuse_masked, tell_conversion
from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.rows import DenseRows, DeviceRows
from batchsvm.engines.gpu.sparse_read import csr_on_device, upload_csr

BLOCK_BYTES = 2**28  # uploaded at a time
SHOWN_BYTES = 2**32  # from here on, a progress bar
MAX_ROWS = 2**31 - 1  # row numbers have 32 bits
KINDS = ("float16", "bfloat16", "float32", "float64")


def read_rows(X: Any, device: CudaDevice) -> DeviceRows:
    """The rows of X; a copy is made of what is on the host, or not of a kind that kernels read."""
    rows = _read_device(X, device) if is_device_array(X) else _upload(X, device)
    if rows.n > MAX_ROWS:
        raise ValueError(f"X must have at most {MAX_ROWS} rows on the gpu engine, not {rows.n}")
    return rows


def _read_device(X: Any, device: CudaDevice) -> DeviceRows:
    if type(X).__module__.startswith("cupyx."):
        return csr_on_device(X, device)
    values, kind = _as_cupy(X, device)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"X must have two dimensions, with at least one row and one column, not shape"
            f" {tuple(values.shape)}"
        )
    if not values.flags.c_contiguous:
        tell_conversion("X", "not stored row by row", "rows")
        values = device.xp.ascontiguousarray(values)
    return DenseRows(device, values, kind)


def _as_cupy(X: Any, device: CudaDevice) -> tuple[Any, str]:
    """The array as the device's own library sees it, without a copy, and its kind of numbers."""
    kind = dtype_name(X)
    X = X.detach() if hasattr(X, "detach") else X  # torch gives away nothing that has a gradient
    if kind == "bfloat16":  # seen as integers, since CuPy has no such type
        bits: Any = np.int16
        if type(X).__module__.startswith("torch"):
            import torch

            bits = torch.int16
        return device.upload(device.xp.from_dlpack(X.view(bits))), kind
    values = X
    if not isinstance(X, device.xp.ndarray):
        values = device.xp.from_dlpack(X) if hasattr(X, "__dlpack__") else device.xp.asarray(X)
    if kind not in KINDS:
        if values.dtype.kind not in "biuf":
            raise ValueError(f"X must hold real numbers, not {kind}")
        tell_conversion("X", kind, "float32")
        return values.astype(np.float32), "float32"
    return values, kind


def _upload(X: Any, device: CudaDevice) -> DeviceRows:
    kind = str(getattr(X, "dtype", ""))
    refuse_masked("X", X)
    halves = isinstance(X, np.ndarray) and kind in ("float16", "bfloat16")
    if halves and X.ndim == 2 and 0 not in X.shape:
        values = X.view(np.int16) if kind == "bfloat16" else X
    else:
        values = as_matrix(X)
        if scipy.sparse.issparse(values):
            parts = values.data, values.indices, values.indptr
            refuse_too_large(sum(part.nbytes for part in parts), values.shape, device)
            return upload_csr(values, device)
        kind = str(values.dtype)
    refuse_too_large(values.nbytes, values.shape, device)
    out = device.xp.empty(values.shape, values.dtype)
    step = max(1, BLOCK_BYTES // (values.itemsize * values.shape[1]))
    starts = range(0, values.shape[0], step)
    for start in _with_progress(starts, values.nbytes):
        out[start : start + step] = device.upload(
            np.ascontiguousarray(values[start : start + step])
        )
    return DenseRows(device, out, kind)


def _with_progress(starts: range, size: int) -> Iterable[int]:
    """The blocks with a progress bar on a terminal, where they take longer than a moment."""
    if size < SHOWN_BYTES or not sys.stderr.isatty():
        return starts
    from rich.console import Console
    from rich.progress import track

    words = f"uploading {size / 2**30:.3g} GiB"
    return track(starts, words, console=Console(stderr=True), transient=True)


def refuse_too_large(needed: int, shape: tuple[int, ...], device: CudaDevice) -> None:
    """Refuse data that the device has no room for, before anything is allocated."""
    memory = device.memory
    if needed > memory.free:
        raise ValueError(
            f"X of shape {tuple(shape)} takes {needed / 2**30:.3g} GiB, and {device.name} has"
            f" {memory.free / 2**30:.3g} of {memory.total / 2**30:.3g} GiB free: use"
            ' engine="cpu", float16, or fewer rows or columns'
        )
