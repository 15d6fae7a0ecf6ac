"""Rows of a source that were read into this machine's memory, with their labels and weights."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from batchsvm.core.problem import Problem
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines.base_dataset import targets_of
from batchsvm.engines.cpu.dataset import CpuDataset, PlacedRows
from batchsvm.engines.cpu.source_chunks import CheckedChunks, stacked_chunks
from batchsvm.engines.labels import Labels, OwnTargets, wanted_labels
from batchsvm.engines.targets import HostTargets
from batchsvm.files.source import Source

CHUNK_BYTES = 2**26


class LabelledDataset(CpuDataset):
    """A `Dataset` (see `engines/protocol.py`) that brings labels and weights of its own.

    Attributes
    ----------
    labels : Labels or None
        What the source said of its rows.
    feature_names : tuple of str or None
        The names of the columns, if the source has any.
    zero_based : bool or None
        Whether the indices of LIBSVM text were taken to count from 0; None if there is none.
    """

    labels: Labels | None = None
    feature_names: tuple[str, ...] | None = None
    zero_based: bool | None = None
    _y: np.ndarray | None = None
    _weights: np.ndarray | None = None

    def targets(
        self, y: Any = None, sample_weight: Any = None, offset: Any = None, classes: int = 0
    ) -> HostTargets:
        if y is None and self.labels is not None:
            how = "codes" if classes else self.labels.usual
            return self.own_targets(how, sample_weight, offset)
        return super().targets(y, sample_weight, offset, classes)

    def own_targets(
        self, how: str, sample_weight: Any = None, offset: Any = None, class_weights: Any = None
    ) -> HostTargets:
        self.require_open()
        weights, fixed = (None if a is None else np.asarray(a) for a in (sample_weight, offset))
        labels, k, classes = wanted_labels(self.labels, how, (weights, fixed))
        assert self._y is not None
        shape = HostTargets(np.empty(0), weights, fixed, k, classes)
        return OwnTargets(labels, how, shape, class_weights).read(self._y, self._weights)

    def class_totals(self, sample_weight: Any = None) -> np.ndarray:
        targets = self.own_targets("codes", sample_weight)
        return np.bincount(targets.y, targets.weights(0, self.n), targets.classes)

    def row_weights(self, problem: Problem) -> np.ndarray:
        """The weight of each row in the first problem, (n,)."""
        found = targets_of(problem, 0).weights(0, self.n)
        return np.ones(self.n) if found is None else found

    def subset(self, rows: np.ndarray) -> LabelledDataset:
        rows = np.asarray(rows)
        part = _labelled(super().subset(rows), self)
        part._y, part._weights = (None if a is None else a[rows] for a in (self._y, self._weights))
        return part

    def share(self, jobs: int) -> LabelledDataset:
        return _labelled(super().share(jobs), self)


def _labelled(data: CpuDataset, other: LabelledDataset) -> LabelledDataset:
    """These data with the labels of others."""
    found = object.__new__(LabelledDataset)
    found.__dict__ |= data.__dict__
    found.labels, found._y, found._weights = other.labels, other._y, other._weights
    found.feature_names, found.zero_based = other.feature_names, other.zero_based
    return found


def place_source(
    source: Source,
    jobs: int = 1,
    tuning: Tuning = DEFAULT_TUNING,
    limit: float = inf,
) -> LabelledDataset | None:
    """All rows of a source in memory; None as soon as they take more than so many bytes."""
    chunks = CheckedChunks(source, CHUNK_BYTES, tuning)
    read, size = [], 0
    for chunk in chunks:
        read.append(chunk)
        size += chunk.rows.nbytes + 3 * chunk.norms2.nbytes
        if size > limit:
            return None
    whole = stacked_chunks(read)
    placed = PlacedRows(whole.rows)
    placed.norms2 = whole.norms2
    data = LabelledDataset(placed, jobs, tuning)
    data.labels = chunks.labels.found()
    data._y, data._weights = whole.y, whole.weights
    data.feature_names = getattr(source, "feature_names", None)
    data.zero_based = getattr(source, "zero_based", None)
    return data
