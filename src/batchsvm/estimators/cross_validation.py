"""BatchSVCCV: lam chosen by cross-validation, along warm-started and certified paths."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Number
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv

from batchsvm.core import checks
from batchsvm.core.arrays import is_device_array, to_host
from batchsvm.core.convergence_warning import warn_of_convergence
from batchsvm.core.intercept import LinearStart
from batchsvm.core.parallel import StopFlag, in_parallel
from batchsvm.core.path import train_along, train_many_along
from batchsvm.core.solution import LinearModel
from batchsvm.engines import Dataset, is_placed, placed
from batchsvm.estimators.arrays import on_host
from batchsvm.estimators.callbacks import with_callbacks
from batchsvm.estimators.folds import fold_targets, trains_together
from batchsvm.estimators.linear_classifier import TASK, LinearClassifier, TrainingData
from batchsvm.estimators.parameters import Settings, read_seed, read_settings
from batchsvm.estimators.sources import refuse_source
from batchsvm.estimators.training import problem_of

DEFAULT_LAMS = 10
RANGE_OF_C = (1e-3, 1e2)  # of the default grid


class _Fold(NamedTuple):
    """Which rows to train on, and which to score."""

    whole: Dataset
    data: TrainingData
    train: np.ndarray
    test: np.ndarray
    seed: int

    @contextmanager
    def held_out(self) -> Iterator[Any]:
        """The rows to score; those of data on a GPU stay there, placed."""
        X = self.data.X
        if is_placed(X) or is_device_array(X):
            with self.whole.subset(self.test) as rows:
                yield rows
        else:
            yield X[self.test]


class FoldScores(NamedTuple):
    """Scores and gaps of one fold, for each lam, and for how many it stopped above tol."""

    scores: np.ndarray
    gaps: np.ndarray
    short: int


class BatchSVCCV(LinearClassifier):
    """Linear classification whose lam is chosen by cross-validation.

    On each fold, every lam is trained from the largest to the smallest, each from the one
    before, and every point of these paths is certified.  The lam with the best mean score (of
    equal ones the largest) is then trained on all rows.

    Parameters
    ----------
    lams : int, array of positive numbers or None
        The values to try; a number stands for so many with C = 1/(lam * sum c) evenly spaced in
        their logarithms from 0.001 to 100.  10 if neither lams nor Cs is given.
    Cs : int, array of positive numbers or None
        The same as values of C over all rows, in the place of lams.  Folds are trained with the
        same lam.
    cv : int, splitter, iterable or None
        Folds; None means 5, stratified by class.
    scoring : str, callable or None
        What to choose by, and what `score` returns; None is accuracy.  Sample weights count
        where the scorer takes them.
    loss, method, batch_size, tol, max_epochs, fit_intercept, intercept, intercept_scaling, \
class_weight, engine, device, precision, n_jobs, random_state, verbose
        As for `BatchSVC`.  Folds are trained side by side by `n_jobs` threads.

    Attributes
    ----------
    lam_, C_ : float
        The lam that was chosen, and the C that it is.
    lams_, Cs_ : ndarray of shape (n_lams,)
        All of them, from the largest lam to the smallest.
    scores_ : ndarray of shape (n_folds, n_lams)
    gaps_ : ndarray of shape (n_folds, n_lams)
        The proven bound of each point, relative to its objective; of the worst class.
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
        lams: Any = None,
        *,
        Cs: Any = None,
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
        engine: str = "auto",
        device: int | None = None,
        precision: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lams = lams
        self.Cs = Cs
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
        self.engine = engine
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> BatchSVCCV:
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
        refuse_source(X, y, "cross-validation")
        scorer = _read_scorer(self.scoring)
        self._read_grid()
        data = self._read_problem(X, y, sample_weight)
        self.lams_ = self._grid(data.total_weight)
        splitter = check_cv(self.cv, data.y, classifier=True)
        folds = list(splitter.split(np.zeros(len(data.y)), data.y, to_host(groups)))
        self._cross_validate(data, folds, settings, scorer)
        self._train(data, self._best_lam(), settings, sample_weight)
        self._note_small_folds(folds)
        self.Cs_ = 1.0 / (self.lams_ * data.total_weight)
        found = {"lams_": self.lams_, "Cs_": self.Cs_, "scores_": self.scores_, "gaps_": self.gaps_}
        self._follow(found, data.given)
        return self

    def _best_lam(self) -> float:
        """The lam with the best mean score; one with a score that is no number is not chosen."""
        means = self.scores_.mean(axis=0)
        if np.isnan(means).all():
            raise ValueError(
                "scoring must give numbers to choose lam by, but for each lam the score of at"
                f" least one fold is nan; scoring is {checks.shown(self.scoring)}"
            )
        return float(self.lams_[np.nanargmax(means)])

    def _cross_validate(
        self, data: TrainingData, folds: list[Any], settings: Settings, scorer: Any
    ) -> None:
        """Scores and gaps of all folds, trained side by side over data placed once."""
        seed, stop = read_seed(self.random_state), StopFlag()
        with placed(data.X, settings.engine, settings.n_jobs, device=settings.device) as whole:
            places = [
                _Fold(whole, data, train, test, (seed + k) % 2**64)
                for k, (train, test) in enumerate(folds)
            ]

            def one(k: int) -> FoldScores:
                return self._fold(places[k], settings, scorer, stop)

            try:
                if trains_together(whole, settings, len(folds) * data.classes.k):
                    found = self._folds_together(places, settings, scorer)
                else:
                    found = in_parallel(one, len(folds), whole.jobs, stop)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    "lam was not chosen yet, so that nothing was fitted"
                ) from None
        self.scores_ = np.array([scores for scores, _, _ in found])
        self.gaps_ = np.array([gaps for _, gaps, _ in found])
        self._warn_of_folds(sum(short for _, _, short in found), settings)

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
        given = on_host(X), to_host(y), to_host(sample_weight)
        return _judge(self._judged(), _read_scorer(self.scoring), *given)

    def _judged(self) -> BatchSVCCV:
        """A copy for scorers, whose predictions are NumPy arrays, which every scorer reads; they
        may ask for its score, which must not ask them again."""
        judged = copy.copy(self)
        judged.scoring = None
        judged._answers_on_host = True
        for name in ("classes_", "coef_", "intercept_"):
            if hasattr(self, name):
                setattr(judged, name, to_host(getattr(self, name)))
        return judged

    def _read_grid(self) -> tuple[str, Any]:
        """ "lams" or "Cs", and how many of them or which; checked."""
        if self.lams is not None and self.Cs is not None:
            raise ValueError(
                f"lams and Cs must not both be given, but lams is {checks.shown(self.lams)} and Cs"
                f" is {checks.shown(self.Cs)}: one is the other, C = 1/(lam * sum of the sample"
                " weights)"
            )
        name, given = ("lams", self.lams) if self.Cs is None else ("Cs", self.Cs)
        given = DEFAULT_LAMS if given is None else given
        if isinstance(given, int | np.integer):
            return name, checks.whole(name, given, 1, 10_000, "a positive integer or numbers")
        return name, checks.read_lams(name, given)

    def _grid(self, total: float) -> np.ndarray:
        """The lams for rows of this total weight, from the largest to the smallest."""
        name, given = self._read_grid()
        if isinstance(given, int):
            name, given = "Cs", np.geomspace(*RANGE_OF_C, given)
        values = np.asarray(given, dtype=np.float64)
        return np.sort(1.0 / (values * total) if name == "Cs" else values)[::-1]

    def _note_small_folds(self, folds: list[Any]) -> None:
        """Say in the plan that folds have fewer rows than batch_size, where that is so."""
        least = min(len(train) for train, _ in folds)
        if isinstance(self.batch_size, int | np.integer) and least < self.batch_size:
            reason = f"{self.plan_.reason}; the folds have fewer rows, and batches of up to {least}"
            self.plan_ = replace(self.plan_, reason=reason)

    def _folds_together(
        self, folds: list[_Fold], settings: Settings, scorer: Any
    ) -> list[FoldScores]:
        """All folds as problems over all rows, where rows to be scored weigh nothing."""
        whole, data, seed = folds[0].whole, folds[0].data, folds[0].seed
        problem = problem_of(settings, fold_targets(whole, data, [f.train for f in folds]), 1.0)
        steps = train_many_along(
            whole, problem, self.lams_, settings.options, settings.intercept, seed
        )
        k = data.classes.k
        along = [list(_unbroken(iter(models))) for models in steps]
        return [
            self._judge_fold(fold, (models[f * k : (f + 1) * k] for models in along), scorer)
            for f, fold in enumerate(folds)
        ]

    def _fold(self, fold: _Fold, settings: Settings, scorer: Any, stop: StopFlag) -> FoldScores:
        """One fold, trained on a copy of its rows."""
        data = fold.data
        with fold.whole.subset(fold.train) as whole, whole.share(1) as rows:
            weights = None if data.weights is None else data.weights[fold.train]
            targets = data.classes.take(fold.train).targets(rows, weights)
            problem = problem_of(settings, targets, 1.0)
            options = settings.options
            if not checks.is_word(options.batch_size, "auto"):
                options = replace(options, batch_size=min(int(options.batch_size), rows.n))
            paths = [
                _unbroken(
                    train_along(
                        rows, problem.only(k), self.lams_, options, settings.intercept,
                        LinearStart(fold.seed), stop,
                    )
                )
                for k in range(problem.k)
            ]  # fmt: skip
            return self._judge_fold(fold, zip(*paths, strict=True), scorer)

    def _judge_fold(
        self, fold: _Fold, path: Iterable[Sequence[LinearModel]], scorer: Any
    ) -> FoldScores:
        """How the models of each lam, one per class, do on the rows that were held out."""
        data, judged = fold.data, self._judged()
        scores, gaps, short = [], [], 0
        y, plain = data.y[fold.test], data.plain_weights
        scored = None if plain is None else plain[fold.test]
        with fold.held_out() as held_out:
            for models in path:
                judged.coef_ = np.array([model.coef for model in models])
                judged.intercept_ = np.array([model.intercept for model in models])
                scores.append(_judge(judged, scorer, held_out, y, scored))
                gaps.append(max(model.solution.certificate.relative_gap for model in models))
                short += not all(model.solution.status.converged for model in models)
        return FoldScores(np.array(scores), np.array(gaps), short)

    def _warn_of_folds(self, short: int, settings: Settings) -> None:
        options = settings.options
        if short:
            warn_of_convergence(
                f"{short} of {self.gaps_.size} points of the cross-validation stopped above tol ="
                f" {options.tol:g}; the largest proven bound is {self.gaps_.max():.3g} of P."
                f" To get closer, raise max_epochs (now {options.max_epochs:g}), use larger lams,"
                " or scale the columns of X."
            )


def _unbroken(models: Iterator[LinearModel]) -> Iterator[LinearModel]:
    """The models of a path; one that Ctrl-C has stopped is not to be chosen by."""
    for model in models:
        if model.solution.status.ends_all:
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
    counts: dict[str, Any] = {}
    if weights is not None:
        parameters = inspect.signature(scorer).parameters.values()
        if any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in parameters):
            counts = {"sample_weight": weights}
    score: Any = scorer(model, X, y, **counts)
    if np.ndim(score) or not isinstance(score, Number | np.bool_) or isinstance(score, complex):
        raise ValueError(f"scoring must give a number, not {checks.shown(score)}")
    return cast(float, score)
