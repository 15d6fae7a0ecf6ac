"""BatchSVC: linear classification, two classes or many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from batchsvm.core import data_checks
from batchsvm.core.intercept import LinearStart
from batchsvm.core.one_vs_rest import Classes, choose, positive_labels
from batchsvm.core.problem import Problem
from batchsvm.engines import Dataset
from batchsvm.estimators.base import BatchLinear
from batchsvm.estimators.callbacks import Watch, with_callbacks
from batchsvm.estimators.labels import read_classes, refuse_one_class, weigh
from batchsvm.estimators.parameters import (
    Settings,
    read_seed,
    read_settings,
    total_weight,
)
from batchsvm.estimators.streams import check_streams, take_chunk
from batchsvm.estimators.training import (
    decide,
    problem_of,
    read_data,
    rows_of,
    train,
    warm,
)
from batchsvm.losses import Logistic

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

    @property
    def total_weight(self) -> float:
        return total_weight(self.weights, len(self.y))


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
        check_is_fitted(self)
        found = decide(self, X)
        return found.ravel() if found.shape[1] == 1 else found

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = self.decision_function(X)
        return choose(self.classes_, scores)

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
        found = expit(self.decision_function(X))
        if found.ndim == 1:
            return np.column_stack([1.0 - found, found])
        total = found.sum(axis=1, keepdims=True)
        uniform = np.full_like(found, 1.0 / found.shape[1])
        return np.divide(found, total, out=uniform, where=total > 0)

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
        return np.log(self.predict_proba(X))

    def _read_problem(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Data and weights, checked; sets `classes_`."""
        X, y = read_data(self, X, y)
        plain = data_checks.read_weights(sample_weight, rows_of(X))
        found = read_classes(y)
        self.classes_ = found.labels
        weights = weigh(self.class_weight, found, plain)
        refuse_one_class(found, weights)
        return TrainingData(X, y, found, plain, weights)

    def _train(
        self,
        data: TrainingData,
        lam: float,
        settings: Settings,
        sample_weight: Any,
        initial: list[LinearStart] | None = None,
    ) -> None:
        """Train all classes at one lam, and keep what comes out."""
        labels = positive_labels(self.classes_)
        names = [f"class {label!r}" for label in labels] if len(labels) > 1 else ["fit"]

        def unfinished(k: int, w: np.ndarray) -> dict[str, Any]:
            return self._unfinished(k, len(labels), w, settings)

        def problem_on(placed: Dataset) -> Problem:
            return problem_of(settings, data.classes.targets(placed, data.weights), lam)

        watch = Watch(
            self, names, (data.X, data.y, sample_weight), unfinished, settings.options.tol,
            settings.verbose,
        )  # fmt: skip
        with watch:
            seed = read_seed(self.random_state)
            models = train(data.X, problem_on, settings, seed, initial, watch)
        watch.finish(self._keep(models, labels, settings, data.total_weight))


class BatchSVC(LinearClassifier):
    """Linear support vector classification with a certificate.

    Minimises, for each class against the rest (once for two classes),

        (1/sum c) sum_i c_i loss(y_i (<w, x_i> + b)) + lam/2 ||w||^2

    where c_i is the sample weight times the class weight.  The objective of each is proven
    to be within `tol` of its optimum.

    Parameters
    ----------
    loss : {"hinge", "smoothed_hinge", "squared_hinge", "logistic"} or loss object
        An object is e.g. `batchsvm.losses.SmoothedHinge(smoothing=0.5)`.
    lam : float, optional
        Regularisation, SGDClassifier's alpha.  Give lam or C or neither, not both.
    C : float, optional
        Regularisation as in LinearSVC: C = 1/(lam * sum c).  1.0 if neither is given.
    method : str or method object
        "auto", "pegasos", "safe", "aggressive" or another of `batchsvm.fit`.
    batch_size : int or "auto"
    tol : float
        How far above its optimum the objective may be, as a part of it; proven.
    max_epochs : float
        How often to look at every row at most.
    fit_intercept : bool
        Whether to have an intercept b.
    intercept : {"penalised", "free"}
        Whether b is penalised like w, as in LinearSVC, or costs nothing, as in SVC.
    intercept_scaling : float
        The constant column that a penalised intercept multiplies; a larger one is penalised
        less.
    class_weight : dict, "balanced" or None
        Multiplies the sample weights.
    warm_start : bool
        Start from the dual point of the fit before: row i from where row i was.
    n_jobs : int or None
        Threads: for classes side by side, within a fit, and for predictions from sparse data.
        -1 means all cores.
    random_state : int, Generator, RandomState or None
    verbose : int
        1 shows a progress bar that measures the gap.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d) or (n_classes, d)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    certificate_ : Certificate or ClassCertificates
        Primal, dual and gap; for more than two classes a tuple of one each, which also answers
        for the worst of them (`certificate_.gap`).
    history_ : History, or a tuple of one for each class
    plan_ : Plan
        sigma^2, the table of batch sizes, and the reason for the one used.
    dual_coef_ : ndarray of shape (1, n) or (n_classes, n)
        alpha, the dual point that the certificate is about.
    loss_ : loss object
    lam_, C_ : float
        What was used, either way.
    n_iter_ : int
        Epochs, of the class that took the most.
    n_features_in_, feature_names_in_
    stream_ : Stream
        After `partial_fit` instead of all that is certified.

    Examples
    --------
    >>> from batchsvm import BatchSVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BatchSVC(C=1.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> len(model.certificate_), bool(model.certificate_.relative_gap <= model.tol)
    (3, True)
    """

    def __init__(
        self,
        loss: Any = "hinge",
        *,
        lam: float | None = None,
        C: float | None = None,
        method: Any = "auto",
        batch_size: int | str = "auto",
        tol: float = 1e-3,
        max_epochs: float = 1000,
        fit_intercept: bool = True,
        intercept: str = "penalised",
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.C = C
        self.method = method
        self.batch_size = batch_size
        self.tol = tol
        self.max_epochs = max_epochs
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BatchSVC:
        """Train until the objective of every class is proven to be within tol.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, d), or placed data
            float32 or float64, dense or CSR, is used in place; others are converted.  Placed
            data (`batchsvm.place`) serve many fits.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Weight k is exactly k copies of a row, weight 0 exactly none.

        Returns
        -------
        self
        """
        settings = read_settings(self, TASK)
        before = getattr(self, "classes_", ()) if self.warm_start else ()
        data = self._read_problem(X, y, sample_weight)
        initial = None
        if hasattr(self, "dual_coef_") and np.array_equal(before, self.classes_):
            n = len(data.y)
            initial = warm(self.dual_coef_, self.intercept_, n, settings.loss, data.weights)
        lam = settings.lam_for(data.total_weight)
        self._train(data, lam, settings, sample_weight, initial)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> BatchSVC:
        """Learn from the next rows of a stream: Pegasos on the population objective.

        Every row is taken for a fresh draw from the population and used once.  What predicts is
        the average of the iterates.  There is no certificate, since the objective is an
        expectation that nobody can evaluate.  After `fit`, the stream starts from what it found.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
        classes : array of shape (n_classes,)
            All labels that will ever come; needed in the first call.
        sample_weight : array of shape (n,), optional
            Multiplies the loss of each row.

        Returns
        -------
        self
        """
        settings = read_settings(self, TASK)
        check_streams(settings)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight must be None or a dict for partial_fit, not {self.class_weight!r}:"
                " a stream has no class frequencies yet"
            )
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit, not None")
        X, y = read_data(self, X, y, reset=first)
        self._read_stream_classes(classes, first)
        codes = np.searchsorted(self.classes_, y)
        known = codes < len(self.classes_)
        known[known] = self.classes_[codes[known]] == y[known]
        if not known.all():
            stranger = y[~known].tolist()[0]
            raise ValueError(
                f"y must hold labels of `classes`, {self.classes_.tolist()}, not {stranger!r}"
            )
        weights = data_checks.read_weights(sample_weight, X.shape[0])
        found = Classes(self.classes_, codes)
        weights = weigh(self.class_weight, found, weights)
        targets = np.array([found.signs(k) for k in range(found.k)])
        take_chunk(self, X, targets, weights, settings)
        return self

    def _read_stream_classes(self, classes: Any, first: bool) -> None:
        if classes is None:
            return
        given = np.unique(classes)
        if first:
            if given.size < 2:
                raise ValueError(
                    f"classes must hold at least two labels, not {np.asarray(classes).tolist()}"
                )
            self.classes_ = given
        elif not np.array_equal(given, self.classes_):
            raise ValueError(
                f"classes must stay {self.classes_.tolist()}, as in the first call or fit, not"
                f" {given.tolist()}"
            )
