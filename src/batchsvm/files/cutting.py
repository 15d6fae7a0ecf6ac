"""Rows cut into chunks of a bounded number of bytes, and rows as chunks are to have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm.files.source import Chunk

# Less is not read at once, however few bytes a chunk may have: a call takes longer than the bytes.
LEAST_BLOCK = 1 << 16


def block_bytes(max_bytes: int, share: int, most: int = 1 << 24) -> int:
    """How many bytes of a file are read at once, if `share` copies of them exist at a time."""
    return min(max(max_bytes // share, LEAST_BLOCK), most)


def cut(
    X: Any, y: np.ndarray | None, weights: np.ndarray | None, max_bytes: int
) -> Iterator[Chunk]:
    """Chunks of at most `max_bytes` bytes, or of one row that is larger.

    Sparse rows are CSR.  The chunks share their memory with X, y and weights where they can.
    Float32 stays float32, and all else becomes float64, chunk by chunk.
    """
    ends = _bytes_before(X, y, weights)
    start, n = 0, X.shape[0]
    while start < n:
        stop = int(np.searchsorted(ends, ends[start] + max_bytes, side="right")) - 1
        stop = min(max(stop, start + 1), n)
        yield Chunk(
            _real(rows(X, start, stop)),
            None if y is None else y[start:stop],
            None if weights is None else weights[start:stop],
        )
        start = stop


def rows(X: Any, start: int, stop: int) -> Any:
    """Some rows of an array or a CSR matrix, without a copy."""
    if not sp.issparse(X):
        return X[start:stop]
    if start == 0 and stop == X.shape[0]:
        return X
    a, b = int(X.indptr[start]), int(X.indptr[stop])
    indptr = X.indptr[start : stop + 1] - X.indptr[start]
    part = sp.csr_array((X.data[a:b], X.indices[a:b], indptr), shape=(stop - start, X.shape[1]))
    # SciPy looks at all entries if it is asked, so what is known of X is passed on.
    for known in ("has_sorted_indices", "has_canonical_format"):
        if X.__dict__.get(f"_{known}"):
            setattr(part, known, True)
    return part


def _bytes_before(X: Any, y: np.ndarray | None, weights: np.ndarray | None) -> np.ndarray:
    """For each row, and for the end, the bytes of all rows before it once they are numbers."""
    value = _real_type(X.dtype).itemsize
    beside = sum(array.itemsize for array in (y, weights) if array is not None)
    if sp.issparse(X):
        each = beside + X.indptr.itemsize
        entries = X.indptr.astype(np.int64) * (value + X.indices.itemsize)
        return entries + each * np.arange(X.shape[0] + 1)
    return (beside + value * X.shape[1]) * np.arange(X.shape[0] + 1)


def _real_type(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _real(X: Any) -> Any:
    return X.astype(_real_type(X.dtype), copy=False)
