"""NumPy's and SciPy's own files in chunks; nothing in them is ever executed (no pickle).

The entries of an .npz file are streams side by side, compressed or not, from which so many
rows are read at a time.  What lies in another order than row by row is read whole: dense
arrays in Fortran's order, and sparse matrices of another format than CSR.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm.files.arrays import (
    DAMAGED,
    checked_labels,
    labels_beside,
    read_header,
    read_npy,
    read_npz,
    words,
)
from batchsvm.files.cutting import block_bytes, cut
from batchsvm.files.errors import DataFileError
from batchsvm.files.source import Chunk

LARGEST_FACT = 1 << 12  # bytes of the entries "shape" and "format" of a sparse matrix


class _Entry:
    """An array that is read from a stream, piece by piece."""

    def __init__(self, name: str, stream: Any, size: int) -> None:
        self.name, self.stream = name, stream
        self.shape, self.by_columns, self.dtype = read_header(stream)
        if self.dtype.hasobject:
            raise ValueError(f"its {name} holds Python objects")
        # Before any memory is asked for: the header says what it likes.
        if prod(self.shape) * self.dtype.itemsize > size:
            raise ValueError(f"its {name} ends early")
        self.ndim = len(self.shape)
        self.by_columns = self.by_columns and self.ndim > 1

    def read(self, count: int) -> np.ndarray:
        """The next `count` entries along the first axis."""
        array = np.empty((count, *self.shape[1:]), dtype=self.dtype)
        room = array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")
        while len(room):
            done = self.stream.readinto(room)
            if not done:
                raise ValueError(f"its {self.name} ends early")
            room = room[done:]
        return array


class _Archive:
    """The entries of an .npz file."""

    def __init__(self, raw: Any, stack: ExitStack) -> None:
        self.file = stack.enter_context(zipfile.ZipFile(raw))
        self.stack = stack
        self.names = [Path(name).stem for name in self.file.namelist() if name.endswith(".npy")]

    def entry(self, name: str) -> _Entry:
        size = self.file.getinfo(f"{name}.npy").file_size
        return _Entry(name, self.stack.enter_context(self.file.open(f"{name}.npy")), size)

    def fact(self, name: str) -> Any:
        """A small entry."""
        entry = self.entry(name)
        if prod(entry.shape) * entry.dtype.itemsize > LARGEST_FACT:
            raise ValueError(f"its {name} has shape {entry.shape}")
        return entry.read(entry.shape[0]) if entry.shape else entry.read(1)[0]

    def is_sparse(self) -> bool:
        if "X" not in self.names and "format" not in self.names:
            raise ValueError("it holds neither a sparse matrix nor an array X")
        return "X" not in self.names

    def sparse_shape(self) -> tuple[int, int]:
        shape = self.fact("shape")
        if shape.dtype.kind not in "iu" or shape.shape != (2,) or (shape < 0).any():
            raise ValueError(f"its shape must be two counts, not {shape.tolist()}")
        return int(shape[0]), int(shape[1])

    def is_in_rows(self) -> bool:
        """Whether the entries lie row by row, so that they can be read in pieces."""
        if self.is_sparse():
            return bytes(self.fact("format")) == b"csr"
        return not self.entry("X").by_columns


@contextmanager
def _named_errors(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except DataFileError:
        raise
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.filename:  # it cannot be opened, and says why
            raise
        raise DataFileError(path, f"is not a readable {kind} file ({words(error)})") from None


def width_of(path: Path, kind: str) -> int:
    """The number of columns, from the headers alone."""
    with _named_errors(path, kind), ExitStack() as stack:
        raw = stack.enter_context(path.open("rb"))
        if kind == ".npy":
            return _matrix_entry(path, _Entry("array", raw, path.stat().st_size)).shape[1]
        archive = _Archive(raw, stack)
        if archive.is_sparse():
            return archive.sparse_shape()[1]
        return _matrix_entry(path, archive.entry("X")).shape[1]


def array_chunks(path: Path, kind: str, max_bytes: int) -> Iterator[Chunk]:
    """The rows of an .npz or .npy file in chunks, with labels if the file has them."""
    with _named_errors(path, kind), ExitStack() as stack:
        raw = stack.enter_context(path.open("rb"))
        if kind == ".npy":
            X = _Entry("array", raw, path.stat().st_size)
            if not X.by_columns:
                yield from _dense_chunks(path, X, _labels_of_npy(path, stack), max_bytes)
                return
            found = read_npy(path)
        else:
            archive = _Archive(raw, stack)
            if archive.is_in_rows():
                y = archive.entry("y") if "y" in archive.names else None
                make = _sparse_chunks if archive.is_sparse() else _dense_chunks
                yield from make(path, archive, y, max_bytes)
                return
            found = read_npz(path)
        _check_labels(path, found[1], found[0].shape[0])
        yield from cut(*found, None, max_bytes)


def _labels_of_npy(path: Path, stack: ExitStack) -> _Entry | None:
    beside = labels_beside(path)
    if not beside.exists():
        return None
    return _Entry("labels", stack.enter_context(beside.open("rb")), beside.stat().st_size)


def _matrix_entry(path: Path, X: _Entry) -> _Entry:
    if len(X.shape) != 2 or X.shape[1] == 0:
        raise DataFileError(path, f"must hold a matrix with columns, not shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise DataFileError(path, f"must hold numbers, not {X.dtype}")
    return X


def _check_labels(path: Path, y: Any, n: int) -> None:
    """Refuse labels, an array or an entry, that are not one row of n numbers or words."""
    if y is None:
        return
    checked_labels(path, y)
    if y.shape[0] != n:
        raise DataFileError(path, f"has {y.shape[0]:,} labels for {n:,} rows")


def _dense_chunks(
    path: Path, X: _Entry | _Archive, y: _Entry | None, max_bytes: int
) -> Iterator[Chunk]:
    X = _matrix_entry(path, X.entry("X") if isinstance(X, _Archive) else X)
    n, d = X.shape
    _check_labels(path, y, n)
    # Read, passed on by the stream, and converted.
    most = max(block_bytes(max_bytes, 3) // (max(X.dtype.itemsize, 8) * d), 1)
    for start in range(0, n, most):
        count = min(most, n - start)
        yield from cut(X.read(count), None if y is None else y.read(count), None, max_bytes)


def _sparse_chunks(
    path: Path, archive: _Archive, y: _Entry | None, max_bytes: int
) -> Iterator[Chunk]:
    n, d = archive.sparse_shape()
    indptr, indices, data = (archive.entry(name) for name in ("indptr", "indices", "data"))
    _check_entries(n, indptr, indices, data)
    _check_labels(path, y, n)
    if d == 0:
        raise DataFileError(path, f"must hold a matrix with columns, not shape {(n, d)}")
    if data.dtype.kind not in "fiub":
        raise DataFileError(path, f"must hold numbers, not {data.dtype}")
    size = block_bytes(max_bytes, 3)
    most = max(size // 24, 1)  # rows without entries
    if last := int(indptr.read(1)[0]):
        raise ValueError(f"its indptr must begin with 0, not {last}")
    for start in range(0, n, most):
        count = min(most, n - start)
        ends = _starts(indptr, count, last, indices.shape[0])
        a = 0
        while a < count:
            room = last + size // 16  # entries: an index and a value
            b = max(int(np.searchsorted(ends, room, side="right")), a + 1)
            starts = np.concatenate([[last], ends[a:b]])
            X = _rows(starts - last, indices, data, d)
            yield from cut(X, None if y is None else y.read(b - a), None, max_bytes)
            a, last = b, int(ends[b - 1])


def _check_entries(n: int, indptr: _Entry, indices: _Entry, data: _Entry) -> None:
    for entry in (indptr, indices):
        if entry.dtype.kind not in "iu":
            raise ValueError(f"its {entry.name} must be integers, not {entry.dtype}")
    if indptr.shape != (n + 1,):
        raise ValueError(f"its indptr must have {n + 1} entries, not shape {indptr.shape}")
    if len(indices.shape) != 1 or data.shape != indices.shape:
        raise ValueError(f"its indices and data have shapes {indices.shape} and {data.shape}")


def _starts(indptr: _Entry, count: int, last: int, stored: int) -> np.ndarray:
    """The next entries of indptr, which must not fall, nor go beyond what is stored."""
    found = indptr.read(count).astype(np.int64)
    if found[0] < last or (found[1:] < found[:-1]).any() or found[-1] > stored:
        raise ValueError("its indptr must not fall, nor go beyond the number of its entries")
    return found


def _rows(starts: np.ndarray, indices: _Entry, data: _Entry, d: int) -> sp.csr_array:
    count = int(starts[-1])
    columns, values = indices.read(count), data.read(count)
    if count and not (0 <= int(columns.min()) and int(columns.max()) < d):
        raise ValueError(f"its indices must lie between 0 and {d - 1}")
    index = np.int32 if max(d, count) < 2**31 else np.int64
    parts = values, columns.astype(index, copy=False), starts.astype(index)
    return sp.csr_array(parts, shape=(starts.size - 1, d))
