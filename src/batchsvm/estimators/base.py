"""What the estimators have in common."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from batchsvm.core.arrays import like, to_host
from batchsvm.core.convergence_warning import warn_of_problems
from batchsvm.core.solution import LinearModel, Solution
from batchsvm.engines.cpu.online import Stream
from batchsvm.estimators.arrays import following
from batchsvm.estimators.callbacks import CallbackSupportMixin
from batchsvm.estimators.certificates import gather_certificates
from batchsvm.estimators.parameters import Settings
from batchsvm.models import save

CERTIFIED = ("certificate_", "history_", "plan_", "dual_coef_", "n_iter_", "loss_", "lam_", "C_")

GO_ON = "fit a BatchSVC with this lam"  # of who has no warm_start


class DualRows:
    """The dual points of all models, in the memory of an engine until somebody asks for them."""

    def __init__(self, solutions: list[Solution]) -> None:
        self._solutions = solutions

    def fetch(self) -> np.ndarray:
        return _stack([solution.alpha for solution in self._solutions])


def _stack(vectors: list[np.ndarray]) -> np.ndarray:
    """The vectors as rows; a single one is not copied."""
    return vectors[0][np.newaxis] if len(vectors) == 1 else np.array(vectors)


class BatchLinear(CallbackSupportMixin, BaseEstimator):
    """Fitted attributes of one or more linear models."""

    coef_: Any
    intercept_: Any
    plan_: Any
    _is_flat = False  # whether coef_ is a vector
    _answers_on_host = False  # whether predictions are NumPy arrays whatever X is

    @property
    def dual_coef_(self) -> Any:
        """alpha, fetched when it is first asked for."""
        kept = self.__dict__.get("dual_coef_")
        if kept is None:
            raise AttributeError(f"this {type(self).__name__} has no dual_coef_: fit it first")
        if isinstance(kept, DualRows):
            found = kept.fetch()
            found = found[0] if self._is_flat else found
            kept = self.__dict__["dual_coef_"] = like(found, self.intercept_)
        return kept

    @dual_coef_.setter
    def dual_coef_(self, value: Any) -> None:
        self.__dict__["dual_coef_"] = value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags

    def save(self, path: str | os.PathLike[str], y: Any = None) -> None:
        """Write a model file, which `batchsvm.load` reads without executing anything.

        Parameters
        ----------
        path : path
            Replaced at once: an interrupted save leaves the old file whole.
        y : array, optional
            The labels it was trained on, for the fingerprint.
        """
        check_is_fitted(self)
        save(self, path, y)

    def sparsify(self) -> Self:
        """Store `coef_` as a SciPy CSR matrix, which is smaller where most of it is zero.

        Predictions are the same.  `densify` undoes it.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.coef_ = scipy.sparse.csr_matrix(to_host(self.coef_))
        return self

    def densify(self) -> Self:
        """Store `coef_` as an array, as `fit` leaves it.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if scipy.sparse.issparse(self.coef_):
            found = self.coef_.toarray()
            self.coef_ = found[0] if self._is_flat else found
        return self

    def _loss_parameters(self, name: str) -> dict[str, float]:
        """Parameters of the estimator that belong to the loss of this name."""
        return {}

    def _keep(
        self, models: list[LinearModel], labels: list[Any], settings: Settings, total: float
    ) -> dict[str, Any]:
        """The fitted attributes, which are also returned."""
        solutions = [model.solution for model in models]
        histories = tuple(solution.history for solution in solutions)
        lam = solutions[0].lam
        attributes = {
            "coef_": _stack([model.coef for model in models]),
            "intercept_": np.array([model.intercept for model in models], models[0].coef.dtype),
            "certificate_": gather_certificates(models, labels),
            "history_": histories[0] if len(models) == 1 else histories,
            "plan_": solutions[0].plan,
            "dual_coef_": DualRows(solutions),
            "n_iter_": max(int(np.ceil(history.epoch[-1])) for history in histories),
            "loss_": solutions[0].loss,
            "lam_": lam,
            "C_": 1.0 / (lam * total),
        }
        self.__dict__.pop("stream_", None)
        self.__dict__.pop("_stream_rng", None)
        for name, value in attributes.items():
            setattr(self, name, value)
        go_on = "set warm_start=True and fit again" if hasattr(self, "warm_start") else GO_ON
        names = [repr(label) for label in labels]
        warn_of_problems(solutions, names, settings.options.max_epochs, go_on)
        return attributes

    def _follow(self, attributes: dict[str, Any], X: Any) -> dict[str, Any]:
        """Set the attributes, arrays as those of X's library where scikit-learn's array API
        convention wants it; they are also returned."""
        found = {name: following(value, X) for name, value in attributes.items()}
        self.__dict__.update(found)
        return found

    def _answer(self, values: Any, X: Any) -> Any:
        """Predictions for X as its convention wants them."""
        return to_host(values) if self._answers_on_host else following(values, X)

    def _unfinished(self, k: int, count: int, w: np.ndarray, settings: Settings) -> dict[str, Any]:
        """coef_ and intercept_ as if training had stopped while model k was at w."""
        d = self.n_features_in_
        coef, intercept = np.zeros((count, d)), np.zeros(count)
        coef[k] = w[:d]
        if settings.intercept.kind is not None and w.size > d:
            intercept[k] = w[d] * (settings.bias or 1.0)
        return {"coef_": coef, "intercept_": intercept}

    def _keep_stream(self, stream: Stream, rng: np.random.Generator, dtype: Any) -> None:
        """coef_ and intercept_ of a stream, and nothing that a fit has certified before."""
        for name in CERTIFIED:
            self.__dict__.pop(name, None)
        w, d = stream.w, self.n_features_in_
        intercept = w[:, d] * stream.bias if stream.bias else np.zeros(len(w))
        self.coef_, self.intercept_ = w[:, :d].astype(dtype), intercept.astype(dtype)
        self.n_iter_ = 1
        self.stream_ = stream
        self._stream_rng = rng
