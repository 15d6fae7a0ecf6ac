"""`open_source`: files, folders, patterns and re-iterables of chunks as a source."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from batchsvm.files.chunk_source import ChunkSource
from batchsvm.files.file_source import Given, open_files
from batchsvm.files.source import Source
from batchsvm.files.source_paths import PATH_LIKE, data_files

# An object with one of these is an array or a table.
ARRAY_MARKS = (
    "shape", "__array__", "__array_interface__", "__cuda_array_interface__", "__dlpack__",
    "__dataframe__", "__arrow_c_stream__", "__arrow_c_array__",
)  # fmt: skip


def is_source(X: Any) -> bool:
    """Whether X is to be read by `open_source`.

    That is a path, a list or tuple of paths, or a re-iterable of chunks, which is no array, table
    or sparse matrix.  A sequence is one if it begins with a tuple whose first item is a matrix: a
    list of tuples of numbers is an array.  A `ray.data.Dataset` is none, nor is an iterator.

    >>> import numpy as np
    >>> is_source("folder"), is_source([(np.eye(2), [1, -1])])
    (True, True)
    >>> is_source([(1.0, 2.0), (3.0, 4.0)]), is_source(np.eye(2))
    (False, False)
    """
    if isinstance(X, PATH_LIKE):
        return True
    if isinstance(X, bytes | bytearray | memoryview | Mapping | Set | Iterator):
        return False
    if _is_array(X) or not hasattr(X, "__iter__") or is_ray_dataset(X):
        return False
    if isinstance(X, list | tuple) and X and all(isinstance(item, PATH_LIKE) for item in X):
        return True
    if not (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
        return True  # NumPy makes no array of it
    first = next(iter(X), None)
    return isinstance(first, tuple) and len(first) in (2, 3) and _is_matrix(first[0])


def is_ray_dataset(X: Any) -> bool:
    """Whether X is a `ray.data.Dataset`, without an import of Ray."""
    return any(
        kind.__name__ == "Dataset" and kind.__module__.partition(".")[0] == "ray"
        for kind in type(X).__mro__
    )


def _is_array(X: Any) -> bool:
    return any(hasattr(X, mark) for mark in ARRAY_MARKS)


def _is_matrix(X: Any) -> bool:
    return len(getattr(X, "shape", ())) == 2


def open_source(
    source: Any,
    y: str | None = None,
    sample_weight: str | None = None,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    needs_labels: bool = True,
) -> Source:
    """A source of what a caller gives.

    Parameters
    ----------
    source : path, list of paths, or re-iterable of tuples
        A file, a folder (all data files in it, also in folders below, sorted by name; names
        that begin with a dot or an underscore are left out), a pattern such as
        ``"data/part-*.parquet"``, or a list of these.  Or an object whose ``__iter__`` begins
        anew each time and yields tuples ``(X, y)`` or ``(X, y, weights)``.
    y, sample_weight : str, optional
        The columns of tables (CSV, Parquet) that hold the labels and the weights.  Files of other
        formats and chunks hold the labels themselves.
    columns : sequence of str, optional
        The columns of tables that are features, in order; all others if missing, and then each
        table must have those of the first.
    n_features : int, optional
        The number of columns that X must have.
    zero_based : bool or "auto"
        Whether the indices of LIBSVM text count from 0, in all files.  "auto": if an index 0
        occurs in the first 16 MiB; one that comes later is an error.
    needs_labels : bool
        If False, tables need no `y`, .npz and .npy files and chunks no labels.

    Raises
    ------
    DataFileError, ValueError, TypeError, FileNotFoundError
        If the source is none of these, or what is read of it here is damaged.
    """
    given = _checked_names(y, sample_weight, columns)
    if zero_based not in ("auto", True, False):
        raise ValueError(f"zero_based must be True, False or 'auto', not {zero_based!r}")
    if n_features is not None and not (isinstance(n_features, int) and n_features > 0):
        raise ValueError(f"n_features must be a positive integer or None, not {n_features!r}")
    if is_paths(source):
        name = os.fspath(source) if isinstance(source, PATH_LIKE) else _names_of(source)
        facts = Given(*given, n_features, zero_based, needs_labels)
        return open_files(name, data_files(source), facts)
    _refuse_others(source)
    for what, value in zip(("y", "sample_weight", "columns"), given, strict=True):
        if value is not None:
            raise ValueError(
                f"{what} must be None for a source of chunks, which holds labels and weights itself"
                f" and whose columns have no names, not {value!r:.60}"
            )
    return ChunkSource(source, n_features, needs_labels)


def is_paths(source: Any) -> bool:
    """Whether a source consists of files: a path, or a list that holds one."""
    if isinstance(source, PATH_LIKE):
        return True
    return isinstance(source, list | tuple) and any(isinstance(item, PATH_LIKE) for item in source)


def _names_of(paths: Sequence[Any]) -> str:
    more = "" if len(paths) == 1 else f" and {len(paths) - 1:,} more"
    return f"{paths[0]}{more}"


def _checked_names(
    y: Any, sample_weight: Any, columns: Any
) -> tuple[str | None, str | None, tuple[str, ...] | None]:
    for what, name in (("y", y), ("sample_weight", sample_weight)):
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"{what} must be the name of a column of the source or None, not"
                f" {type(name).__name__}"
            )
    if sample_weight is not None and sample_weight == y:
        raise ValueError(f"sample_weight must name another column than y, not {y!r} too")
    if columns is None:
        return y, sample_weight, None
    is_list = isinstance(columns, Iterable) and not isinstance(columns, str)
    names = tuple(columns) if is_list else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"columns must be a list of names of columns or None, not {columns!r:.60}")
    for name in names:
        if name in (y, sample_weight):
            what = "y" if name == y else "sample_weight"
            raise ValueError(f"columns must not hold {name!r}, which {what} names")
        if names.count(name) > 1:
            raise ValueError(f"columns must not hold {name!r} twice")
    return y, sample_weight, names


def _refuse_others(source: Any) -> None:
    """Refuse what is no re-iterable of chunks."""
    if isinstance(source, Iterator):
        raise TypeError(
            f"X must be read more than once, and a {type(source).__name__} can be read only once;"
            " pass a list, or an object whose __iter__ begins anew"
        )
    if is_ray_dataset(source):
        raise TypeError('X is a ray.data.Dataset, which engine="ray" reads')
    is_other = isinstance(source, bytes | bytearray | memoryview | Mapping | Set)
    if is_other or _is_array(source) or not hasattr(source, "__iter__"):
        raise TypeError(
            "a source must be a path, a list of paths, or a re-iterable of tuples (X, y) or"
            f" (X, y, weights), not {type(source).__name__}"
        )
    if isinstance(source, list | tuple) and not source:
        raise ValueError("a source must have a file or a chunk, and this list is empty")
