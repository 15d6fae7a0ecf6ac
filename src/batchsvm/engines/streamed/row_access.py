"""A few rows of a packed part, without reading the others."""

from __future__ import annotations

import numpy as np

from batchsvm.engines.cpu.rows import CSR, Dense
from batchsvm.engines.streamed.errors import DamagedPartError
from batchsvm.engines.streamed.packed import Packed


def read_some_rows(packed: Packed, p: int, rows: np.ndarray) -> Dense | CSR:
    """A copy of some rows of a part, in this order."""
    values = _mapped(packed, p, "values")
    if packed.dense:
        return Dense(values.reshape(-1, packed.columns)[rows])
    lengths = _mapped(packed, p, "lengths")
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = ends[rows] - lengths[rows]
    indices = _mapped(packed, p, "indices")
    taken = [slice(start, ends[row]) for start, row in zip(starts, rows, strict=True)]
    inside = np.concatenate([[0], np.cumsum(lengths[rows], dtype=np.int64)])
    found = np.concatenate([indices[part] for part in taken]).view(np.uint32)
    if found.size and int(found.max()) >= packed.columns:
        raise DamagedPartError(f"{packed.path(p, 'indices')} holds an index that is too large")
    entries = np.concatenate([values[part] for part in taken])
    return CSR(entries, found, inside.astype(np.uint32), packed.columns)


def count_nonzeros(packed: Packed, p: int, rows: np.ndarray) -> int:
    """The stored entries of some rows of a part."""
    if packed.dense:
        return rows.size * packed.columns
    return int(_mapped(packed, p, "lengths")[rows].sum(dtype=np.int64))


def _mapped(packed: Packed, p: int, name: str) -> np.ndarray:
    dtype, count = packed.types()[name], packed.counts(p)[name]
    if not count:
        return np.empty(0, dtype)
    path = packed.path(p, name)
    try:
        return np.memmap(path, dtype, "r", shape=(count,))
    except (OSError, ValueError) as error:
        raise DamagedPartError(f"{path} cannot be read: {error}") from None
