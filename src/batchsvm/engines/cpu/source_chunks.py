"""The rows of a source, chunk by chunk: checked, and all in one storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from batchsvm.core.data_checks import as_matrix, read_weights
from batchsvm.core.tuning import Tuning
from batchsvm.engines.cpu.read import first_row_not_finite, read_rows
from batchsvm.engines.cpu.row_slices import stacked_rows
from batchsvm.engines.cpu.rows import CSR, Dense, as_scipy, some_norms2, unsigned
from batchsvm.engines.cpu.workers import WorkerPool
from batchsvm.engines.labels import LabelCollector
from batchsvm.files.errors import SourceChangedError
from batchsvm.files.joining import joined
from batchsvm.files.source import Chunk, Source

IN_MEMORY = "X"  # the name of a part that is X itself


class CheckedRows(NamedTuple):
    """The rows of a chunk, checked."""

    rows: Dense | CSR
    norms2: np.ndarray
    y: np.ndarray | None  # as `LabelCollector.take` stores them
    weights: np.ndarray | None


def stacked_chunks(chunks: Sequence[CheckedRows]) -> CheckedRows:
    """The rows of all chunks, one chunk after another."""
    if len(chunks) == 1:
        return chunks[0]
    rows, norms2, y, weights = zip(*chunks, strict=True)
    return CheckedRows(stacked_rows(rows), joined(norms2), _joined(y), _joined(weights))


def _joined(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    known = [array for array in arrays if array is not None]
    return joined(known) if known else None


class CheckedChunks:
    """Iterates over the chunks of a source once; its attributes are those of what came so far."""

    def __init__(self, source: Source, chunk_bytes: int, tuning: Tuning) -> None:
        self.source, self.chunk_bytes, self.tuning = source, chunk_bytes, tuning
        self.labels = LabelCollector()
        self.columns = 0
        self.kind: type[Dense] | type[CSR] | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.float64)
        self.weighted: bool | None = None

    def __iter__(self) -> Iterator[CheckedRows]:
        before, rows = 0, 0
        for part, chunks in self.source.one_pass(self.chunk_bytes):
            fingerprint = part.fingerprint()
            for chunk in chunks:
                if np.shape(chunk.X)[0] == 0:
                    continue
                yield self._checked(chunk, part.name, rows - before)
                rows += np.shape(chunk.X)[0]
            if part.fingerprint() != fingerprint:
                raise SourceChangedError(part.name, "it has changed while it was read")
            before = rows
        if rows == 0:
            raise ValueError(f"{self.source.name} must hold at least one row, but it is empty")
        if self.columns == 0:
            raise ValueError(f"{self.source.name} must have at least one column, but it has none")

    def _checked(self, chunk: Chunk, name: str, before: int) -> CheckedRows:
        try:
            rows = self._storage(chunk.X, name)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        count = rows.shape[0]
        norms2 = np.empty(count)
        some_norms2(rows, 0, norms2)
        if (found := first_row_not_finite(rows, norms2)) is not None:
            where = "" if name == IN_MEMORY else f"{name}: "
            raise ValueError(
                f"{where}X must be finite (no NaN, no inf) and below 1e150, but row"
                f" {before + found[0]} holds {found[1]!r}"
            )
        for given in (chunk.y, chunk.weights):
            if given is not None and np.shape(given) != (count,):
                raise ValueError(
                    f"{name}: y and weights must have one entry per row of X, {count}, not shape"
                    f" {np.shape(given)}"
                )
        y, weights = self.labels.take(chunk.y, name), self._weights(chunk, name)
        return CheckedRows(rows, norms2, y, weights)

    def _storage(self, X: Any, name: str) -> Dense | CSR:
        """The rows of a chunk, in the storage of the first one."""
        rows = read_rows(as_matrix(X), WorkerPool(), self.tuning)
        if isinstance(rows, CSR) and not rows.increasing:
            matrix = as_scipy(rows)
            matrix.sort_indices()
            rows = _csr_of(matrix, rows.values.dtype)
        if self.kind is None:
            self.kind, self.dtype = type(rows), rows.values.dtype
        if self.kind is not type(rows):
            rows = _converted(rows)
        if rows.values.dtype != self.dtype:
            if self.dtype == np.float32:
                raise ValueError(
                    "X must have float32 values as in the chunks before it, not float64"
                )
            rows = rows._replace(values=rows.values.astype(self.dtype))
        if self.kind is Dense and self.columns not in (0, rows.shape[1]):
            raise ValueError(
                f"X must have {self.columns} columns as in the chunks before it, not"
                f" {rows.shape[1]}"
            )
        if rows.shape[1] >= 2**31:
            raise ValueError(f"X must have fewer than 2^31 columns, not {rows.shape[1]}")
        self.columns = max(self.columns, rows.shape[1])
        return rows

    def _weights(self, chunk: Chunk, name: str) -> np.ndarray | None:
        has = chunk.weights is not None
        if self.weighted is not None and has != self.weighted:
            raise ValueError(
                f"sample_weight must be given for all parts or for none, but {name} has"
                f" {'some' if has else 'none'}"
            )
        self.weighted = has
        if chunk.weights is None:
            return None
        weights = np.asarray(chunk.weights, np.float64)
        if weights.any():  # a chunk may weigh nothing
            try:
                read_weights(weights, weights.size)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return weights


def _csr_of(matrix: Any, dtype: Any) -> CSR:
    parts = unsigned(matrix.indices), unsigned(matrix.indptr)
    return CSR(matrix.data.astype(dtype), *parts, matrix.shape[1])


def _converted(rows: Dense | CSR) -> Dense | CSR:
    """Dense rows as CSR, or CSR as dense."""
    if isinstance(rows, CSR):
        return Dense(as_scipy(rows).toarray().astype(rows.values.dtype))
    return _csr_of(scipy.sparse.csr_array(rows.values), rows.values.dtype)
