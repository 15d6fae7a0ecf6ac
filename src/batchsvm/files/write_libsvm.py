"""LIBSVM text, written so that every number comes back bit for bit.

scikit-learn's writer keeps 16 digits, which do not tell all float64 apart; Python's repr
gives the fewest digits that do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm.files.atomic import replacing
from batchsvm.files.errors import DataFileError
from batchsvm.files.streams import Progress, compressed

ROWS_AT_ONCE = 4096


def write_libsvm(
    path: Path, X: Any, y: Any, progress: Progress | None = None, zero_based: bool = False
) -> None:
    """Write X and y with indices from 1, or from 0; without labels, each is 0."""
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    n = X.shape[0]
    labels = np.zeros(n) if y is None else np.asarray(y)
    if labels.dtype.kind not in "fiub":
        raise DataFileError(
            path, f"LIBSVM text holds labels that are numbers, not {labels[0]!r};"
            " use .npz, .csv or .parquet"
        )  # fmt: skip
    with replacing(path) as raw, compressed(path, raw) as sink:
        for start in range(0, n, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, n)
            sink.write(_lines(X, labels, start, stop, 0 if zero_based else 1).encode("ascii"))
            if progress is not None:
                progress(stop / n)


def _lines(X: sp.csr_array, labels: np.ndarray, start: int, stop: int, base: int) -> str:
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    indices = (X.indices[first:last].astype(np.int64) + base).tolist()
    entries = [
        f" {index}:{_shortest(value)}"
        for index, value in zip(indices, X.data[first:last].tolist(), strict=True)
    ]
    ends = (X.indptr[start : stop + 1] - first).tolist()
    heads = [_shortest(label) for label in labels[start:stop].tolist()]
    return "".join(
        head + "".join(entries[a:b]) + "\n"
        for head, a, b in zip(heads, ends[:-1], ends[1:], strict=True)
    )


def _shortest(number: float | int | bool) -> str:
    text = repr(float(number))
    return text[:-2] if text.endswith(".0") else text
