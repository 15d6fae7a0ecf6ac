"""CSV and Parquet through pyarrow: named columns of numbers, and one of labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batchsvm.files.arrays import dense
from batchsvm.files.atomic import replacing
from batchsvm.files.errors import DataFileError
from batchsvm.files.streams import DAMAGED, compressed, decompressed

USUAL_LABELS = ("label", "target")


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise ModuleNotFoundError(
            "CSV and Parquet files need pyarrow: pip install 'batchsvm[tables]'"
        ) from None
    return pyarrow


def read_table(
    path: Path, suffix: str, label: str | None, dtype: type, expected: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
    """X, y and the names of X's columns, which are those expected, in that order."""
    arrow = _arrow()
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
        kind = "CSV" if suffix == ".csv" else "Parquet"
        raise DataFileError(
            path, f"is not a readable {kind} file ({' '.join(str(error).split())})"
        ) from None
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataFileError(path, f"has more than one column named {twice!r}")
    if label is None:
        usual = [name for name in USUAL_LABELS if name in names and name not in (expected or ())]
        label = usual[0] if usual else None
    elif label not in names:
        raise DataFileError(path, f"has no column {label!r} for the labels; it has {_some(names)}")
    if table.num_rows == 0:
        raise DataFileError(path, "holds no rows")
    features = [name for name in names if name != label]
    if not features:
        raise DataFileError(path, "has no column beside the labels")
    if expected is not None:
        _refuse_others(path, features, expected, label)
        features = list(expected)
    X = np.empty((table.num_rows, len(features)), dtype=dtype)
    for k, name in enumerate(features):
        X[:, k] = _numbers(arrow, path, name, table.column(name))
    return X, None if label is None else _labels(arrow, path, label, table.column(label)), features


def _refuse_others(
    path: Path, found: list[str], expected: Sequence[str], label: str | None
) -> None:
    there, known = frozenset(found), frozenset(expected)
    missing = [name for name in expected if name not in there]
    unknown = [name for name in found if name not in known]
    faults = [f"it lacks {_some(missing)}"] if missing else []
    if unknown:
        hint = "" if label else "; name the column of labels, if this is it"
        faults.append(f"it has {_some(unknown)} more{hint}")
    if faults:
        raise DataFileError(
            path, f"must have the columns of the training data, but {' and '.join(faults)}"
        )


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


def _refuse_nulls(path: Path, name: str, column: Any) -> None:
    if column.null_count:
        raise DataFileError(path, f"column {name!r} has {column.null_count:,} empty cells")


def _numbers(arrow: Any, path: Path, name: str, column: Any) -> np.ndarray:
    kind = column.type
    number = arrow.types.is_integer(kind) or arrow.types.is_floating(kind)
    if not (number or arrow.types.is_boolean(kind) or arrow.types.is_decimal(kind)):
        raise DataFileError(
            path, f"column {name!r} must hold numbers, not {kind}; drop it, encode it, or name it"
            " as the label column"
        )  # fmt: skip
    _refuse_nulls(path, name, column)
    return column.cast(arrow.float64(), safe=False).to_numpy()


def _labels(arrow: Any, path: Path, name: str, column: Any) -> np.ndarray:
    _refuse_nulls(path, name, column)
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
    arrow = _arrow()
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
