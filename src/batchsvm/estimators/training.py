"""Several linear models over the same rows: one for each class, or just one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from batchsvm.estimators.parameters import Settings
from batchsvm.estimators.side_by_side import in_parallel
from batchsvm.estimators.watching import Watch
from batchsvm.inputs import read_jobs
from batchsvm.intercept import LinearModel, fit_linear
from batchsvm.losses import Loss
from batchsvm.scores import scores
from batchsvm.solution import Status

FLOATS = [np.float64, np.float32]
PLAIN = (np.ndarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array)


def read_data(estimator: Any, X: Any, y: Any, **how: Any) -> tuple[Any, np.ndarray]:
    """X and y for training, X as it is wherever the core can use it.

    NaN and infinity in X are left to the core, which sees them in the norms of the rows that it
    computes anyway.  Data to which nothing need be done does not go through scikit-learn's checks,
    which take longer than all else that an estimator adds to a fit.
    """
    if how.get("reset", True) and _is_plain(X, y):
        estimator.n_features_in_ = X.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        return X, y
    return validate_data(
        estimator, X, y, accept_sparse="csr", accept_large_sparse=True, dtype=FLOATS,
        ensure_all_finite=False, **how,
    )  # fmt: skip


def _is_plain(X: Any, y: Any) -> bool:
    """Whether scikit-learn would have nothing to say or do; what it has to say is left to it."""
    return (
        type(X) in PLAIN
        and X.dtype in FLOATS
        and X.ndim == 2
        and 0 not in X.shape
        and type(y) is np.ndarray
        and y.shape == X.shape[:1]
        and (y.dtype.kind in "biu" or (y.dtype.kind == "f" and bool(np.isfinite(y).all())))
    )


def decide(estimator: Any, X: Any) -> np.ndarray:
    """X coef_' + intercept_, without a float64 copy of float32 data."""
    X = validate_data(
        estimator, X, reset=False, accept_sparse="csr", accept_large_sparse=True, dtype=FLOATS
    )
    coef = estimator.coef_.astype(X.dtype, copy=False)
    return scores(X, coef, estimator.intercept_, read_jobs(estimator.n_jobs))


def train(
    X: Any,
    targets: Callable[[int], np.ndarray],
    count: int,
    lam: float,
    settings: Settings,
    weights: np.ndarray | None,
    seed: int,
    initial: list[Any] | None,
    watch: Watch,
) -> list[LinearModel]:
    """Train `count` models on the same rows; `targets(k)` is the y of the k-th.

    Model k gets the seed + k, whoever trains it, so that the number of threads does not change
    the models.

    After Ctrl-C, what has been certified is returned if each model has a certified point, and
    KeyboardInterrupt raised if one has none.
    """
    outer = min(count, settings.jobs)
    options = settings.options(max(1, settings.jobs // outer))
    models: list[LinearModel | None] = [None] * count

    def one(k: int) -> None:
        model = models[k] = fit_linear(
            X, targets(k), lam=lam, sample_weight=weights, random_state=(seed + k) % 2**64,
            initial=None if initial is None else initial[k], callback=watch.callback(k), **options,
        )  # fmt: skip
        watch.close(k, model.solution.w)
        if model.solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # for the others

    try:
        in_parallel(one, count, settings.jobs)
    except KeyboardInterrupt:
        missing = models.count(None)
        if missing:
            raise KeyboardInterrupt(
                f"{missing} of {count} fits had no certified point yet, so that nothing was fitted"
            ) from None
    return [model for model in models if model is not None]


def warm(
    alphas: np.ndarray, intercepts: Iterable[float], n: int, loss: Loss, weights: np.ndarray | None
) -> list[tuple[np.ndarray, float]]:
    """Where to start from after an earlier fit: row i from its alpha, a new row from 0.

    Any point of the box will do, so that data, weights, lam and loss may all have changed.
    """
    start = np.zeros((len(alphas), n))
    kept = min(n, alphas.shape[1])
    start[:, :kept] = alphas[:, :kept]
    box = np.ones(n) if weights is None else weights
    lower, upper = (np.zeros(n) if edge == 0 else edge * box for edge in (loss.lower, loss.upper))
    if np.isinf(loss.upper):
        upper = np.where(box > 0, np.inf, 0.0)
    np.clip(start, lower, upper, out=start)
    return list(zip(start, (float(b) for b in intercepts), strict=True))
