"""One file that holds a JSON header and large arrays, written and read in blocks.

    8 bytes   "BSVMCKPT"
    4 bytes   version of the format, little-endian
    4 bytes   length of the header, little-endian
    header    JSON in UTF-8: what the writer says, and name, type and shape of each array
    arrays    raw, little-endian, in the order of the header, one right after another
    32 bytes  BLAKE2b of all that comes before

Nothing in it is executed, and nothing is believed before the checksum is right and the size is what
the header says.  An array goes from memory to the file and back without a second copy of it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np

from batchsvm.engines.streamed.packed import raw_bytes
from batchsvm.files.atomic import replacing

MAGIC = b"BSVMCKPT"
VERSION = 1
CHECKSUM_BYTES = 32
HEAD_BYTES = len(MAGIC) + 8
BLOCK_BYTES = 2**22
TYPES = ("<f8", "<i8")


class CheckpointFileError(ValueError):
    """A file that is no readable checkpoint; the message names the file and what is wrong."""

    def __init__(self, path: str | os.PathLike[str], what: str) -> None:
        super().__init__(f"{os.fspath(path)}: {what}")
        self.path = os.fspath(path)


def write_checkpoint(
    path: Path, header: dict[str, Any], arrays: Sequence[tuple[str, np.ndarray]]
) -> None:
    """Write a file; whatever interrupts this, `path` is the old file or the new one, whole."""
    listed = [[name, array.dtype.newbyteorder("<").str, array.shape] for name, array in arrays]
    text = json.dumps({**header, "arrays": listed}, allow_nan=False).encode()
    checksum = blake2b(digest_size=CHECKSUM_BYTES)
    with replacing(path) as sink:
        for block in _blocks(text, [array for _, array in arrays]):
            checksum.update(block)
            sink.write(block)
        sink.write(checksum.digest())


def _blocks(text: bytes, arrays: Sequence[np.ndarray]) -> Iterator[bytes | memoryview]:
    yield MAGIC + VERSION.to_bytes(4, "little") + len(text).to_bytes(4, "little")
    yield text
    for array in arrays:
        raw = raw_bytes(np.asarray(array, array.dtype.newbyteorder("<"), order="C"))
        for start in range(0, len(raw), BLOCK_BYTES):
            yield raw[start : start + BLOCK_BYTES]


class _Place(NamedTuple):
    """Where an array is in the file."""

    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class SavedState:
    """A checkpoint that is whole, open to be read.

    It stays what it is when another file takes its place.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self._file = path, file
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEAD_BYTES)
        if head[: len(MAGIC)] != MAGIC:
            raise CheckpointFileError(path, "is not a checkpoint of batchsvm")
        version, length = (int.from_bytes(head[at : at + 4], "little") for at in (8, 12))
        if HEAD_BYTES + length + CHECKSUM_BYTES > size or not self._has_its_checksum(size):
            raise CheckpointFileError(
                path, "is damaged or ends early: its checksum is not that of its content"
            )
        if version != VERSION:
            raise CheckpointFileError(
                path, f"is in version {version} of the format, and this library reads {VERSION}"
            )
        file.seek(HEAD_BYTES)
        self.header, listed = self._header(file.read(length))
        self._places: dict[str, _Place] = {}
        at = HEAD_BYTES + length
        for entry in listed:
            name, place = self._place(entry, at)
            self._places[name] = place
            at += prod(place.shape) * place.dtype.itemsize
        if at + CHECKSUM_BYTES != size or len(self._places) != len(listed):
            raise CheckpointFileError(path, "its header does not describe its arrays")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read_into(self, name: str, array: np.ndarray) -> None:
        """Read an array into a contiguous one of the same shape and type."""
        place = self._places.get(name)
        if place is None or place.shape != array.shape or place.dtype != array.dtype:
            raise CheckpointFileError(
                self.path, f"its array {name!r} is not one of shape {array.shape}"
            )
        raw, done = raw_bytes(array), 0
        self._file.seek(place.start)
        while done < len(raw):
            count = self._file.readinto(raw[done : done + BLOCK_BYTES])  # type: ignore[attr-defined]
            if not count:
                raise CheckpointFileError(self.path, "has become shorter while it was read")
            done += count
        if array.dtype.kind == "f" and not all_finite(array):
            raise CheckpointFileError(
                self.path, f"its array {name!r} holds numbers that are not finite"
            )

    def length(self, name: str) -> int:
        """The number of entries of an array along its first axis."""
        place = self._places.get(name)
        if place is None:
            raise CheckpointFileError(self.path, f"it has no array {name!r}")
        return place.shape[0]

    def _has_its_checksum(self, size: int) -> bool:
        checksum, left = blake2b(digest_size=CHECKSUM_BYTES), size - CHECKSUM_BYTES
        self._file.seek(0)
        while left:
            block = self._file.read(min(left, BLOCK_BYTES))
            if not block:
                return False
            checksum.update(block)
            left -= len(block)
        return self._file.read(CHECKSUM_BYTES) == checksum.digest()

    def _header(self, text: bytes) -> tuple[dict[str, Any], list[Any]]:
        try:
            header = json.loads(text)
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or not isinstance(header.get("arrays"), list):
            raise CheckpointFileError(self.path, "its header is not one of a checkpoint")
        return header, header.pop("arrays")

    def _place(self, entry: Any, at: int) -> tuple[str, _Place]:
        if isinstance(entry, list) and len(entry) == 3:
            name, dtype, shape = entry
            good = isinstance(name, str) and dtype in TYPES and isinstance(shape, list)
            good = good and 1 <= len(shape) <= 2
            if good and all(type(size) is int and 0 <= size < 2**48 for size in shape):
                return name, _Place(at, np.dtype(dtype), tuple(shape))
        raise CheckpointFileError(self.path, "its header does not describe its arrays")


def all_finite(array: np.ndarray) -> bool:
    """Whether all numbers are finite, without an array of as many truth values."""
    flat, step = array.reshape(-1), BLOCK_BYTES // 8
    return all(np.isfinite(flat[at : at + step]).all() for at in range(0, flat.size, step))


def open_checkpoint(path: Path) -> SavedState | None:
    """The checkpoint at this path, or None if nothing is there."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise CheckpointFileError(path, "is not a file")
    file = open(path, "rb")  # noqa: SIM115
    try:
        return SavedState(path, file)
    except BaseException:
        file.close()
        raise
