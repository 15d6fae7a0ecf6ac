"""Packed parts: rows on the disk in the form in which kernels read them.

A folder holds one file per array of each part, `00007.values` and so on, and `manifest.json`, which
is written last: a folder without it is not finished.  The manifest has the size and the checksum
of every file.  Nothing that is read is trusted before both are right and all indices are in range.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchsvm.engines.cpu.indices import indices_increase
from batchsvm.engines.cpu.rows import CSR, Dense, unsigned
from batchsvm.engines.labels import Labels
from batchsvm.engines.streamed.errors import DamagedPartError, naming
from batchsvm.files.atomic import replacing

MANIFEST = "manifest.json"
VERSION = 2
ALIGNMENT = 64
ROW_ARRAYS = ("values", "indices", "lengths")
SIDE_ARRAYS = ("norms2", "y", "weights")  # what facts of problems need
ORDER = "numbers"  # of the rows in the source


class PartFacts(NamedTuple):
    """What the manifest says of a part."""

    number: int  # in the names of its files
    rows: int
    nonzeros: int
    longest_row: int
    checksums: dict[str, int]  # by array


@dataclass(frozen=True, eq=False)
class Packed:
    """All parts of a folder."""

    folder: Path
    columns: int
    dense: bool
    dtype: np.dtype[Any]
    weighted: bool
    labels: Labels | None
    norm2: float  # the sum over all rows
    parts: tuple[PartFacts, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def nonzeros(self) -> int:
        return sum(part.nonzeros for part in self.parts)

    def types(self) -> dict[str, np.dtype[Any]]:
        """The arrays of each part, and their types."""
        found = {"values": self.dtype, "norms2": np.dtype("<f8"), ORDER: np.dtype("<i8")}
        if not self.dense:
            found |= {"indices": np.dtype("<i4"), "lengths": np.dtype("<i4")}
        if self.labels is not None:
            found["y"] = np.dtype("<f8" if self.labels.codes is None else "<i4")
        if self.weighted:
            found["weights"] = np.dtype("<f8")
        return found

    def counts(self, p: int) -> dict[str, int]:
        """The number of entries of each array of a part."""
        part = self.parts[p]
        entries = {"values": part.nonzeros, "indices": part.nonzeros}
        return {name: entries.get(name, part.rows) for name in self.types()}

    def path(self, p: int, name: str) -> Path:
        return part_path(self.folder, self.parts[p].number, name)

    def loaded_bytes(self, p: int) -> int:
        """What a part takes in memory, once it is read."""
        part, types, counts = self.parts[p], self.types(), self.counts(p)
        names = [name for name in types if name not in (ORDER, "lengths")]
        arrays = [types[name].itemsize * counts[name] for name in names]
        starts = 0 if self.dense else (part.rows + 1) * _starts_type(part).itemsize
        lengths = 0 if self.dense else 4 * part.rows
        return sum(-(-size // ALIGNMENT) * ALIGNMENT for size in (*arrays, starts, lengths))

    def numbers(self, p: int) -> np.ndarray:
        """The numbers of the rows of a part, in increasing order; on the disk."""
        count = self.parts[p].rows
        try:
            found = np.memmap(self.path(p, ORDER), np.dtype("<i8"), "r", shape=(count,))
        except (OSError, ValueError):
            raise DamagedPartError(f"{self.path(p, ORDER)} cannot be read") from None
        return found


class LoadedPart(NamedTuple):
    """A part in memory; without entries if these were not asked for."""

    rows: Dense | CSR
    norms2: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray | None
    longest_row: int


class Buffer:
    """Memory that parts are read into, one after another."""

    def __init__(self, size: int) -> None:
        self._bytes = np.empty(size, np.uint8)
        self._used = 0

    def clear(self) -> None:
        self._used = 0

    def array(self, dtype: np.dtype[Any], count: int) -> np.ndarray:
        size = dtype.itemsize * count
        start, self._used = self._used, self._used + -(-size // ALIGNMENT) * ALIGNMENT
        return self._bytes[start : start + size].view(dtype)


def raw_bytes(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array."""
    return array.data.cast("B") if array.size else memoryview(b"")


def part_path(folder: Path, number: int, name: str) -> Path:
    return folder / f"{number:05d}.{name}"


def load(packed: Packed, p: int, buffer: Buffer, rows: bool, verify: bool) -> LoadedPart:
    """A part, read into the buffer; without `rows`, all but the entries.

    Raises DamagedPartError if files are not there, are too short, or, with `verify`, are not what
    was written.
    """
    types, counts, part = packed.types(), packed.counts(p), packed.parts[p]
    wanted = [*(ROW_ARRAYS if rows else ()), *SIDE_ARRAYS]
    buffer.clear()
    arrays = {}
    for name in (name for name in wanted if name in types):
        arrays[name] = buffer.array(types[name], counts[name])
        path = packed.path(p, name)
        _read_into(path, arrays[name])
        if verify and zlib.crc32(raw_bytes(arrays[name])) != part.checksums[name]:
            raise DamagedPartError(f"{path} does not have the checksum that was written")
    loaded = LoadedPart(
        _make_rows(packed, p, arrays, buffer) if rows else _no_entries(packed, part.rows),
        arrays["norms2"],
        arrays.get("y"),
        arrays.get("weights"),
        part.longest_row,
    )
    if verify:
        _check(packed, p, loaded, rows)
    return loaded


def _read_into(path: Path, array: np.ndarray) -> None:
    target = raw_bytes(array)
    try:
        with open(path, "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size != array.nbytes:
                raise DamagedPartError(f"{path} has not the size that was written")
            done = 0
            while done < array.nbytes:
                count = file.readinto(target[done:])
                if not count:
                    raise DamagedPartError(f"{path} is too short")
                done += count
    except OSError as error:
        raise DamagedPartError(f"{path} cannot be read: {error.strerror or error}") from None


def _starts_type(part: PartFacts) -> np.dtype[Any]:
    return np.dtype(np.uint32 if part.nonzeros < 2**31 else np.uint64)


def _make_rows(
    packed: Packed, p: int, arrays: dict[str, np.ndarray], buffer: Buffer
) -> Dense | CSR:
    part = packed.parts[p]
    if packed.dense:
        return Dense(arrays["values"].reshape(part.rows, packed.columns))
    starts = buffer.array(_starts_type(part), part.rows + 1)
    lengths = arrays["lengths"]
    if lengths.min() < 0 or int(lengths.sum(dtype=np.int64)) != part.nonzeros:
        raise DamagedPartError(f"{packed.path(p, 'lengths')} does not fit to the entries")
    starts[0] = 0
    np.cumsum(lengths, out=starts[1:], dtype=starts.dtype)
    return CSR(arrays["values"], unsigned(arrays["indices"]), starts, packed.columns)


def _no_entries(packed: Packed, count: int) -> Dense | CSR:
    """Rows of zeros, where only their number is asked for."""
    starts = np.zeros(count + 1, np.uint32)
    return CSR(np.empty(0, packed.dtype), np.empty(0, np.uint32), starts, packed.columns)


def _check(packed: Packed, p: int, loaded: LoadedPart, rows: bool) -> None:
    """Refuse what would lead kernels out of their arrays, whatever its checksum."""
    good = bool(np.isfinite(loaded.norms2).all())
    if rows and isinstance(loaded.rows, CSR):
        found = loaded.rows
        good &= indices_increase(found.indices, found.starts, packed.columns, 0, loaded.norms2.size)
    codes = None if packed.labels is None else packed.labels.codes
    if codes is not None and loaded.y is not None:
        good &= bool(((loaded.y >= 0) & (loaded.y < codes.size)).all())
    if not good:
        raise DamagedPartError(f"{packed.path(p, 'values')} and its neighbours hold no valid rows")


# The manifest.


def write_manifest(packed: Packed, key: dict[str, Any]) -> None:
    """Say that the folder is finished; `key` is what it was made of."""
    labels = packed.labels
    content = {
        "format": "batchsvm packed parts",
        "version": VERSION,
        "key": key,
        "columns": packed.columns,
        "dense": packed.dense,
        "dtype": packed.dtype.str,
        "weighted": packed.weighted,
        "norm2": packed.norm2,
        "labels": None
        if labels is None
        else {
            "classes": None if labels.classes is None else labels.classes.tolist(),
            "dtype": None if labels.classes is None else labels.classes.dtype.str,
            "codes": None if labels.codes is None else labels.codes.tolist(),
            "digest": labels.digest,
        },
        "parts": [part._asdict() for part in packed.parts],
    }
    with naming(packed.folder), replacing(packed.folder / MANIFEST, text=True) as sink:
        json.dump(content, sink)


def read_manifest(folder: Path, key: dict[str, Any]) -> Packed | None:
    """The parts of a folder; None if it is not finished, was made of something else, or its
    manifest is not one of ours."""
    try:
        with open(folder / MANIFEST, encoding="utf-8") as source:
            content = json.load(source)
        if content["key"] != json.loads(json.dumps(key)) or content["version"] != VERSION:
            return None
        return _packed_from(folder, content)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def _packed_from(folder: Path, content: dict[str, Any]) -> Packed:
    dtype = np.dtype({"<f4": np.float32, "<f8": np.float64}[content["dtype"]])
    parts = tuple(
        PartFacts(
            _count(part["number"]),
            _count(part["rows"]),
            _count(part["nonzeros"]),
            _count(part["longest_row"]),
            {str(name): _count(value) for name, value in part["checksums"].items()},
        )
        for part in content["parts"]
    )
    if not parts or not all(part.rows for part in parts):
        raise ValueError("a part has no rows")
    found = Packed(
        folder, _count(content["columns"]), bool(content["dense"]), dtype,
        bool(content["weighted"]), _labels_from(content["labels"]), float(content["norm2"]), parts,
    )  # fmt: skip
    if any(set(part.checksums) != set(found.types()) for part in parts):
        raise ValueError("arrays are missing")
    if found.dense and any(part.nonzeros != part.rows * found.columns for part in parts):
        raise ValueError("dense parts have all entries")
    return found


def _labels_from(content: Any) -> Labels | None:
    if content is None:
        return None
    classes = None
    if content["classes"] is not None:
        dtype = np.dtype(str(content["dtype"]))
        if dtype.kind not in "biufU":
            raise ValueError("labels are numbers or words")
        classes = np.array(content["classes"]).astype(dtype)
    digest = str(content["digest"])
    if content["codes"] is None:
        return Labels(classes, None, digest)
    codes = np.array([_count(code) for code in content["codes"]], np.int32)
    if classes is None or sorted(codes.tolist()) != list(range(classes.size)):
        raise ValueError("codes are those of the classes")
    return Labels(classes, codes, digest)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise ValueError("a count is a number from 0 on")
    return value
