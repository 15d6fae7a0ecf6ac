"""CSV and Parquet in chunks, through pyarrow.

Parquet is read in batches of rows.  Beside the batch, pyarrow keeps a page of each column, which
is never more than a row group.  CSV is read in blocks of whole lines.  Its first block says which
columns hold truth values, and whether the labels are words or numbers.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchsvm.files.ahead import one_ahead
from batchsvm.files.cutting import block_bytes, cut
from batchsvm.files.errors import DataFileError
from batchsvm.files.formats import format_of
from batchsvm.files.source import Chunk
from batchsvm.files.streams import DAMAGED, blocks_of_lines
from batchsvm.files.tables import (
    load_arrow,
    numbers,
    refuse_others,
    refuse_twins,
    some,
    unreadable,
    words_or_numbers,
)

READ_AHEAD = 1 << 16  # bytes of a column of Parquet that are read at once


class Columns(NamedTuple):
    """Which columns of a table are what; their names are the same in all tables of a source."""

    y: str | None
    sample_weight: str | None
    features: tuple[str, ...]
    of: str | None  # the table that the features are those of, or None if the caller named them

    @property
    def used(self) -> list[str]:
        beside = [name for name in (self.y, self.sample_weight) if name is not None]
        return [*self.features, *beside]


def columns_of(
    path: Path, y: str | None, sample_weight: str | None, columns: Sequence[str] | None
) -> Columns:
    """Which columns of this table, and of all others of its source, are what."""
    names = column_names(path)
    for name, what in ((y, "y"), (sample_weight, "sample_weight")):
        if name is not None and name not in names:
            raise DataFileError(
                path, f"has no column {name!r}, which {what} names; it has {some(names)}"
            )
    if columns is not None:
        found = Columns(y, sample_weight, tuple(columns), None)
        _refuse_missing(path, names, found)
        return found
    features = tuple(name for name in names if name not in (y, sample_weight))
    if not features:
        raise DataFileError(path, f"has no column of features, only {some(names)}")
    return Columns(y, sample_weight, features, str(path))


def table_chunks(path: Path, kind: str, columns: Columns, max_bytes: int) -> Iterator[Chunk]:
    """The rows of a table in chunks."""
    arrow = load_arrow()
    before = 0
    tables = _csv_tables if kind == ".csv" else _parquet_tables
    with closing(one_ahead(tables(arrow, path, columns, max_bytes))) as found:
        for table in found:
            yield from cut(*_arrays(arrow, path, columns, table, before), max_bytes)
            before += table.num_rows


def _arrays(
    arrow: Any, path: Path, columns: Columns, table: Any, before: int
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    single = all(table.schema.field(name).type == arrow.float32() for name in columns.features)
    X = np.empty((table.num_rows, len(columns.features)), np.float32 if single else np.float64)
    for k, name in enumerate(columns.features):
        X[:, k] = numbers(arrow, path, name, table.column(name), before)
    y = weights = None
    if columns.y is not None:
        y = words_or_numbers(arrow, path, columns.y, table.column(columns.y), before)
    if columns.sample_weight is not None:
        column = table.column(columns.sample_weight)
        weights = numbers(arrow, path, columns.sample_weight, column, before)
    return X, y, weights


@contextmanager
def _named_errors(arrow: Any, path: Path, kind: str) -> Iterator[None]:
    """What pyarrow says of a file that it cannot read, with the name of the file."""
    try:
        yield
    except DataFileError:
        raise
    except (arrow.ArrowException, *DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename:
            raise
        raise unreadable(path, "CSV" if kind == ".csv" else "Parquet", error) from None


def column_names(path: Path) -> list[str]:
    """The names of the columns of a table, from the beginning or the end of the file."""
    arrow, kind = load_arrow(), format_of(path)
    with _named_errors(arrow, path, kind):
        if kind == ".csv":
            with closing(blocks_of_lines(path, block=block_bytes(0, 1))) as blocks:
                first = next(blocks, b"")
            names = (
                [] if not first.strip() else _parse_csv(arrow, path, first, None, None).column_names
            )
        else:
            with path.open("rb") as raw:
                names = arrow.parquet.ParquetFile(raw).schema_arrow.names
    if not names:
        raise DataFileError(path, "has no columns")
    refuse_twins(path, names)
    return list(names)


def _check_names(path: Path, names: list[str], columns: Columns) -> None:
    refuse_twins(path, names)
    _refuse_missing(path, names, columns)
    if columns.of is not None:
        features = [name for name in names if name not in (columns.y, columns.sample_weight)]
        refuse_others(path, features, columns.features, columns.y, columns.of)


def _refuse_missing(path: Path, names: list[str], columns: Columns) -> None:
    there = frozenset(names)
    if columns.of is None:
        needed = columns.used
    else:  # of features that differ, `refuse_others` says more
        needed = [name for name in (columns.y, columns.sample_weight) if name is not None]
    if missing := [name for name in needed if name not in there]:
        raise DataFileError(path, f"has no column {some(missing)}; it has {some(names)}")


def _parquet_tables(
    arrow: Any, path: Path, columns: Columns, max_bytes: int
) -> Generator[Any, None, None]:
    with _named_errors(arrow, path, ".parquet"), path.open("rb") as raw:
        file = arrow.parquet.ParquetFile(
            raw, buffer_size=READ_AHEAD, page_checksum_verification=True
        )
        _check_names(path, file.schema_arrow.names, columns)
        # A batch is there as pyarrow's columns and as rows, and the next one as columns.
        batch = max(block_bytes(max_bytes, 3) // (8 * len(columns.used)), 1)
        for found in file.iter_batches(batch_size=batch, columns=columns.used):
            yield arrow.Table.from_batches([found])


def _csv_tables(
    arrow: Any, path: Path, columns: Columns, max_bytes: int
) -> Generator[Any, None, None]:
    names: list[str] | None = None
    types: dict[str, Any] | None = None
    # A block is there as text, as pyarrow's columns and as rows, and the next one as columns.  A
    # cell has two bytes of text or more, and eight as a number.
    with closing(blocks_of_lines(path, block=block_bytes(max_bytes, 16))) as blocks:
        for block in blocks:
            if not block.strip():
                continue
            with _named_errors(arrow, path, ".csv"):
                table = _parse_csv(arrow, path, block, names, types)
            if names is None:
                names = list(table.column_names)
                _check_names(path, names, columns)
            if types is None and table.num_rows:
                types = _types(arrow, table, columns)
            yield table


def _types(arrow: Any, table: Any, columns: Columns) -> dict[str, Any]:
    """The types of the columns in use, from the first rows: a number may have a fraction later."""
    found = {}
    for name in columns.used:
        kind = table.schema.field(name).type
        whole = arrow.types.is_integer(kind) or arrow.types.is_null(kind)
        found[name] = arrow.float64() if whole and name != columns.y else kind
    return found


def _parse_csv(
    arrow: Any,
    path: Path,
    block: bytes,
    names: list[str] | None,
    types: dict[str, Any] | None,
) -> Any:
    """The rows of a block of lines, whose first line has the names if they are not known yet."""
    for last in (False, True):
        try:
            return arrow.csv.read_csv(
                arrow.BufferReader(block),
                arrow.csv.ReadOptions(column_names=names),
                convert_options=arrow.csv.ConvertOptions(
                    column_types=types, include_columns=list(types or ())
                ),
            )
        except arrow.ArrowInvalid as error:
            whole = [name for name, kind in (types or {}).items() if kind == arrow.int64()]
            if types is None or names is None or last or not whole:
                raise _in_words(path, str(error), names) from None
            types.update(dict.fromkeys(whole, arrow.float64()))  # labels with a fraction
    raise AssertionError


def _in_words(path: Path, words: str, names: list[str] | None) -> DataFileError:
    """pyarrow's sentence with the name of a column, without a row that is counted in the block."""
    words = re.sub(r"Row #\d+: ", "", words)
    found = re.match(r"In CSV column #(\d+): CSV conversion error to \w+: (.*)", words, re.S)
    if found and names is not None:
        name = names[int(found[1])]
        return DataFileError(
            path, f"column {name!r} holds numbers or truth values at first, but then an {found[2]}"
        )
    return unreadable(path, "CSV", ValueError(words))
