"""Where a worker takes its part from: rows in the object store, files, or a `ray.data.Dataset`.

An origin outlives its worker: another one takes the same part from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from batchsvm.engines.labels import LabelCollector, Labels
from batchsvm.engines.ray.library import load_ray
from batchsvm.files.errors import SourceChangedError
from batchsvm.files.joining import joined
from batchsvm.files.source import Chunk, Source

CHUNK_BYTES = 2**26


class Piece(NamedTuple):
    """Rows that follow each other in the source, too."""

    part: int  # of the source
    chunk: int  # of the part
    rows: int


class Rows(NamedTuple):
    """The rows of one part, in the memory of its worker."""

    X: Any
    y: np.ndarray | None = None  # as `labels` says
    weights: np.ndarray | None = None
    labels: Labels | None = None
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class MatrixOrigin:
    """Rows that the driver has put into the object store."""

    stored: Any

    def read(self, timeout: float) -> Rows:
        return Rows(load_ray().get(self.stored, timeout=timeout))


@dataclass(frozen=True)
class SourceOrigin:
    """Parts of a source, read by the worker itself; of some, every `step`-th chunk alone."""

    source: Source = field(repr=False)
    shares: tuple[tuple[int, int, int], ...]  # number of the part, first chunk, step
    fingerprints: tuple[str, ...]

    def read(self, timeout: float) -> Rows:
        self._refuse_changes()
        rows = collected(self._chunks())
        self._refuse_changes()
        return rows

    def _chunks(self) -> Iterator[tuple[str, Piece, Chunk]]:
        for number, first, step in self.shares:
            part = self.source.parts[number]
            for j, chunk in enumerate(part.chunks(CHUNK_BYTES)):
                if j % step == first and chunk.X.shape[0]:
                    yield part.name, Piece(number, j, chunk.X.shape[0]), chunk

    def _refuse_changes(self) -> None:
        for (number, _, _), known in zip(self.shares, self.fingerprints, strict=True):
            part = self.source.parts[number]
            if part.fingerprint() != known:
                raise SourceChangedError(part.name, "it has changed since it was read")


def collected(chunks: Iterator[tuple[str, Piece, Chunk]]) -> Rows:
    """Chunks with their names, as the rows of one part."""
    labels, pieces = LabelCollector(), list[Piece]()
    rows, y, weights = list[Any](), list[Any](), list[Any]()
    for name, piece, chunk in chunks:
        pieces.append(piece)
        rows.append(chunk.X)
        y.append(labels.take(chunk.y, name))
        weights.append(None if chunk.weights is None else np.asarray(chunk.weights, np.float64))
    if not rows:
        return Rows(np.empty((0, 0)))
    return Rows(_stacked(rows), _joined(y), _joined(weights), labels.found(), tuple(pieces))


def _joined(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    known = [array for array in arrays if array is not None]
    if known and len(known) < len(arrays):
        raise ValueError("sample_weight must be there for all rows of a source or for none")
    return np.concatenate(known) if known else None


def _stacked(matrices: Sequence[Any]) -> Any:
    if len(matrices) == 1:
        return matrices[0]
    if not any(scipy.sparse.issparse(X) for X in matrices):
        return joined(matrices)
    columns = max(X.shape[1] for X in matrices)
    return scipy.sparse.vstack([sparse(X, columns) for X in matrices], "csr")


def sparse(X: Any, columns: int) -> Any:
    """X as CSR with so many columns: those of LIBSVM text that are not in this file are zero."""
    rows = scipy.sparse.csr_array(X)
    if rows.shape[1] == columns:
        return rows
    parts = rows.data, rows.indices, rows.indptr
    return scipy.sparse.csr_array(parts, shape=(rows.shape[0], columns))


def deal_out(source: Source, workers: int) -> list[SourceOrigin]:
    """The parts of a source among workers: neighbours together, or, of fewer parts than workers,
    the chunks of a part in turn."""
    parts = source.parts
    prints = [part.fingerprint() for part in parts]
    if not parts:
        raise ValueError(f"{source.name} must hold at least one row, but it is empty")
    shares: list[list[tuple[int, int, int]]] = [[] for _ in range(workers)]
    if len(parts) >= workers:
        for j in range(len(parts)):
            shares[j * workers // len(parts)].append((j, 0, 1))
    else:
        for p in range(workers):
            j = p % len(parts)
            step = len(range(j, workers, len(parts)))
            shares[p].append((j, p // len(parts), step))
    return [SourceOrigin(source, tuple(own), tuple(prints[j] for j, _, _ in own)) for own in shares]
