"""A re-iterable of chunks as a source: chunk k is part k, counted from 0."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from batchsvm.files.cutting import cut
from batchsvm.files.errors import SourceChangedError
from batchsvm.files.source import Chunk, Part
from batchsvm.files.sparse import check_sparse

HASHED_AT_ONCE = 1 << 20  # bytes


class _Held(NamedTuple):
    """A chunk as it came, checked."""

    X: Any
    y: np.ndarray | None
    weights: np.ndarray | None


@dataclass(frozen=True)
class ChunkPart:
    """One chunk of a re-iterable."""

    source: ChunkSource
    index: int

    @property
    def name(self) -> str:
        return _name(self.index)

    def fingerprint(self) -> str:
        """A hash of the chunk, from when it was last seen; it is read if it was never seen."""
        if self.index not in self.source.digests:
            self.source.held(self.index)
        return self.source.digests[self.index]

    def chunks(self, max_bytes: int) -> Iterator[Chunk]:
        """The rows; all chunks before this one are iterated, unless they are in a list or tuple."""
        yield from cut(*self.source.held(self.index), max_bytes)


class ChunkSource:
    """A re-iterable of tuples (X, y) or (X, y, weights), whose chunks are checked as they pass by.

    Each pass must yield what the first one did: a chunk with another hash raises a
    `SourceChangedError`, and so does another number of chunks.
    """

    def __init__(self, iterable: Iterable[Any], n_features: int | None, needs_labels: bool) -> None:
        self.iterable = iterable
        self.n_features, self.needs_labels = n_features, needs_labels
        self.name = f"the chunks of {type(iterable).__name__}"
        self.digests: dict[int, str] = {}
        self._count = len(iterable) if isinstance(iterable, list | tuple) else None
        self._first: tuple[int, tuple[str, ...]] | None = None

    @property
    def parts(self) -> Sequence[ChunkPart]:
        if self._count is None:
            for _ in self._passing():
                pass
        assert self._count is not None
        return [ChunkPart(self, k) for k in range(self._count)]

    def one_pass(self, max_bytes: int) -> Iterator[tuple[Part, Iterator[Chunk]]]:
        rows = 0
        for k, held in self._passing():
            rows += held.X.shape[0]
            chunks = cut(*held, max_bytes)
            del held  # so that it is gone when the next one is made
            yield ChunkPart(self, k), chunks
            del chunks
        if rows == 0:
            raise ValueError(f"{self.name}: hold no rows")

    def held(self, index: int) -> _Held:
        """One chunk."""
        if isinstance(self.iterable, list | tuple):
            items = iter(self.iterable[index : index + 1])
        else:
            items = islice(iter(self.iterable), index, index + 1)
        for item in items:
            return self._take(index, item)
        raise SourceChangedError(_name(index), "was there in the pass before, and is missing now")

    def _passing(self) -> Iterator[tuple[int, _Held]]:
        count = 0
        for item in self.iterable:
            held = self._take(count, item)
            del item
            yield count, held
            del held
            count += 1
        if self._count is None:
            self._count = count
        if count != self._count:
            raise SourceChangedError(
                self.name, f"are {count:,} now, and were {self._count:,} in the pass before"
            )

    def _take(self, index: int, item: Any) -> _Held:
        held = _checked(_name(index), item, self.needs_labels)
        if self.n_features is not None and held.X.shape[1] != self.n_features:
            raise ValueError(
                f"{_name(index)}: has {held.X.shape[1]:,} columns, not {self.n_features:,} as"
                " n_features says"
            )
        facts = _facts(held)
        first, expected = self._first = self._first or (index, facts)
        for found, wanted in zip(facts, expected, strict=True):
            if found != wanted:
                raise ValueError(f"{_name(index)}: has {found}, but {_name(first)} has {wanted}")
        digest = _digest(held)
        if self.digests.setdefault(index, digest) != digest:
            raise SourceChangedError(_name(index), "is not what it was in the pass before")
        return held


def _name(index: int) -> str:
    return f"chunk {index}"


def _facts(held: _Held) -> tuple[str, ...]:
    """What all chunks have in common."""
    labels = "no labels"
    if held.y is not None:
        labels = f"{'words' if held.y.dtype.kind == 'U' else 'numbers'} as labels"
    return (
        f"{held.X.shape[1]:,} columns",
        "sparse rows" if sp.issparse(held.X) else "dense rows",
        "numbers of float32" if held.X.dtype == np.float32 else "numbers of float64",
        labels,
        "no weights" if held.weights is None else "weights",
    )


def _checked(name: str, item: Any, needs_labels: bool) -> _Held:
    if not isinstance(item, tuple) or len(item) not in (2, 3):
        found = f"a tuple of {len(item)}" if isinstance(item, tuple) else type(item).__name__
        raise ValueError(f"{name}: must be a tuple (X, y) or (X, y, weights), not {found}")
    X = _matrix(name, item[0])
    n = X.shape[0]
    if item[1] is None and needs_labels:
        raise ValueError(f"{name}: y must be the labels of its rows, not None")
    y = None if item[1] is None else _row(name, "y", _labels(item[1]), n, "fiubU")
    weights = None
    if len(item) == 3 and item[2] is not None:
        weights = _row(name, "weights", item[2], n, "fiub").astype(np.float64, copy=False)
    return _Held(X, y, weights)


def _matrix(name: str, X: Any) -> Any:
    try:
        if sp.issparse(X):
            if len(X.shape) == 2:
                check_sparse(X)
                X = sp.csr_array(X)
        else:
            X = np.asarray(X)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: X cannot be read as an array ({error})") from None
    if X.ndim != 2 or X.shape[1] == 0:
        raise ValueError(f"{name}: X must have rows and columns, not shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"{name}: X must hold real numbers, not {X.dtype}")
    return X


def _labels(y: Any) -> np.ndarray:
    """Labels as an array; Python objects as words or numbers if all of them are."""
    y = np.asarray(y)
    if y.dtype.kind == "T" or (y.dtype.kind == "O" and all(isinstance(v, str) for v in y.flat)):
        return y.astype(str)
    if y.dtype.kind == "O" and all(isinstance(v, bool | int | float) for v in y.flat):
        return np.array(y.tolist())
    return y


def _row(name: str, what: str, values: Any, n: int, kinds: str) -> np.ndarray:
    array = np.asarray(values)
    allowed = "numbers or words" if "U" in kinds else "numbers"
    if array.shape != (n,) or array.dtype.kind not in kinds:
        raise ValueError(
            f"{name}: {what} must be {n:,} {allowed}, one for each row, not {array.dtype} of"
            f" shape {array.shape}"
        )
    return array


def _digest(held: _Held) -> str:
    found = hashlib.blake2b(digest_size=16)
    X, y, weights = held
    arrays = [X.indptr, X.indices, X.data] if sp.issparse(X) else [X]
    for array in [*arrays, *(beside for beside in (y, weights) if beside is not None)]:
        found.update(f"{array.dtype.str} {array.shape} ".encode())
        step = max(HASHED_AT_ONCE * len(array) // max(array.nbytes, 1), 1)
        for start in range(0, len(array), step):
            found.update(array[start : start + step].tobytes())
    return found.hexdigest()
