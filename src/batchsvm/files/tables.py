"""CSV and Parquet through pyarrow: named columns of numbers, and one of labels."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchsvm.files.arrays import dense
from batchsvm.files.atomic import replacing
from batchsvm.files.errors import DataFileError
from batchsvm.files.streams import DAMAGED, compressed, decompressed

LEFT_OUT = "; to leave it out, name the features as columns"
USUAL_LABELS = ("label", "target")


def load_arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise ModuleNotFoundError(
            "CSV and Parquet files need pyarrow: pip install 'batchsvm[tables]'"
        ) from None
    # pyarrow imports pandas, where it is installed, with its first column; Ctrl-C in the midst of
    # that would be lost, and is not lost here.
    with suppress(ImportError):
        importlib.import_module("pandas")
    return pyarrow


def unreadable(path: Path, kind: str, error: BaseException) -> DataFileError:
    """The error of a file that pyarrow cannot read, with pyarrow's words."""
    return DataFileError(path, f"is not a readable {kind} file ({' '.join(str(error).split())})")


class Wanted(NamedTuple):
    """Which columns of a table are what, as far as somebody says it."""

    label: str | None = None
    weights: str | None = None
    columns: Sequence[str] | None = None  # of features; others are left out
    expected: Sequence[str] | None = None  # the features of a model, in order


class Table(NamedTuple):
    """A table as arrays, and the names of X's columns."""

    X: np.ndarray
    y: np.ndarray | None
    names: list[str]
    weights: np.ndarray | None


def read_table(path: Path, suffix: str, dtype: type, wanted: Wanted) -> Table:
    """The table; the columns of X are those expected, in that order."""
    arrow = load_arrow()
    try:
        with path.open("rb") as raw:
            if suffix == ".csv":
                table = arrow.csv.read_csv(decompressed(path, raw))
            else:
                table = arrow.parquet.read_table(raw)
        names = list(table.column_names)
    except (arrow.ArrowException, *DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename:
            raise
        raise unreadable(path, "CSV" if suffix == ".csv" else "Parquet", error) from None
    refuse_twins(path, names)
    label = label_among(path, names, wanted)
    if wanted.weights is not None and wanted.weights not in names:
        what = f"has no column {wanted.weights!r} for the weights; it has {some(names)}"
        raise DataFileError(path, what)
    if table.num_rows == 0:
        raise DataFileError(path, "holds no rows")
    features = [name for name in names if name not in (label, wanted.weights)]
    if not features:
        raise DataFileError(path, "has no column beside the labels")
    if wanted.columns is not None:
        if missing := [name for name in wanted.columns if name not in features]:
            raise DataFileError(
                path, f"has no column {some(missing)} of features; it has {some(features)}"
            )
        features = list(wanted.columns)
    if wanted.expected is not None:
        refuse_others(path, features, wanted.expected, label)
        features = list(wanted.expected)
    X = np.empty((table.num_rows, len(features)), dtype=dtype)
    for k, name in enumerate(features):
        X[:, k] = numbers(arrow, path, name, table.column(name))
    y = weights = None
    if label is not None:
        y = words_or_numbers(arrow, path, label, table.column(label))
    if wanted.weights is not None:
        weights = numbers(arrow, path, wanted.weights, table.column(wanted.weights))
    return Table(X, y, features, weights)


def label_among(path: Path, names: Sequence[str], wanted: Wanted) -> str | None:
    """The column of the labels: the one that is named, or one with a usual name."""
    if wanted.label is not None:
        if wanted.label not in names:
            found = some(list(names))
            raise DataFileError(
                path, f"has no column {wanted.label!r} for the labels; it has {found}"
            )
        return wanted.label
    taken = {*(wanted.expected or ()), *(wanted.columns or ()), wanted.weights}
    usual = (name for name in USUAL_LABELS if name in names and name not in taken)
    return next(usual, None)


def refuse_twins(path: Path, names: list[str]) -> None:
    """Refuse a table with two columns of the same name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataFileError(path, f"has more than one column named {twice!r}")


def refuse_others(
    path: Path,
    found: list[str],
    expected: Sequence[str],
    label: str | None,
    of: str = "the training data",
) -> None:
    """Refuse a table whose features are not those expected: the columns `of` something."""
    there, known = frozenset(found), frozenset(expected)
    missing = [name for name in expected if name not in there]
    unknown = [name for name in found if name not in known]
    faults = [f"it lacks {some(missing)}"] if missing else []
    if unknown:
        hint = LEFT_OUT if label else "; name the column of labels, if this is it"
        faults.append(f"it has {some(unknown)} more{hint}")
    if faults:
        raise DataFileError(path, f"must have the columns of {of}, but {' and '.join(faults)}")


def some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


def _refuse_nulls(path: Path, name: str, column: Any, before: int) -> None:
    if column.null_count:
        row = before + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataFileError(
            path, f"column {name!r} has an empty cell in row {row:,} (the first row is row 0)"
        )


def numbers(arrow: Any, path: Path, name: str, column: Any, before: int = 0) -> np.ndarray:
    """A column of numbers or truth values as float64, or as float32 if it is that; `before` rows of
    the file come before it."""
    kind = column.type
    number = arrow.types.is_integer(kind) or arrow.types.is_floating(kind)
    number = number or arrow.types.is_null(kind)  # empty cells alone, which are refused below
    if not (number or arrow.types.is_boolean(kind) or arrow.types.is_decimal(kind)):
        raise DataFileError(
            path, f"column {name!r} must hold numbers, not {kind}; drop it, encode it, or name it"
            " as the label column"
        )  # fmt: skip
    _refuse_nulls(path, name, column, before)
    if kind in (arrow.float32(), arrow.float64()):
        return column.to_numpy()
    return column.cast(arrow.float64(), safe=False).to_numpy()


def words_or_numbers(arrow: Any, path: Path, name: str, column: Any, before: int = 0) -> np.ndarray:
    """A column of labels as it stands; `before` rows of the file come before it."""
    _refuse_nulls(path, name, column, before)
    kind = column.type
    if arrow.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if arrow.types.is_integer(kind) or arrow.types.is_floating(kind):
        return column.to_numpy()
    try:
        return np.array([str(value) for value in column.to_pylist()])
    except UnicodeDecodeError:
        raise DataFileError(path, f"column {name!r} holds words that are not UTF-8") from None


def write_table(
    path: Path, suffix: str, X: Any, y: Any, label: str, names: list[str] | None
) -> None:
    arrow = load_arrow()
    X = dense(X, path)
    names = names or [f"x{k + 1}" for k in range(X.shape[1])]
    if label in names:
        raise ValueError(f"label must not be the name of a column of X, but {label!r} is")
    columns = {} if y is None else {label: arrow.array(np.asarray(y))}
    for k, name in enumerate(names):
        columns[name] = arrow.array(np.ascontiguousarray(X[:, k]))
    table = arrow.table(columns)
    with replacing(path) as sink:
        if suffix == ".csv":
            with compressed(path, sink) as stream:
                arrow.csv.write_csv(table, stream)
        else:
            arrow.parquet.write_table(table, sink)
