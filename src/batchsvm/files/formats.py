"""Which reader and which writer a file gets, and what all of them give."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from batchsvm.files import arrays, tables
from batchsvm.files.errors import DataFileError
from batchsvm.files.libsvm import read_with_base
from batchsvm.files.sparse import check_sparse
from batchsvm.files.streams import Progress, bare_suffix, compression
from batchsvm.files.write_libsvm import write_libsvm

FORMATS = {
    ".npz": "arrays with labels, or a matrix of scipy.sparse.save_npz",
    ".npy": "a dense array; labels beside it in NAME.labels.npy",
    ".csv": "a table with a line of names (also .csv.gz, .csv.bz2, .csv.xz)",
    ".parquet": "a table",
    "other": "LIBSVM text (also compressed: .gz, .bz2, .xz)",
}


class Data(NamedTuple):
    """Rows, labels (None if there are none), and the names of the columns if they have any.

    `zero_based` says whether the indices of LIBSVM text were taken to count from 0.  `weights` are
    those of the rows, if a column of a table was named.
    """

    X: Any
    y: np.ndarray | None
    names: list[str] | None = None
    zero_based: bool | None = None
    weights: np.ndarray | None = None


def format_of(path: Path) -> str:
    """Which of ".npz", ".npy", ".csv", ".parquet" and "text" a file is, by its name."""
    suffix = bare_suffix(path)
    if suffix in (".npz", ".npy") and not compression(path):
        return suffix
    return {".csv": ".csv", ".parquet": ".parquet", ".pq": ".parquet"}.get(suffix, "text")


def read(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
    names: Sequence[str] | None = None,
    zero_based: bool | str = "auto",
    dtype: type = np.float64,
    progress: Progress | None = None,
    columns: Sequence[str] | None = None,
    weights: str | None = None,
) -> Data:
    """The data of a file.

    Parameters
    ----------
    path : path
        .npz, .npy, .csv, .parquet, or LIBSVM text under any other name; .csv and LIBSVM text
        may be compressed (.gz, .bz2, .xz).
    label : str, optional
        The column of a table that holds the labels.  Without it, a column named "label" or
        "target" is taken if there is one.
    labels : path, optional
        A file of labels for .npz and .npy: .npy, or text with one label a line.
    n_features : int, optional
        Columns to expect; LIBSVM text gets that many even if the last are all zero.
    names : sequence of str, optional
        Columns that a table must have, in the order in which X is to have them.
    zero_based : bool or "auto"
        Whether indices of LIBSVM text count from 0; "auto" if an index 0 occurs.
    dtype : float64 or float32
        The type of X from text; arrays keep theirs.
    columns : sequence of str, optional
        The columns of a table that are features; others are left out.
    weights : str, optional
        The column of a table that holds the weights of the rows.

    Raises
    ------
    DataFileError
        If the file is damaged or is not what its name says; the message names file and line.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder, not a data file")
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    suffix = format_of(path)
    for what, given in (("columns", columns), ("weights", weights)):
        if given is not None and suffix in (".npz", ".npy", "text"):
            raise ValueError(
                f"{what} must be None for {path}, which is no table (CSV, Parquet): its columns"
                " have no names"
            )
    if suffix in (".npz", ".npy"):
        X, y = arrays.read_npz(path) if suffix == ".npz" else arrays.read_npy(path)
        data = Data(X, y)
    elif suffix != "text":
        wanted = tables.Wanted(label, weights, columns, names)
        table = tables.read_table(path, suffix, dtype, wanted)
        data = Data(table.X, table.y, table.names, weights=table.weights)
    else:
        X, y, from_zero = read_with_base(path, n_features, zero_based, dtype, progress)
        data = Data(X, y, zero_based=from_zero)
    if labels is not None:
        data = data._replace(y=arrays.read_labels(Path(labels)))
    n, d = data.X.shape
    if data.y is not None and data.y.size != n:
        where = labels if labels is not None else path
        raise DataFileError(where, f"has {data.y.size:,} labels for {n:,} rows")
    if n_features is not None and d != n_features:
        raise DataFileError(path, f"has {d:,} columns, not {n_features:,}")
    return data


def write(
    path: str | os.PathLike[str],
    X: Any,
    y: Any,
    *,
    label: str = "label",
    names: list[str] | None = None,
    zero_based: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write data in the format that the name's end asks for; the file is replaced at once.

    Numbers come back bit for bit from every format.  Indices of LIBSVM text count from 1, or
    from 0 if `zero_based`.
    """
    path = Path(path)
    if issparse(X):
        check_sparse(X)
    suffix = format_of(path)
    if suffix in (".npz", ".npy"):
        (arrays.write_npz if suffix == ".npz" else arrays.write_npy)(path, X, y)
    elif suffix != "text":
        tables.write_table(path, suffix, X, y, label, names)
    else:
        write_libsvm(path, X, y, progress, zero_based)
