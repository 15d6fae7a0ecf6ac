"""The folds of a cross-validation as problems side by side, on an engine that takes many."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchsvm.engines import Dataset
from batchsvm.estimators.linear_classifier import TrainingData
from batchsvm.estimators.parameters import Settings

MAX_ENTRIES = 2**28  # of a column of labels and one of weights per problem; more are trained apart


def trains_together(whole: Dataset, settings: Settings, problems: int) -> bool:
    """Whether so many problems, one per fold and class, are trained at once.

    On this host folds are trained side by side in threads, each on a copy of its rows.
    """
    takes_many = whole.problems_at_once(settings.options.method) >= problems > 1
    fits = whole.n * problems <= MAX_ENTRIES
    on_device = whole.device_size is not None
    return on_device and takes_many and fits and settings.intercept.kind != "free"


def fold_targets(whole: Dataset, data: TrainingData, folds: list[np.ndarray]) -> Any:
    """Targets of all classes of fold 0, then of fold 1, and so on: the rows that a fold does not
    train on weigh nothing in it."""
    classes = range(data.classes.k)
    signs = [data.classes.signs(k) for k in classes]
    weights = np.zeros((whole.n, len(folds) * len(signs)), order="F")
    for number, train in enumerate(folds):
        for k in classes:
            weights[train, number * len(signs) + k] = (
                1.0 if data.weights is None else data.weights[train]
            )
    return whole.targets(np.asfortranarray(np.column_stack(signs * len(folds))), weights)
