"""Rows cut into slices and put together again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from batchsvm.engines.cpu.rows import CSR, Dense
from batchsvm.files.joining import joined


def slice_rows(rows: Dense | CSR, start: int, stop: int) -> Dense | CSR:
    """The rows from `start` to `stop`, whose entries are not copied."""
    if isinstance(rows, Dense):
        return Dense(rows.values[start:stop])
    starts = rows.starts[start : stop + 1]
    first, last = int(starts[0]), int(starts[-1])
    return rows._replace(
        values=rows.values[first:last], indices=rows.indices[first:last], starts=starts - starts[0]
    )


def stacked_rows(parts: Sequence[Dense | CSR]) -> Dense | CSR:
    """The rows of all parts, one part after another; all are of one kind.  The columns are those
    of the widest part."""
    values = joined([part.values for part in parts])
    if not isinstance(parts[0], CSR):
        return Dense(values)
    sparse = [part for part in parts if isinstance(part, CSR)]
    lengths = np.concatenate([np.diff(part.starts) for part in sparse])
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    wide = values.size >= 2**31 or any(part.starts.itemsize == 8 for part in sparse)
    return CSR(
        values,
        joined([part.indices for part in sparse]),
        starts.astype(np.uint64 if wide else np.uint32),
        max(part.columns for part in sparse),
        all(part.increasing for part in sparse),
    )
