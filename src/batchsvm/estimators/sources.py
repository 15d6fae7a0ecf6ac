"""Estimators on sources: data that bring their labels and are read part by part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchsvm.api.place import placed_rows
from batchsvm.core import data_checks
from batchsvm.core.intercept import LinearStart
from batchsvm.core.problem import make_problem
from batchsvm.engines import Dataset, is_placed
from batchsvm.estimators.labels import class_factors, refuse_few
from batchsvm.estimators.parameters import Settings
from batchsvm.estimators.training import warm
from batchsvm.files.sources import is_source
from batchsvm.losses import Loss


def brings_labels(X: Any, y: Any) -> bool:
    """Whether X is a source, or placed from one whose labels are to be used; an iterator is one
    that is refused."""
    if is_placed(X):
        return y is None and X.labels is not None
    return hasattr(X, "__next__") or is_source(X)


def refuse_source(X: Any, y: Any, what: str) -> None:
    """Refuse a source where rows are needed in memory."""
    if brings_labels(X, y):
        raise ValueError(
            f"X must be rows in memory for {what}, not a source: read it by batchsvm.files.read, or"
            " compare values of lam on held-out files by batchsvm.path"
        )


@contextmanager
def placed_source(
    estimator: Any, X: Any, y: Any, sample_weight: Any, settings: Settings
) -> Iterator[tuple[Dataset, np.ndarray | None]]:
    """The source, placed, and weights that take the place of its own."""
    where = settings.engine, settings.n_jobs, settings.device
    with placed_rows(X, y, sample_weight, where) as (data, _, weights):
        names = getattr(data, "feature_names", None)
        estimator.n_features_in_ = data.d
        estimator.__dict__.pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        yield data, data_checks.read_weights(weights, data.n)


@dataclass(frozen=True)
class SourceData:
    """What a classifier is trained on, placed from a source, checked: as `TrainingData`."""

    X: Dataset
    labels: np.ndarray
    own_weights: np.ndarray | None
    class_weights: np.ndarray | None
    total_weight: float
    y = None
    given = None

    def targets(self, data: Dataset) -> Any:
        how = "signs" if self.labels.size <= 2 else "codes"
        return data.own_targets(how, self.own_weights, class_weights=self.class_weights)

    def start(self, alphas: Any, intercepts: Any, loss: Loss) -> list[LinearStart]:
        """Where to start from after an earlier fit."""
        return warm_source(self.X, self.targets(self.X), alphas, intercepts, loss)


def warm_source(
    data: Any, targets: Any, alphas: Any, intercepts: Any, loss: Loss
) -> list[LinearStart]:
    """Where to start from after an earlier fit on a source."""
    weights = data.row_weights(make_problem(targets, loss, 1.0))
    return warm(alphas, intercepts, data.n, loss, weights)


def read_source(estimator: Any, data: Dataset, weights: np.ndarray | None) -> SourceData:
    """The classes that a source brings, weighed; sets `classes_`."""
    assert data.labels is not None
    labels = data.labels.classes
    if labels is None:
        data.own_targets("signs")  # says that there are too many
    assert labels is not None
    totals = data.class_totals(weights)
    factors = class_factors(estimator.class_weight, labels, lambda: totals)
    if factors is not None:
        totals = totals * factors
    refuse_few(labels[totals > 0], has_weights=not (totals > 0).all())
    estimator.classes_ = labels
    estimator.class_weight_ = np.ones(labels.size) if factors is None else factors
    return SourceData(data, labels, weights, factors, float(totals.sum()))
