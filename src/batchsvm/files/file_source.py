"""Files as a source: each file is a part, read in chunks by the reader of its format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from batchsvm.files.array_chunks import array_chunks, width_of
from batchsvm.files.arrays import labels_beside
from batchsvm.files.errors import DataFileError
from batchsvm.files.formats import format_of
from batchsvm.files.libsvm_chunks import counts_from_zero, libsvm_chunks
from batchsvm.files.source import Chunk, Part
from batchsvm.files.table_chunks import Columns, columns_of, table_chunks
from batchsvm.files.tables import some

TABLES = (".csv", ".parquet")


class Reading(NamedTuple):
    """How all files of a source are read."""

    columns: Columns | None  # of tables
    width: int | None  # the number of columns, or None where only LIBSVM text would tell
    of: str  # what the width is that of
    zero_based: bool  # whether indices of LIBSVM text count from 0
    is_guess: bool  # from the first blocks of text
    needs_labels: bool


@dataclass(frozen=True)
class FilePart:
    """A file, and how it is read; it can be sent to another process."""

    path: Path
    reading: Reading

    @property
    def name(self) -> str:
        return str(self.path)

    def fingerprint(self) -> str:
        """Size, time of the last change and inode."""
        files = [self.path]
        if format_of(self.path) == ".npy" and (beside := labels_beside(self.path)).exists():
            files.append(beside)
        try:
            stats = [file.stat() for file in files]
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path}: there is no such file any more") from None
        return " ".join(f"{s.st_size}-{s.st_mtime_ns}-{s.st_ino}" for s in stats)

    def chunks(self, max_bytes: int) -> Iterator[Chunk]:
        """The rows in chunks.

        About `max_bytes` are in memory at once, and at least some hundred kilobytes.  To these come
        a line of text or a row that is longer, a page of each column of Parquet, and arrays
        that do not lie row by row in their file, which are read whole.
        """
        how = self.reading
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path}: there is no such file any more")
        kind = format_of(self.path)
        if kind == "text":
            guess = how.is_guess
            yield from libsvm_chunks(self.path, how.zero_based, how.width, max_bytes, guess)
        elif kind in TABLES:
            assert how.columns is not None
            yield from table_chunks(self.path, kind, how.columns, max_bytes)
        else:
            for chunk in array_chunks(self.path, kind, max_bytes):
                self._check_array(kind, chunk)
                yield chunk

    def _check_array(self, kind: str, chunk: Chunk) -> None:
        d, how = chunk.X.shape[1], self.reading
        if how.width is not None and d != how.width:
            raise DataFileError(self.path, f"has {d:,} columns, not {how.width:,} as {how.of}")
        if how.needs_labels and chunk.y is None:
            where = "an entry y" if kind == ".npz" else f"a file {labels_beside(self.path).name}"
            raise DataFileError(self.path, f"holds no labels, which are {where}")


class FileSource:
    """A list of files.

    Attributes
    ----------
    feature_names : tuple of str or None
        The names of the columns, if a file has any.
    zero_based : bool or None
        Whether the indices of LIBSVM text count from 0; None if no file is LIBSVM text.
    """

    def __init__(self, name: str, parts: Sequence[FilePart]) -> None:
        self.name, self.parts = name, parts
        how = parts[0].reading
        self.feature_names = None if how.columns is None else how.columns.features
        has_text = any(format_of(part.path) == "text" for part in parts)
        self.zero_based = how.zero_based if has_text else None

    @property
    def file_bytes(self) -> int:
        """The size of all files."""
        return sum(part.path.stat().st_size for part in self.parts)

    def one_pass(self, max_bytes: int) -> Iterator[tuple[Part, Iterator[Chunk]]]:
        """Every part in order, with its chunks.

        Labels that are words in one file and numbers in another are refused, and so are files of
        which none holds a row.
        """
        seen = _Seen()
        for part in self.parts:
            yield part, seen.watch(part, part.chunks(max_bytes))
        if seen.rows == 0 and seen.read == len(self.parts):
            raise DataFileError(self.name, "holds no rows")


class _Seen:
    """What was read in a pass."""

    def __init__(self) -> None:
        self.rows = self.read = 0
        self.labels: tuple[str, str] | None = None

    def watch(self, part: FilePart, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        for chunk in chunks:
            self.rows += chunk.X.shape[0]
            if chunk.y is not None:
                kind = "words" if chunk.y.dtype.kind == "U" else "numbers"
                self.labels = self.labels or (kind, part.name)
                first, where = self.labels
                if kind != first:
                    raise DataFileError(part.path, f"has {kind} as labels, but {where} has {first}")
            yield chunk
        self.read += 1


class Given(NamedTuple):
    """What a caller says of the files."""

    y: str | None
    sample_weight: str | None
    columns: tuple[str, ...] | None
    n_features: int | None
    zero_based: bool | str
    needs_labels: bool


def open_files(name: str, files: Sequence[Path], given: Given) -> FileSource:
    """A source of files; the beginning of some of them is read, to see how all of them are."""
    tables = [file for file in files if format_of(file) in TABLES]
    texts = [file for file in files if format_of(file) == "text"]
    arrays = [file for file in files if format_of(file) not in (*TABLES, "text")]
    _refuse_names(given, tables, [*texts, *arrays])
    columns = _columns(tables, given)
    width, of = given.n_features, "n_features says"
    if columns is not None:
        found, where = len(columns.features), f"{columns.of or 'columns'} has"
        if width is not None and width != found:
            raise DataFileError(name, f"has {found:,} columns of features, not {width:,} as {of}")
        width, of = found, where
    elif width is None and arrays:
        width, of = width_of(arrays[0], format_of(arrays[0])), f"{arrays[0]} has"
    is_guess = given.zero_based == "auto"
    from_zero = counts_from_zero(texts) if is_guess and texts else given.zero_based is True
    reading = Reading(columns, width, of, from_zero, is_guess, given.needs_labels)
    return FileSource(name, [FilePart(file, reading) for file in files])


def _refuse_names(given: Given, tables: list[Path], others: list[Path]) -> None:
    """Refuse names of columns where no column has a name."""
    if given.y is not None and not tables:
        raise ValueError(
            f"y must be None for {others[0]}, which holds the labels itself, not {given.y!r}"
        )
    for what, value in (("sample_weight", given.sample_weight), ("columns", given.columns)):
        if value is not None and others:
            raise ValueError(
                f"{what} names columns of tables (CSV, Parquet) and must be None for {others[0]},"
                f" whose columns have no names, not {value!r:.60}"
            )


def _columns(tables: list[Path], given: Given) -> Columns | None:
    """Which columns of the tables are what, by the first table that is not an empty file."""
    filled = [file for file in tables if file.stat().st_size]
    if not filled:
        if tables:
            raise DataFileError(tables[0], "holds no rows")
        return None
    first = filled[0]
    if given.y is None and given.needs_labels:
        names = columns_of(first, None, None, None).features
        raise ValueError(
            f"y must name the column of {first} that holds the labels: one of {some(list(names))}"
        )
    return columns_of(first, given.y, given.sample_weight, given.columns)
