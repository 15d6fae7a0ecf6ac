"""Targets and dual points of a data set in parts: one handle per part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchsvm.engines.protocol import Dual, Targets

# Which rows of the whole a part has, by their numbers, in increasing order.
Place = slice | np.ndarray


class PerPart(list[Any]):
    """One value for each part, in the order of the parts."""


@dataclass(frozen=True, eq=False)
class PartsTargets:
    """`Targets` (see `engines/protocol.py`) of which each part keeps its own."""

    parts: PerPart  # of Targets
    k: int
    has_offset: bool

    def only(self, k: int) -> PartsTargets:
        return PartsTargets(PerPart(own.only(k) for own in self.parts), 1, self.has_offset)

    def some(self, which: Sequence[int]) -> PartsTargets:
        parts = PerPart(own.some(which) for own in self.parts)
        return PartsTargets(parts, len(which), self.has_offset)


@dataclass(frozen=True, eq=False)
class Cut:
    """How rows are cut into parts; data sets that share their rows share it."""

    n: int
    places: Sequence[Place]  # the rows of each part

    def taken(self, array: np.ndarray | None) -> PerPart:
        """The rows of each part, from an array over all rows."""
        if array is None:
            return PerPart([None] * len(self.places))
        return PerPart(np.asfortranarray(array[place]) for place in self.places)

    def whole(self, found: Sequence[np.ndarray]) -> np.ndarray:
        """What each part has found for its rows, as one array over all rows."""
        first = np.asarray(found[0])
        whole = np.empty((self.n, *first.shape[1:]), first.dtype, order="F")
        for place, values in zip(self.places, found, strict=True):
            whole[place] = values
        return whole


@dataclass(frozen=True, eq=False)
class PartsDual:
    """A `Dual` (see `engines/protocol.py`) of which each part keeps its own rows."""

    parts: PerPart  # of Dual
    cut: Cut

    def fetch(self) -> np.ndarray:
        return self.cut.whole([own.fetch() for own in self.parts])

    def only(self, k: int) -> PartsDual:
        return PartsDual(PerPart(own.only(k) for own in self.parts), self.cut)


def parts_of(targets: Targets) -> PerPart:
    assert isinstance(targets, PartsTargets)
    return targets.parts


def duals_of(dual: Dual) -> PerPart:
    assert isinstance(dual, PartsDual)
    return dual.parts


def size_of(place: Place) -> int:
    """How many rows a part has."""
    return len(range(place.stop)[place]) if isinstance(place, slice) else place.size


def local_rows(place: Place, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of `rows` a part has: their positions in `rows`, and their numbers in the part.

    >>> local_rows(slice(10, 20), np.array([12, 3, 19]))
    (array([0, 2]), array([2, 9]))
    >>> local_rows(np.array([2, 5, 9]), np.array([9, 3, 2, 9]))
    (array([0, 2, 3]), array([2, 0, 2]))
    """
    if isinstance(place, slice):
        here = np.flatnonzero((rows >= place.start) & (rows < place.stop))
        return here, rows[here] - place.start
    at = np.minimum(np.searchsorted(place, rows), place.size - 1)
    here = np.flatnonzero(place[at] == rows)
    return here, at[here]
