"""Rows that matter, kept in memory from part to part (Selective Block Minimization, KDD 2011).

A row whose alpha is strictly between the bounds of its box is likely to move again before its part
is read the next time.  Of each part some of these rows stay in memory, and are visited after the
steps on every other part, which costs no read.  Rows of several parts lie together in a *bin*, so
that few trainers have to be started.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from batchsvm.core.problem import Problem
from batchsvm.core.tuning import Tuning
from batchsvm.engines.cpu.dataset import CpuDataset, PlacedRows
from batchsvm.engines.cpu.row_slices import slice_rows, stacked_rows
from batchsvm.engines.cpu.rows import CSR, Dense, some_rows
from batchsvm.engines.targets import HostTargets

# Visits of rows in memory, per visit of a row of a part.  With 0.5, text of 60,000 rows in 20
# parts takes 12 reads to tol 1e-3 in the place of 17 with 1.25 per cent of the rows in memory, and
# 9 with 5 per cent; twice as many visits spare at most one read more.
VISITS_PER_ROW = 0.5
BYTES_PER_ROW = 128  # beside the entries: records, targets, order
BINS = 6  # few, since starting a trainer takes as long as visits of some thousand rows
SPARE = 0.8  # of the budget for rows; the rest is for the bin that is being made anew


class Bin(NamedTuple):
    """Rows of some parts, one part after another."""

    entries: Dense | CSR
    norms2: np.ndarray
    targets: HostTargets
    parts: np.ndarray  # of each row
    rows: np.ndarray  # their numbers in their part

    def placed(self, jobs: int, tuning: Tuning) -> CpuDataset:
        placed = PlacedRows(self.entries)
        placed.norms2 = self.norms2
        return CpuDataset(placed, jobs, tuning)

    def members(self) -> list[tuple[int, slice]]:
        """Which part has which of the rows."""
        starts = np.flatnonzero(np.diff(self.parts, prepend=-1))
        return [
            (int(self.parts[start]), slice(start, stop))
            for start, stop in pairwise([*starts.tolist(), self.parts.size])
        ]


class Resident:
    """Some rows of each part, within a budget of bytes."""

    def __init__(self, budget: int, parts: int, bytes_per_row: float) -> None:
        self.quota = int(SPARE * budget / parts / (bytes_per_row + BYTES_PER_ROW))
        self._bins: list[Bin | None] = [None] * min(BINS, parts)
        self._allowed = 0.0  # visits
        self._taken: dict[int, Bin] = {}  # by part, until all of them are there

    @property
    def bins(self) -> int:
        return len(self._bins)

    def keep(self, p: int, data: CpuDataset, targets: HostTargets, rows: np.ndarray) -> None:
        """These rows of a part stay, in the place of those before."""
        at = p % len(self._bins)
        pieces, old = [], self._bins[at]
        if old is not None:
            pieces = [_some(old, own) for part, own in old.members() if part != p]
        self._bins[at] = _joined([*pieces, _rows_of_part(p, data, targets, rows)])

    def some(self, visits: float, rng: np.random.Generator) -> list[Bin]:
        """Bins in random order; in the mean they have so many rows, unless there are fewer."""
        bins = [own for own in self._bins if own is not None and own.rows.size]
        self._allowed = min(self._allowed + visits, float(sum(own.rows.size for own in bins)))
        found = []
        for j in rng.permutation(len(bins)).tolist():
            if self._allowed < bins[j].rows.size:
                break
            self._allowed -= bins[j].rows.size
            found.append(bins[j])
        return found

    # What a checkpoint has of it.

    def kept(self) -> tuple[list[tuple[np.ndarray, np.ndarray]], float]:
        """The parts and the numbers of the rows of each bin, and the visits that are allowed."""
        none = np.empty(0, np.int64)
        bins = [(none, none) if own is None else (own.parts, own.rows) for own in self._bins]
        return bins, self._allowed

    def take(self, p: int, data: CpuDataset, targets: HostTargets, rows: np.ndarray) -> None:
        """These rows of a part are to stay again; `join` puts them into their bins."""
        self._taken[p] = _rows_of_part(p, data, targets, rows)

    def join(self, members: list[list[int]], allowed: float) -> None:
        """Bins of the rows that were taken, each with these parts in this order."""
        for at, parts in enumerate(members):
            self._bins[at] = _joined([self._taken.pop(p) for p in parts]) if parts else None
        self._allowed = allowed


def free_rows(
    problem: Problem, alpha: np.ndarray, most: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows whose alpha is free in some problem, those of more problems first; in order."""
    free = np.zeros(len(alpha))
    for k in range(problem.k):
        targets = problem.only(k).targets
        assert isinstance(targets, HostTargets)
        weights = targets.weights(0, len(alpha))
        lower, upper = (bound * (1.0 if weights is None else weights) for bound in _box(problem))
        free += (alpha[:, k] > lower) & (alpha[:, k] < upper) & (alpha[:, k] != 0.0)
    candidates = np.flatnonzero(free)
    if candidates.size <= most:
        return candidates
    order = np.argsort(-(free[candidates] + rng.random(candidates.size)))
    return np.sort(candidates[order[:most]])


def _box(problem: Problem) -> tuple[float, float]:
    loss = problem.loss
    largest = 1e200  # times a weight it is finite
    return max(float(loss.lower), -largest), min(float(loss.upper), largest)


def _rows_of_part(p: int, data: CpuDataset, targets: HostTargets, rows: np.ndarray) -> Bin:
    whole = Bin(data.rows, data.norms2, targets, np.full(data.n, p), np.arange(data.n))
    return _some(whole, rows)


def _some(own: Bin, which: np.ndarray | slice) -> Bin:
    """Some rows of a bin; a slice of them is not copied."""
    y, weights, offset = (None if a is None else a[which] for a in _arrays(own.targets))
    assert y is not None
    targets = replace(own.targets, y=y, sample_weight=weights, offset=offset)
    entries = (
        slice_rows(own.entries, which.start, which.stop)
        if isinstance(which, slice)
        else some_rows(own.entries, which)
    )
    return Bin(entries, own.norms2[which], targets, own.parts[which], own.rows[which])


def _joined(bins: list[Bin]) -> Bin:
    last = bins[-1]
    columns = zip(*(_arrays(own.targets) for own in bins), strict=True)
    y, weights, offset = (
        None if column[-1] is None else np.asfortranarray(np.concatenate(column))
        for column in columns
    )
    assert y is not None
    return Bin(
        stacked_rows([own.entries for own in bins]),
        np.concatenate([own.norms2 for own in bins]),
        replace(last.targets, y=y, sample_weight=weights, offset=offset),
        np.concatenate([own.parts for own in bins]),
        np.concatenate([own.rows for own in bins]),
    )


def _arrays(targets: HostTargets) -> tuple[Any, ...]:
    return targets.y, targets.sample_weight, targets.offset
