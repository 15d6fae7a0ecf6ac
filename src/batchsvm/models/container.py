"""One file that holds a JSON header and arrays, and nothing that could be executed.

    8 bytes   "BATCHSVM"
    4 bytes   version of the format, little-endian
    4 bytes   length of the header, little-endian
    header    JSON in UTF-8: what the writer says, and for each array its type, shape, offset
    arrays    raw, little-endian, each at a multiple of 64 bytes from the start of the file
    32 bytes  SHA-256 of all that comes before

Written by hand because .npz has no checksum over its directory and lets a header claim any
amount of memory, and because safetensors has no checksum at all: here a changed bit anywhere
is found, and no array is allocated that the file is not long enough for.
`docs/model_file.md` is the page for those who read such files elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from math import isfinite, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchsvm.files.atomic import replacing

MAGIC = b"BATCHSVM"
VERSION = 3
ALIGNMENT = 64
CHECKSUM_BYTES = 32
TYPES = ("<f8", "<f4", "<i8", "<i4")


class ModelFileError(ValueError):
    """A file that is not a readable model; the message names the file and what is wrong."""

    def __init__(self, path: str | os.PathLike[str], what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = str(path)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def encode(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a file."""
    raw = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    raw = {name: array.astype(array.dtype.newbyteorder("<")) for name, array in raw.items()}
    for name, array in raw.items():
        if array.dtype.str not in TYPES:
            raise TypeError(f"array {name!r} must be of type {', '.join(TYPES)}, not {array.dtype}")
    entries = {name: {"dtype": a.dtype.str, "shape": list(a.shape)} for name, a in raw.items()}
    # The offsets are part of the header, and the header's length moves the offsets: count
    # them from the first multiple of 64 behind the header.
    offset = 0
    for name, array in raw.items():
        entries[name]["offset"] = offset  # type: ignore[assignment]
        offset = _aligned(offset + array.nbytes)
    text = json.dumps({**header, "arrays": entries}, allow_nan=False, sort_keys=True).encode()
    parts = [MAGIC, VERSION.to_bytes(4, "little"), len(text).to_bytes(4, "little"), text]
    parts.append(bytes(_aligned(16 + len(text)) - 16 - len(text)))
    for array in raw.values():
        parts += [array.tobytes(), bytes(_aligned(array.nbytes) - array.nbytes)]
    body = b"".join(parts)
    return body + hashlib.sha256(body).digest()


def decode(
    content: bytes, path: str | os.PathLike[str], known: Callable[[str], bool] = bool
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays; ModelFileError for anything that `encode` did not write, and for
    an array whose name is not `known` (by default: one without a name).

    The arrays take no more memory than the file is long, since no two of them share a byte.
    """
    if content[: len(MAGIC)] != MAGIC[: len(content)] or not content:
        raise ModelFileError(path, "is not a batchsvm model")
    if len(content) < 16 + CHECKSUM_BYTES:
        raise ModelFileError(path, f"ends early, after {len(content)} bytes")
    version = int.from_bytes(content[8:12], "little")
    if version > VERSION:
        raise ModelFileError(
            path, f"is in version {version} of the format, and this library reads up to {VERSION}:"
            " upgrade batchsvm, or the file is damaged"
        )  # fmt: skip
    body = memoryview(content)[:-CHECKSUM_BYTES]
    if hashlib.sha256(body).digest() != content[-CHECKSUM_BYTES:]:
        raise ModelFileError(
            path, "is damaged or ends early: its checksum is not that of its content"
        )
    if version < 1:
        raise ModelFileError(path, f"is in version {version} of the format, which does not exist")
    length = int.from_bytes(content[12:16], "little")
    try:
        header = json.loads(bytes(body[16 : 16 + length]), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ModelFileError(path, "its header is not JSON") from None
    if not isinstance(header, dict) or not isinstance(header.get("arrays"), dict):
        raise ModelFileError(path, "its header lists no arrays")
    entries = header.pop("arrays")
    for name in entries:
        if not known(name):
            raise ModelFileError(
                path, f"its header lists an array {_shown(name)}, which no model has"
            )
    start, size = _aligned(16 + length), len(body)
    places = {name: _place(start, size, name, entry, path) for name, entry in entries.items()}
    _refuse_overlaps(places, path)
    return header, {name: _array(body, place) for name, place in places.items()}


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


class _Place(NamedTuple):
    """Where an array is in the file."""

    first: int
    last: int  # one past its last byte
    dtype: np.dtype
    shape: tuple[int, ...]


def _place(start: int, size: int, name: str, entry: Any, path: Any) -> _Place:
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    dtype: Any = fields.get("dtype")
    shape: Any = fields.get("shape")
    offset: Any = fields.get("offset")
    good = dtype in TYPES and isinstance(shape, list) and 1 <= len(shape) <= 2
    good = good and all(type(k) is int and 0 <= k < 2**48 for k in [*shape, offset])
    if not good:
        raise ModelFileError(path, f"its header does not describe the array {name!r}")
    kind = np.dtype(dtype)
    first = start + offset
    last = first + prod(shape) * kind.itemsize
    if last > size:
        raise ModelFileError(path, f"is too short for the array {name!r} that its header announces")
    return _Place(first, last, kind, tuple(shape))


def _refuse_overlaps(places: dict[str, _Place], path: Any) -> None:
    before, name = 0, ""
    for other, place in sorted(places.items(), key=lambda item: item[1][:2]):
        if place.first < before:
            raise ModelFileError(path, f"its arrays {name!r} and {other!r} share bytes")
        before, name = place.last, other


def _array(body: memoryview, place: _Place) -> np.ndarray:
    first, _, kind, shape = place
    array = np.frombuffer(body, dtype=kind, count=prod(shape), offset=first).reshape(shape)
    return array.astype(kind.newbyteorder("="))  # a copy, aligned and writable


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:37] + "...")


def write(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write a file; whatever interrupts this, `path` is the old file or the new one, whole."""
    content = encode(header, arrays)
    with replacing(path) as sink:
        sink.write(content)


def read(
    path: str | os.PathLike[str], known: Callable[[str], bool] = bool
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file; an array of a name that is not `known` is refused."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder, not a model")
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    with path.open("rb") as source:
        head = source.read(len(MAGIC))
        if not MAGIC.startswith(head):
            raise ModelFileError(path, "is not a batchsvm model")  # however large it is
        return decode(head + source.read(), path, known)


def to_json(value: float) -> float | str:
    """A float for JSON, which has no infinities and no NaN."""
    return float(value) if isfinite(value) else str(float(value))


def from_json(value: Any) -> float:
    """A float again; ValueError for anything else."""
    if isinstance(value, str) and value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number, not {value!r}")
    return float(value)
