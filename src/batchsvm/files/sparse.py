"""Sparse matrices from outside, checked before anything reads or converts them.

SciPy's compiled code believes the index arrays of a matrix: a wrong one makes it read, or write,
past the end of its arrays.  A matrix may be wrong because it comes from a file, or because its
parts were set by hand.  The checks here read the parts as plain arrays, and change nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

COMPRESSED = {"csr": 0, "csc": 1}  # and which entry of the shape is that of the starts


class BrokenMatrixError(ValueError):
    """A sparse matrix whose parts do not fit together; the message says which."""


def check_parts(X: Any) -> None:
    """Refuse a CSR matrix whose arrays have the wrong kind or length, in constant time.

    What remains to be checked are the entries of `indptr` and `indices`.
    """
    _check_arrays(X, "indptr", "indices")
    _check_lengths(X, X.shape[0], X.data.shape)


def check_sparse(X: Any) -> None:
    """Refuse a sparse matrix of any format that could make SciPy read past an array's end."""
    kind = X.format
    if kind in COMPRESSED:
        _check_arrays(X, "indptr", "indices")
        major = COMPRESSED[kind]
        _check_lengths(X, X.shape[major], X.data.shape)
        _check_entries(X.indptr, X.indices, X.shape[1 - major])
    elif kind == "bsr":
        _check_blocks(X)
    elif kind == "coo":
        _check_coordinates(X)
    elif kind == "lil":
        _check_lists(X)
    elif kind == "dia":
        _check_diagonals(X)
    elif kind != "dok":  # a dictionary, which SciPy reads in Python
        raise BrokenMatrixError(f"format must be one of SciPy's, not {kind!r}")


def _check_arrays(X: Any, *names: str) -> None:
    for name in (*names, "data"):
        part = getattr(X, name)
        if not isinstance(part, np.ndarray) or isinstance(part, np.ma.MaskedArray):
            raise BrokenMatrixError(f"{name} must be an array, not {type(part).__name__}")
        if name != "data" and (part.dtype.kind not in "iu" or part.ndim != 1):
            raise BrokenMatrixError(
                f"{name} must be one row of integers, not {part.dtype} of shape {part.shape}"
            )


def _check_lengths(X: Any, rows: int, data_shape: tuple[int, ...]) -> None:
    indptr, indices = X.indptr, X.indices
    if indptr.size != rows + 1:
        raise BrokenMatrixError(f"indptr must have {rows + 1} entries, not {indptr.size}")
    if len(data_shape) != (3 if X.format == "bsr" else 1) or data_shape[0] != indices.size:
        raise BrokenMatrixError(
            f"data must have as many entries as indices, {indices.size}, not shape {data_shape}"
        )
    if indptr[0] != 0:
        raise BrokenMatrixError(f"indptr must begin with 0, not {indptr[0]}")
    if not 0 <= int(indptr[-1]) <= indices.size:
        raise BrokenMatrixError(
            f"indptr must end at {indices.size} or below, the length of indices, not {indptr[-1]}"
        )


def _check_entries(indptr: np.ndarray, indices: np.ndarray, columns: int) -> None:
    if (indptr[1:] < indptr[:-1]).any():
        raise BrokenMatrixError("indptr must not fall from one entry to the next")
    _check_range("indices", indices[: int(indptr[-1])], columns)


def _check_range(name: str, indices: np.ndarray, stop: int) -> None:
    if not indices.size:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= stop:
        bad = low if low < 0 else high
        raise BrokenMatrixError(f"{name} must lie between 0 and {stop - 1}, not {bad}")


def _check_blocks(X: Any) -> None:
    _check_arrays(X, "indptr", "indices")
    shape = X.data.shape
    if len(shape) != 3 or 0 in shape[1:] or X.shape[0] % shape[1] or X.shape[1] % shape[2]:
        raise BrokenMatrixError(f"data must hold blocks that divide {X.shape}, not shape {shape}")
    _check_lengths(X, X.shape[0] // shape[1], shape)
    _check_entries(X.indptr, X.indices, X.shape[1] // shape[2])


def _check_coordinates(X: Any) -> None:
    if len(X.shape) != 2:
        return  # of another dimension: whoever takes it says so
    _check_arrays(X, "row", "col")
    if not X.row.size == X.col.size == X.data.size or X.data.ndim != 1:
        raise BrokenMatrixError(
            f"row, col and data must have equally many entries, not {X.row.size}, {X.col.size}"
            f" and {X.data.size}"
        )
    _check_range("row", X.row, X.shape[0])
    _check_range("col", X.col, X.shape[1])


def _check_lists(X: Any) -> None:
    n, d = X.shape
    if len(X.rows) != n or len(X.data) != n:
        raise BrokenMatrixError(f"rows and data must have {n} lists each")
    for row, values in zip(X.rows, X.data, strict=True):
        if len(row) != len(values):
            raise BrokenMatrixError("rows and data must have lists of equal lengths")
        if row and not 0 <= min(row) <= max(row) < d:
            raise BrokenMatrixError(f"rows must hold indices between 0 and {d - 1}")


def _check_diagonals(X: Any) -> None:
    _check_arrays(X, "offsets")
    if X.data.ndim != 2 or X.data.shape[0] != X.offsets.size:
        raise BrokenMatrixError(
            f"data must have a row for each of {X.offsets.size} offsets, not shape {X.data.shape}"
        )
    if np.unique(X.offsets).size != X.offsets.size:
        raise BrokenMatrixError("offsets must be distinct")
