"""What the classifiers share: reading labels, training one against the rest, predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from batchsvm.core import data_checks
from batchsvm.core.arrays import namespace_of, to_host
from batchsvm.core.intercept import LinearStart
from batchsvm.core.one_vs_rest import Classes, choose, positive_labels
from batchsvm.core.problem import Problem
from batchsvm.engines import Dataset
from batchsvm.estimators.arrays import labels_for, probabilities
from batchsvm.estimators.base import BatchLinear
from batchsvm.estimators.callbacks import Watch
from batchsvm.estimators.labels import read_classes, refuse_one_class, weigh
from batchsvm.estimators.parameters import Settings, read_seed, total_weight
from batchsvm.estimators.sources import SourceData
from batchsvm.estimators.training import decide, problem_of, read_data, rows_of, train, warm
from batchsvm.losses import Logistic, Loss

TASK = "classification"


def _is_logistic(estimator: Any) -> bool:
    if estimator.loss == "logistic" or isinstance(estimator.loss, Logistic):
        return True
    raise AttributeError(
        f"predict_proba needs loss='logistic', not {estimator.loss!r}: the other losses give no"
        " probabilities (see sklearn.calibration.CalibratedClassifierCV)"
    )


class TrainingData(NamedTuple):
    """What a classifier is trained on, checked."""

    X: Any
    y: np.ndarray
    classes: Classes
    plain_weights: np.ndarray | None  # without class weights
    weights: np.ndarray | None
    given: Any  # X as it came

    @property
    def labels(self) -> np.ndarray:
        return self.classes.labels

    @property
    def total_weight(self) -> float:
        return total_weight(self.weights, len(self.y))

    def targets(self, data: Dataset) -> Any:
        return self.classes.targets(data, self.weights)

    def start(self, alphas: Any, intercepts: Any, loss: Loss) -> list[LinearStart]:
        """Where to start from after an earlier fit."""
        return warm(alphas, intercepts, len(self.y), loss, self.weights)


class LinearClassifier(ClassifierMixin, BatchLinear):
    """Predictions of a linear classifier, one-vs-rest for more than two classes."""

    def decision_function(self, X: Any) -> np.ndarray:
        """<w, x> + b for each row and class.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n,) for two classes, else (n, n_classes)
        """
        return self._answer(self._scores(X, "decision_function"), X)

    def _scores(self, X: Any, method: str) -> Any:
        """Decision values for this method: a NumPy array, or one of the library of an X on a
        GPU."""
        check_is_fitted(self)
        found = decide(self, X, method)
        return (namespace_of(found) or np).reshape(found, (-1,)) if found.shape[1] == 1 else found

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = self._scores(X, "predict")
        return self._answer(choose(to_host(self.classes_), scores), X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of `predict`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        predicted, weights = to_host(self.predict(X)), to_host(sample_weight)
        return accuracy_score(to_host(y), predicted, sample_weight=weights)

    @available_if(_is_logistic)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class; for the logistic loss only.

        For more than two classes, the probabilities of one against the rest are divided by
        their sum.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return self._answer(probabilities(self._scores(X, "predict_proba")), X)

    @available_if(_is_logistic)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of `predict_proba`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        found = probabilities(self._scores(X, "predict_log_proba"))
        return self._answer((namespace_of(found) or np).log(found), X)

    def _read_problem(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Data and weights, checked; sets `classes_`."""
        given = X, y
        X, y = read_data(self, X, y)
        plain = data_checks.read_weights(sample_weight, rows_of(X))
        found = read_classes(y)
        self.classes_ = labels_for(found.labels, *given)
        weights, self.class_weight_ = weigh(self.class_weight, found, plain)
        refuse_one_class(found, weights)
        return TrainingData(X, y, found, plain, weights, given[0])

    def _train(
        self,
        data: TrainingData | SourceData,
        lam: float,
        settings: Settings,
        sample_weight: Any,
        initial: list[LinearStart] | None = None,
    ) -> None:
        """Train all classes at one lam, and keep what comes out."""
        labels = positive_labels(data.labels)
        names = [f"class {label!r}" for label in labels] if len(labels) > 1 else ["fit"]

        def unfinished(k: int, w: np.ndarray) -> dict[str, Any]:
            return self._unfinished(k, len(labels), w, settings)

        def problem_on(placed: Dataset) -> Problem:
            return problem_of(settings, data.targets(placed), lam)

        watch = Watch(
            self, names, (data.X, data.y, sample_weight), unfinished, settings.options.tol,
            settings.verbose,
        )  # fmt: skip
        with watch:
            seed = read_seed(self.random_state)
            models = train(data.X, problem_on, settings, seed, initial, watch)
        found = self._keep(models, labels, settings, data.total_weight)
        found["class_weight_"] = self.class_weight_
        watch.finish(self._follow(found, data.given))
