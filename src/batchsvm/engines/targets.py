"""Targets, weights and offsets that stay on this host, for the engines whose rows do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from batchsvm.losses import Loss

NO_LABELS = "y must be given: this data set has no labels of its own"


@dataclass(frozen=True, eq=False)
class HostTargets:
    """The targets of K problems, or of problem `column` of them alone."""

    y: np.ndarray  # (n,) or (n, K); codes (n,) if classes > 0
    sample_weight: np.ndarray | None  # (n,) or (n, K)
    offset: np.ndarray | None  # (n,) or (n, K)
    k: int
    classes: int = 0
    column: int = 0
    chosen: tuple[int, ...] | None = None  # the columns of the problems, if not all in order

    def only(self, k: int) -> HostTargets:
        """The targets of problem k alone."""
        return replace(self, k=1, column=self.columns_of(self.k)[k], chosen=None)

    def some(self, which: Sequence[int]) -> HostTargets:
        """The targets of some problems."""
        if len(which) == 1:
            return self.only(which[0])
        columns = self.columns_of(self.k)
        return replace(self, k=len(which), chosen=tuple(int(columns[k]) for k in which))

    def columns_of(self, k: int) -> np.ndarray:
        """Which column each of k problems has; one set of targets may serve them all."""
        if self.chosen is not None:
            return np.array(self.chosen, np.int32)
        return np.full(k, self.column, np.int32) if self.k == 1 else np.arange(k, dtype=np.int32)

    @property
    def has_offset(self) -> bool:
        return self.offset is not None

    @property
    def n(self) -> int:
        return self.y.shape[0]

    @property
    def total_weight(self) -> float:
        """N of one problem."""
        weights = self._column(self.sample_weight)
        return float(self.n if weights is None else weights.sum())

    def values(self, start: int, stop: int) -> np.ndarray:
        """The targets of one problem: -1 and +1, or numbers."""
        if self.classes:
            return np.where(self.y[start:stop] == self.column, 1.0, -1.0)
        found = self._column(self.y)
        assert found is not None
        return found[start:stop]

    def weights(self, start: int, stop: int) -> np.ndarray | None:
        found = self._column(self.sample_weight)
        return None if found is None else found[start:stop]

    def offsets(self, start: int, stop: int) -> np.ndarray | None:
        found = self._column(self.offset)
        return None if found is None else found[start:stop]

    def signs(self, loss: Loss, start: int, stop: int) -> np.ndarray:
        """s of one problem."""
        if loss.task == "classification":
            return self.values(start, stop)
        return np.ones(stop - start)

    def signs_and_offsets(self, loss: Loss) -> tuple[np.ndarray, np.ndarray]:
        """s and o of one problem."""
        signs, fixed = self.signs(loss, 0, self.n), self.offsets(0, self.n)
        classification = loss.task == "classification"
        offsets = np.zeros(self.n) if classification else self.values(0, self.n)
        return signs, offsets if fixed is None else offsets - signs * fixed

    def constant_sums(self, loss: Loss, b: float) -> tuple[float, float, float]:
        """sum_i c_i phi(s_i b - o_i), sum_i c_i s_i phi'(s_i b - o_i) and N of one problem."""
        if loss.task == "classification" and self.offset is None:  # two responses, b and -b
            signs, sides = np.array([-1.0, 1.0]), np.array(self._sides)
            a = signs * b
            losses, slopes = sides @ loss.value(a), (sides * signs) @ loss.subgradient(a)
            return float(losses), float(slopes), self.total_weight
        weights = self.weights(0, self.n)
        weights = np.ones(self.n) if weights is None else weights
        signs, offsets = self.signs_and_offsets(loss)
        a = signs * b - offsets
        losses, slopes = weights @ loss.value(a), (weights * signs) @ loss.subgradient(a)
        return float(losses), float(slopes), self.total_weight

    @cached_property
    def _sides(self) -> tuple[float, float]:
        """The total weights of the rows that are -1 and of those that are +1."""
        positive, weights = self.values(0, self.n) > 0.0, self.weights(0, self.n)
        if weights is None:
            count = int(np.count_nonzero(positive))
            return float(self.n - count), float(count)
        return float(weights[~positive].sum()), float(weights[positive].sum())

    def _column(self, array: np.ndarray | None) -> np.ndarray | None:
        return array if array is None or array.ndim == 1 else array[:, self.column]


def make_targets(
    n: int, y: Any, sample_weight: Any = None, offset: Any = None, classes: int = 0
) -> HostTargets:
    """`Dataset.targets` of an engine whose data bring no labels of their own."""
    if y is None:
        raise ValueError(NO_LABELS)
    arrays = [None if a is None else np.asarray(a) for a in (y, sample_weight, offset)]
    for name, array in zip(("y", "sample_weight", "offset"), arrays, strict=True):
        if array is not None and array.shape[0] != n:
            raise ValueError(f"{name} must have {n} rows, as X has, not {array.shape[0]}")
    widths = [a.shape[1] for a in arrays if a is not None and a.ndim == 2]
    target, weights, offsets = arrays
    assert target is not None
    return HostTargets(target, weights, offsets, classes or max(widths, default=1), classes)
