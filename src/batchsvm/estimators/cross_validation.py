"""BatchSVCCV: lam chosen by cross-validation, along warm-started and certified paths."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv

from batchsvm import data_inputs, inputs
from batchsvm.estimators.classifier import TASK, LinearClassifier
from batchsvm.estimators.outcome import warn_caller
from batchsvm.estimators.parameters import Settings, read_seed, read_settings, total_weight
from batchsvm.estimators.side_by_side import in_parallel
from batchsvm.estimators.watching import with_callbacks
from batchsvm.intercept import LinearModel
from batchsvm.path import read_lams, walk
from batchsvm.solution import Status

RANGE_OF_C = (1e-3, 1e2)  # of the default grid


class BatchSVCCV(LinearClassifier):
    """Linear classification whose lam is chosen by cross-validation.

    On each fold, every lam is trained from the largest to the smallest, each from the one
    before, and every point of these paths is certified.  The lam with the best mean score (of
    equal ones the largest) is then trained on all rows.

    Parameters
    ----------
    lams : int or array of positive numbers
        The values to try; a number stands for so many with C = 1/(lam * sum c) evenly spaced in
        their logarithms from 0.001 to 100.
    cv : int, splitter, iterable or None
        Folds; None means 5, stratified by class.
    scoring : str, callable or None
        What to choose by, and what `score` returns; None is accuracy.  Sample weights count
        where the scorer takes them.
    loss, method, batch_size, tol, max_epochs, fit_intercept, intercept, intercept_scaling, \
class_weight, n_jobs, random_state, verbose
        As for `BatchSVC`.  Folds are trained side by side by `n_jobs` threads.

    Attributes
    ----------
    lam_, C_ : float
        The lam that was chosen, and the C that it is.
    lams_ : ndarray of shape (n_lams,)
        All of them, from the largest to the smallest.
    scores_ : ndarray of shape (n_folds, n_lams)
    gaps_ : ndarray of shape (n_folds, n_lams)
        The certified gap of each point, relative to the objective at zero; of the worst class.
    coef_, intercept_, classes_, certificate_, history_, plan_, dual_coef_, n_iter_, \
n_features_in_, feature_names_in_
        As for `BatchSVC`, of the fit on all rows.

    Examples
    --------
    >>> from batchsvm import BatchSVCCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BatchSVCCV(lams=[0.1, 0.01, 0.001], random_state=0).fit(X, y)
    >>> model.scores_.shape, bool((model.gaps_ <= model.tol).all())
    ((5, 3), True)
    """

    def __init__(
        self,
        lams: Any = 10,
        *,
        cv: Any = None,
        scoring: Any = None,
        loss: Any = "hinge",
        method: Any = "auto",
        batch_size: int | str = "auto",
        tol: float = 1e-3,
        max_epochs: float = 1000,
        fit_intercept: bool = True,
        intercept: str = "penalised",
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lams = lams
        self.cv = cv
        self.scoring = scoring
        self.loss = loss
        self.method = method
        self.batch_size = batch_size
        self.tol = tol
        self.max_epochs = max_epochs
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> BatchSVCCV:
        """Choose lam by cross-validation, then train on all rows.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Weight k is exactly k copies of a row, in training and in scores.
        groups : array of shape (n,), optional
            For splitters that keep groups together.

        Returns
        -------
        self
        """
        settings = read_settings(self, TASK)
        scorer = _read_scorer(self.scoring)
        if isinstance(self.lams, int | np.integer):
            inputs.whole("lams", self.lams, 1, 10_000, "a positive integer or numbers")
        else:
            read_lams(self.lams)
        data = X, y, _, weights = self._read_problem(X, y, sample_weight)
        total = total_weight(weights, X.shape[0])
        self.lams_ = self._grid(total)
        folds = list(check_cv(self.cv, y, classifier=True).split(X, y, groups))
        seed = read_seed(self.random_state)
        plain = data_inputs.read_weights(sample_weight, X.shape[0])

        def one(k: int) -> tuple[np.ndarray, np.ndarray]:
            return self._fold(data, plain, folds[k], settings, scorer, (seed + k) % 2**64)

        try:
            found = in_parallel(one, len(folds), settings.jobs)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("lam was not chosen yet, so that nothing was fitted") from None
        self.scores_ = np.array([scores for scores, _ in found])
        self.gaps_ = np.array([gaps for _, gaps in found])
        self._warn_of_folds(settings)
        best = float(self.lams_[np.argmax(self.scores_.mean(axis=0))])
        self._train(data, best, settings, sample_weight)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score that lam was chosen by: that of `scoring`, or accuracy.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Counts where the scorer takes it.

        Returns
        -------
        float
        """
        return _judge(self._judged(), _read_scorer(self.scoring), X, y, sample_weight)

    def _judged(self) -> BatchSVCCV:
        """A copy for scorers; they may ask for its score, which must not ask them again."""
        judged = copy.copy(self)
        judged.scoring = None
        return judged

    def _grid(self, total: float) -> np.ndarray:
        if isinstance(self.lams, int | np.integer):
            return 1.0 / (np.geomspace(*RANGE_OF_C, int(self.lams)) * total)
        return np.sort(read_lams(self.lams))[::-1]

    def _fold(
        self,
        data: tuple[Any, np.ndarray, np.ndarray, np.ndarray | None],
        plain: np.ndarray | None,
        fold: tuple[np.ndarray, np.ndarray],
        settings: Settings,
        scorer: Any,
        seed: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and gaps of one fold, for each lam.

        `data` has the weights to train with, class weights included; scores use the plain ones.
        """
        X, y, codes, weights = data
        train, test = fold
        rows, held_out = X[train], X[test]
        kept = None if weights is None else weights[train]
        paths = [
            _unbroken(
                walk(
                    rows, self._targets(codes[train], k), self.lams_, sample_weight=kept,
                    random_state=seed, **settings.options(1),
                )
            )
            for k in range(len(self._labels()))
        ]  # fmt: skip
        judged = self._judged()
        scored = None if plain is None else plain[test]
        scores, gaps = [], []
        for models in zip(*paths, strict=True):
            judged.coef_ = np.array([model.coef for model in models])
            judged.intercept_ = np.array([model.intercept for model in models])
            scores.append(_judge(judged, scorer, held_out, y[test], scored))
            gaps.append(max(model.solution.certificate.relative_gap for model in models))
        return np.array(scores), np.array(gaps)

    def _warn_of_folds(self, settings: Settings) -> None:
        short = int((self.gaps_ > settings.tol).sum())
        if short:
            warn_caller(
                f"{short} of {self.gaps_.size} points of the cross-validation stopped above tol ="
                f" {settings.tol:g}; the largest certified gap is {self.gaps_.max():.3g} of P(0)."
                f" To get closer, raise max_epochs (now {settings.max_epochs:g}), use larger lams,"
                " or scale the columns of X."
            )


def _unbroken(models: Iterator[LinearModel]) -> Iterator[LinearModel]:
    """The models of a path; one that Ctrl-C has stopped is not to be chosen by."""
    for model in models:
        if model.solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        yield model


def _read_scorer(scoring: Any) -> Any:
    if callable(scoring):
        return scoring
    try:
        return get_scorer("accuracy" if scoring is None else scoring)
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"scoring must be a callable, None, or a name of sklearn.metrics.get_scorer_names(),"
            f" not {scoring!r}"
        ) from None


def _judge(model: Any, scorer: Any, X: Any, y: Any, weights: Any) -> float:
    if weights is None:
        return scorer(model, X, y)
    parameters = inspect.signature(scorer).parameters.values()
    takes = any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in parameters)
    return scorer(model, X, y, sample_weight=weights) if takes else scorer(model, X, y)
