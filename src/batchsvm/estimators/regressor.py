"""BatchSVR: linear regression with a robust loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from batchsvm.core import checks, data_checks
from batchsvm.core.arrays import to_host
from batchsvm.core.conditioning import warn_of_targets
from batchsvm.core.intercept import LinearStart
from batchsvm.core.problem import Problem, make_problem
from batchsvm.engines import Dataset
from batchsvm.estimators.base import BatchLinear
from batchsvm.estimators.callbacks import Watch, with_callbacks
from batchsvm.estimators.parameters import Settings, read_seed, read_settings, total_weight
from batchsvm.estimators.sources import brings_labels, placed_source, warm_source
from batchsvm.estimators.streams import if_it_can_stream, take_chunk
from batchsvm.estimators.training import (
    decide,
    problem_of,
    read_data,
    rows_of,
    train,
    warm,
)

TASK = "regression"
# What `epsilon` is in the losses that have it.
EPSILONS = {
    "epsilon_insensitive": "epsilon", "squared_epsilon_insensitive": "epsilon", "huber": "delta",
}  # fmt: skip


class _Targets(NamedTuple):
    """What a regressor is trained on, checked."""

    X: Any
    y: np.ndarray | None
    on: Callable[[Dataset], Any]  # the targets on placed data
    total_weight: float
    given: Any  # X as it came


class BatchSVR(RegressorMixin, BatchLinear):
    """Linear support vector regression, and its robust kin, with a certificate.

    Minimises  (1/sum c) sum_i c_i loss(<w, x_i> + b - y_i) + lam/2 ||w||^2.  It is
    proven to be within `tol` of its optimum.

    Parameters
    ----------
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive", "squared_error", "absolute", \
"quantile", "huber"} or loss object
        "squared_error" is half the square of the error, as in SGDRegressor.
    epsilon : float, optional
        Errors up to it are free ("epsilon_insensitive" and "squared_epsilon_insensitive", 0.1 if
        missing), or squared ("huber", 1.0 if missing); no other loss uses it.
    quantile : float
        The quantile that loss "quantile" estimates, between 0 and 1.
    lam : float, optional
        Regularisation, SGDRegressor's alpha.  Give lam or C or neither, not both.
    C : float, optional
        Regularisation as in LinearSVR: C = 1/(lam * sum c).  1.0 if neither is given.
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
        Whether b is penalised like w, as in LinearSVR, or not, as in SVR.
    intercept_scaling : float
        The constant column that a penalised intercept multiplies; a larger one is penalised
        less.
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
        Threads; -1 means all cores.  A fit on the gpu engine has no use for them.
    random_state : int, Generator, RandomState or None
    verbose : int
        1 shows a progress bar that measures the gap.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
    intercept_ : ndarray of shape (1,)
    certificate_ : Certificate
        Primal, dual and gap.
    history_ : History
    plan_ : Plan
        sigma^2, the table of batch sizes, and the reason for the one used.
    dual_coef_ : ndarray of shape (n,)
        alpha, the dual point that the certificate is about.
    loss_ : loss object
    lam_, C_ : float
        What was used, either way.
    n_iter_ : int
        Epochs; 1 after `partial_fit`.
    n_features_in_, feature_names_in_
    stream_ : Stream
        After `partial_fit` instead of all that is certified.

    Examples
    --------
    >>> from batchsvm import BatchSVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> model = BatchSVR("absolute", lam=1e-2, intercept="free", random_state=0).fit(X, y)
    >>> bool(model.certificate_.relative_gap <= model.tol)
    True
    >>> model.score(X, y) > 0.45
    True
    """

    def __init__(
        self,
        loss: Any = "epsilon_insensitive",
        *,
        epsilon: float | None = None,
        quantile: float = 0.5,
        lam: float | None = None,
        C: float | None = None,
        method: Any = "auto",
        batch_size: int | str = "auto",
        tol: float = 1e-3,
        max_epochs: float = 1000,
        fit_intercept: bool = True,
        intercept: str = "penalised",
        intercept_scaling: float = 1.0,
        warm_start: bool = False,
        engine: str = "auto",
        device: int | None = None,
        precision: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.quantile = quantile
        self.lam = lam
        self.C = C
        self.method = method
        self.batch_size = batch_size
        self.tol = tol
        self.max_epochs = max_epochs
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.warm_start = warm_start
        self.engine = engine
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _is_flat = True

    def _loss_parameters(self, name: str) -> dict[str, float]:
        checks.number("quantile", self.quantile, "strictly between 0 and 1", 0.0, 1.0)
        if self.epsilon is not None:
            checks.number("epsilon", self.epsilon, "a number >= 0, or None", -1e-300)
        if name == "quantile":
            return {"quantile": self.quantile}
        field = EPSILONS.get(name)
        return {} if field is None or self.epsilon is None else {field: self.epsilon}

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BatchSVR:
        """Train until the objective is proven to be within tol.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, d), placed data, or a source
            float32 or float64, dense or CSR, is used in place; others are converted.  A source is a
            folder, a pattern or a list of files, or a re-iterable of chunks; it is streamed.
        y : array of shape (n,); for a source a name, or None
            The column of the targets in tables; None where a source, or what was placed from one,
            holds them itself.
        sample_weight : array of shape (n,), optional; for a source a name
            Weight k is exactly k copies of a row, weight 0 exactly none.

        Returns
        -------
        self
        """
        settings = read_settings(self, TASK)
        if brings_labels(X, y):
            with placed_source(self, X, y, sample_weight, settings) as (placed, weights):
                self._fit_source(placed, weights, settings.for_placed(), sample_weight)
            return self
        given = X
        X, y = read_data(self, X, y, y_numeric=True)
        y = y.astype(np.float64, copy=False)
        n, loss = rows_of(X), settings.loss
        weights = data_checks.read_weights(sample_weight, n)

        def targets(data: Dataset) -> Any:
            return data.targets(data_checks.read_targets(y, n, loss)[0], weights)

        found = _Targets(X, y, targets, total_weight(weights, n), given)
        if settings.bias is not None:
            warn_of_targets(y, loss, settings.lam_for(found.total_weight), settings.bias)
        initial = None
        if self.warm_start and hasattr(self, "dual_coef_"):
            initial = warm(self.dual_coef_, self.intercept_, n, loss, weights)
        self._fit(found, settings, sample_weight, initial)
        return self

    def _fit_source(
        self, data: Dataset, weights: Any, settings: Settings, sample_weight: Any
    ) -> None:
        """Train on the targets that a placed source brings."""

        def targets(data: Dataset) -> Any:
            return data.own_targets("numbers", weights)

        own, loss = targets(data), settings.loss
        total = float(data.facts(make_problem(own, loss, 1.0)).total_weight[0])
        initial = None
        if self.warm_start and hasattr(self, "dual_coef_"):
            initial = warm_source(data, own, self.dual_coef_, self.intercept_, loss)
        self._fit(_Targets(data, None, targets, total, None), settings, sample_weight, initial)

    def _fit(
        self,
        data: _Targets,
        settings: Settings,
        sample_weight: Any,
        initial: list[LinearStart] | None,
    ) -> None:
        """Train, and keep what comes out."""

        def unfinished(k: int, w: np.ndarray) -> dict[str, Any]:
            return _flat(self._unfinished(k, 1, w, settings))

        def problem_on(placed: Dataset) -> Problem:
            return problem_of(settings, data.on(placed), settings.lam_for(data.total_weight))

        watch = Watch(
            self, ["fit"], (data.X, data.y, sample_weight), unfinished, settings.options.tol,
            settings.verbose,
        )  # fmt: skip
        with watch:
            seed = read_seed(self.random_state)
            models = train(data.X, problem_on, settings, seed, initial, watch)
        found = _flat(self._keep(models, ["y"], settings, data.total_weight))
        watch.finish(self._follow(found, data.given))

    @if_it_can_stream
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> BatchSVR:
        """Learn from the next rows of a stream: Pegasos on the population objective.

        Every row is taken for a fresh draw from the population and used once.  What predicts is
        the average of the iterates.  There is no certificate, since the objective is an
        expectation that nobody can evaluate.  After `fit`, the stream starts from what it found.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Multiplies the loss of each row.

        Returns
        -------
        self
        """
        settings = read_settings(self, TASK)
        first, given = not hasattr(self, "coef_"), X
        X, y = read_data(self, X, y, y_numeric=True, reset=first)
        weights = data_checks.read_weights(sample_weight, X.shape[0])
        take_chunk(self, X, y[np.newaxis].astype(np.float64, copy=False), weights, settings)
        self._follow({"coef_": self.coef_[0], "intercept_": self.intercept_}, given)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """<w, x> + b for each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        found = decide(self, X, "predict")
        return self._answer(found if found.ndim == 1 else found.reshape(-1), X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, the part of the variance of y that `predict` explains.

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
        return r2_score(to_host(y), predicted, sample_weight=weights)


def _flat(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a single model, without the axis of models."""
    return {**attributes, "coef_": attributes["coef_"][0]}
