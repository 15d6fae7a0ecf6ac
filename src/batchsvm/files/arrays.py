"""NumPy's and SciPy's own files; nothing in them is ever executed (no pickle)."""

from __future__ import annotations

import io
import os
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm.files.atomic import replacing
from batchsvm.files.errors import DataFileError
from batchsvm.files.sparse import check_sparse

MOST_DENSE_BYTES = 1 << 33
# What NumPy, zipfile and SciPy raise for files that are damaged or not theirs.
DAMAGED = (
    ValueError, TypeError, KeyError, IndexError, EOFError, AttributeError, SyntaxError,
    OverflowError, MemoryError, NotImplementedError, RuntimeError, struct.error, zlib.error,
    zipfile.BadZipFile, tokenize.TokenError, UnicodeError,
)  # fmt: skip


def read_npz(path: Path) -> tuple[Any, np.ndarray | None]:
    """A matrix of scipy.sparse.save_npz, or arrays X and y; an entry y holds the labels."""
    try:
        # Opened here: NumPy leaves the file open if it is damaged.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            if not hasattr(file, "files"):
                raise ValueError("it is a single array")
            _refuse_bombs(file)
            y = file["y"] if "y" in file.files else None
            if "X" in file.files:
                X: Any = file["X"]
            elif "format" in file.files:
                _refuse_broken_indices(file)
                raw.seek(0)
                X = sp.load_npz(raw)
            else:
                raise ValueError("it holds neither a sparse matrix nor an array X")
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.filename:  # it cannot be opened, and says why
            raise
        raise DataFileError(path, f"is not a readable .npz file ({words(error)})") from None
    return _checked(path, X), checked_labels(path, y)


def read_npy(path: Path) -> tuple[Any, np.ndarray | None]:
    """A dense array; its labels are in NAME.labels.npy beside it, if that exists."""
    beside = labels_beside(path)
    return _checked(path, _load_npy(path)), read_labels(beside) if beside.exists() else None


def labels_beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.labels.npy")


def read_labels(path: Path) -> np.ndarray:
    """Labels from .npy, or from text with one a line (numbers if all of them are)."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if path.suffix.lower() == ".npy":
        labels = checked_labels(path, _load_npy(path))
        assert labels is not None
        return labels
    try:
        words = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError:
        raise DataFileError(path, "is not text with one label a line") from None
    words = [word.strip() for word in words]
    while words and not words[-1]:
        words.pop()
    for number, word in enumerate(words, 1):
        if not word:
            raise DataFileError(path, "there is no label on this line", number)
    try:
        return np.array([float(word) for word in words])
    except ValueError:
        return np.array(words)


def _refuse_bombs(file: Any) -> None:
    """Refuse an archive that is larger than this machine's memory once it is unpacked."""
    size = sum(entry.file_size for entry in file.zip.infolist())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > memory:
        raise ValueError(
            f"it holds {size / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f} GiB"
        )


def _refuse_broken_indices(file: Any) -> None:
    """Refuse indices that are no integers: SciPy would cut off their fractions."""
    for name in ("indices", "indptr", "row", "col", "offsets", "coords"):
        if name not in file.files:
            continue
        with file.zip.open(f"{name}.npy") as entry:
            kind = read_header(entry)[2]
        if kind.kind not in "iu":
            raise ValueError(f"its {name} must be integers, not {kind}")


def read_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns come first, and type of the array that a stream begins with."""
    is_old = np.lib.format.read_magic(stream) == (1, 0)
    formats = np.lib.format
    return (formats.read_array_header_1_0 if is_old else formats.read_array_header_2_0)(stream)


def _load_npy(path: Path) -> np.ndarray:
    try:
        with path.open("rb") as raw:
            array = np.load(raw, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive")
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise DataFileError(path, f"is not a readable .npy file ({words(error)})") from None
    return array


def words(error: BaseException) -> str:
    """What a library says of a damaged file, in one line."""
    return " ".join(str(error).split())[:120] or type(error).__name__


def _checked(path: Path, X: Any) -> Any:
    if sp.issparse(X):
        try:
            if X.ndim == 2:
                check_sparse(X)
                _refuse_hollow(X)
            X = sp.csr_array(X)
            check_sparse(X)
        except DAMAGED as error:
            raise DataFileError(path, f"its matrix is damaged ({words(error)})") from None
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise DataFileError(path, f"must hold a matrix with rows and columns, not shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise DataFileError(path, f"must hold numbers, not {X.dtype}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return X


def _refuse_hollow(X: Any) -> None:
    """Refuse a matrix that CSR has to make room for, far beyond what the file holds."""
    size = 8 * (X.shape[0] + 1)
    if X.format != "csr" and size > MOST_DENSE_BYTES:
        raise ValueError(
            f"its {X.shape[0]:,} rows would take {size / 2**30:,.0f} GiB before their entries"
        )


def checked_labels(path: Path, y: np.ndarray | None) -> np.ndarray | None:
    if y is None:
        return None
    if y.ndim != 1 or y.dtype.kind not in "fiubU":
        raise DataFileError(
            path, f"labels must be one row of numbers or words, not {y.dtype} of shape {y.shape}"
        )
    return y


def dense(X: Any, path: Path) -> np.ndarray:
    """X as an array, unless that would be very large."""
    if not sp.issparse(X):
        return np.asarray(X)
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if size > MOST_DENSE_BYTES:
        raise DataFileError(
            path,
            f"would take {size / 2**30:,.0f} GiB, since this format holds every zero;"
            " use .npz or LIBSVM text",
        )
    return X.toarray()


def write_npz(path: Path, X: Any, y: Any) -> None:
    """Sparse data as scipy.sparse.save_npz does, with an entry y more; dense data as X and y."""
    entries: dict[str, Any] = {} if y is None else {"y": np.asarray(y)}
    if sp.issparse(X):
        buffer = io.BytesIO()
        sp.save_npz(buffer, sp.csr_matrix(X), compressed=False)
        buffer.seek(0)
        with np.load(buffer, allow_pickle=False) as file:
            entries.update({name: file[name] for name in file.files})
    else:
        entries["X"] = np.asarray(X)
    with replacing(path) as sink:
        np.savez(sink, **_plain(entries))


def write_npy(path: Path, X: Any, y: Any) -> None:
    with replacing(path) as sink:
        np.save(sink, dense(X, path), allow_pickle=False)
    if y is not None:
        with replacing(labels_beside(path)) as sink:
            np.save(sink, _plain({"y": np.asarray(y)})["y"], allow_pickle=False)


def _plain(entries: dict[str, Any]) -> dict[str, Any]:
    """Labels that are Python objects as words: objects could not be read without pickle."""
    return {
        name: array.astype(str) if array.dtype.kind == "O" else array
        for name, array in entries.items()
    }
