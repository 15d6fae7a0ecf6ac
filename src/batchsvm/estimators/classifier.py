"""BatchSVC: linear classification, two classes or many."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchsvm.core import data_checks
from batchsvm.core.arrays import to_host
from batchsvm.core.one_vs_rest import Classes
from batchsvm.estimators.callbacks import with_callbacks
from batchsvm.estimators.labels import weigh
from batchsvm.estimators.linear_classifier import TASK, LinearClassifier, TrainingData
from batchsvm.estimators.parameters import Settings, read_settings
from batchsvm.estimators.sources import (
    SourceData,
    brings_labels,
    placed_source,
    read_source,
)
from batchsvm.estimators.streams import if_it_can_stream, take_chunk
from batchsvm.estimators.training import read_data


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
        Whether b is penalised like w, as in LinearSVC, or not, as in SVC.
    intercept_scaling : float
        The constant column that a penalised intercept multiplies; a larger one is penalised
        less.
    class_weight : dict, "balanced" or None
        Multiplies the sample weights.
    warm_start : bool
        Start from the dual point of the fit before: row i from where row i was.
    engine : {"auto", "cpu", "gpu", "streamed", "reference"}
        Where to train; "auto" is where X is.  Placed data have theirs.
    device : int, optional
        The number of the CUDA device, where there are several.
    precision : {"auto", "tf32", "float32", "float64"}
        Of the products in the steps of `gram` on a device; "auto" begins with tf32, and raises it
        where the gap does not fall any more.  Certificates are always in float64.
    n_jobs : int or None
        Threads: for classes side by side, within a fit, and for predictions from sparse data.
        -1 means all cores.  A fit on the gpu engine has no use for them.
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
    class_weight_ : ndarray of shape (n_classes,)
        What the weights of the rows of each class were multiplied by.
    loss_ : loss object
    lam_, C_ : float
        What was used, either way.
    n_iter_ : int
        Epochs, of the class that took the most; 1 after `partial_fit`.
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
        engine: str = "auto",
        device: int | None = None,
        precision: str = "auto",
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
        self.engine = engine
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BatchSVC:
        """Train until the objective of every class is proven to be within tol.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, d), placed data, or a source
            float32 or float64, dense or CSR, is used in place; others are converted.  Placed
            data (`batchsvm.place`) serve many fits.  A source is a folder, a pattern or a list of
            files, or a re-iterable of chunks; it is streamed (docs/streamed.md).
        y : array of shape (n,); for a source a name, or None
            The column of the labels in tables; None where a source, or what was placed from one,
            holds its labels itself.
        sample_weight : array of shape (n,), optional; for a source a name
            Weight k is exactly k copies of a row, weight 0 exactly none.

        Returns
        -------
        self
        """
        settings = read_settings(self, TASK)
        before = to_host(getattr(self, "classes_", ())) if self.warm_start else ()
        if brings_labels(X, y):
            with placed_source(self, X, y, sample_weight, settings) as (placed, weights):
                data = read_source(self, placed, weights)
                self._fit(data, settings.for_placed(), sample_weight, before)
        else:
            self._fit(self._read_problem(X, y, sample_weight), settings, sample_weight, before)
        return self

    def _fit(
        self, data: TrainingData | SourceData, settings: Settings, sample_weight: Any, before: Any
    ) -> None:
        """Train, from the fit before if its classes were the same."""
        initial = None
        if hasattr(self, "dual_coef_") and np.array_equal(before, data.labels):
            initial = data.start(self.dual_coef_, self.intercept_, settings.loss)
        lam = settings.lam_for(data.total_weight)
        self._train(data, lam, settings, sample_weight, initial)

    @if_it_can_stream
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
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit, not None")
        given = X
        X, y = read_data(self, X, y, reset=first)
        labels = self._read_stream_classes(classes, first)
        codes = np.searchsorted(labels, y)
        known = codes < len(labels)
        known[known] = labels[codes[known]] == y[known]
        if not known.all():
            stranger = y[~known].tolist()[0]
            raise ValueError(
                f"y must hold labels of `classes`, {labels.tolist()}, not {stranger!r}"
            )
        weights = data_checks.read_weights(sample_weight, X.shape[0])
        found = Classes(labels, codes)
        weights, self.class_weight_ = weigh(self.class_weight, found, weights)
        targets = np.array([found.signs(k) for k in range(found.k)])
        take_chunk(self, X, targets, weights, settings)
        names = ("coef_", "intercept_", "class_weight_")
        self._follow({name: getattr(self, name) for name in names}, given)
        return self

    def _read_stream_classes(self, classes: Any, first: bool) -> np.ndarray:
        """The labels in order; sets `classes_`."""
        if classes is None:
            return to_host(self.classes_)
        given = np.unique(to_host(classes))
        if first:
            if given.size < 2:
                found = np.asarray(to_host(classes)).tolist()
                raise ValueError(f"classes must hold at least two labels, not {found}")
            self.classes_ = given
            return given
        labels = to_host(self.classes_)
        if not np.array_equal(given, labels):
            raise ValueError(
                f"classes must stay {labels.tolist()}, as in the first call or fit, not"
                f" {given.tolist()}"
            )
        return labels
