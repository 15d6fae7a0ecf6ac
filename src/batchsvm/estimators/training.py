"""Several linear models over the same rows: one for each class, or just one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_y, validate_data

from batchsvm.core.arrays import is_device_array, namespace_of, to_host
from batchsvm.core.checks import read_jobs
from batchsvm.core.conditioning import warn_of_columns
from batchsvm.core.data_checks import as_labels, refuse_broken, refuse_masked
from batchsvm.core.intercept import LinearStart
from batchsvm.core.many import train_many
from batchsvm.core.problem import Problem, make_problem
from batchsvm.core.solution import LinearModel
from batchsvm.engines import Dataset, is_placed, placed
from batchsvm.estimators.arrays import on_host, refuse_other_library
from batchsvm.estimators.callbacks import Watch
from batchsvm.estimators.parameters import Settings
from batchsvm.estimators.single_precision import in_single_precision, is_single
from batchsvm.files.sources import is_source
from batchsvm.losses import Loss
from batchsvm.methods import Pegasos
from batchsvm.models.scores import scores

FLOATS = [np.float64, np.float32]
NUMBERS = r"(?i)(u?int|float|double|bool)"  # how pandas and polars begin the names of their types
PLAIN = (np.ndarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array)


def read_data(estimator: Any, X: Any, y: Any, **how: Any) -> tuple[Any, np.ndarray]:
    """X and y for training, X as it is wherever the core can use it.

    NaN and infinity in X are left to the core, which sees them in the norms of the rows that it
    computes anyway.  Data to which nothing need be done does not go through scikit-learn's checks,
    which take longer than all else that an estimator adds to a fit.  Arrays of other libraries are
    seen as NumPy arrays, except an X on a GPU, which stays there.
    """
    if "reset" in how and is_source(X):
        raise ValueError("X must be an array or a sparse matrix for partial_fit, not a source")
    X, y = on_host(X), to_host(y)
    if is_placed(X) or is_device_array(X):
        return X, _read_placed(estimator, X, y, how)
    if how.get("reset", True) and _is_plain(X, y):
        if "reset" in how and scipy.sparse.issparse(X):  # a stream slices X before it reads it
            refuse_broken(X)
        estimator.n_features_in_ = X.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        return X, y
    refuse_foreign(X)
    _refuse_words(y, how)
    return validate_data(
        estimator, X, y, accept_sparse="csr", accept_large_sparse=True, dtype=FLOATS,
        ensure_all_finite=False, **how,
    )  # fmt: skip


def _read_placed(estimator: Any, X: Any, y: Any, how: dict[str, Any]) -> np.ndarray:
    """y for training on data that scikit-learn's checks cannot read."""
    on_gpu = not is_placed(X)
    if how.get("reset") is not None:
        found = "one on a GPU: copy it to the host" if on_gpu else "placed data"
        raise ValueError(f"X must be an array or a sparse matrix for partial_fit, not {found}")
    if on_gpu:
        _refuse_shape(X)
    _refuse_words(y, how)
    n = rows_of(X)
    estimator.n_features_in_ = X.shape[1] if on_gpu else X.d
    estimator.__dict__.pop("feature_names_in_", None)
    y = _check_y(y, y_numeric=how.get("y_numeric", False))
    if len(y) != n:
        raise ValueError(f"y must have {n} entries, one per row of X, not {len(y)}")
    return y


def _refuse_shape(X: Any) -> None:
    if len(X.shape) != 2 or 0 in X.shape:
        raise ValueError(
            "X must have two dimensions, at least one row and one column, not shape"
            f" {tuple(X.shape)}"
        )


def rows_of(X: Any) -> int:
    return X.n if is_placed(X) else X.shape[0]


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


def refuse_foreign(X: Any) -> None:
    """Refuse what scikit-learn would turn into numbers that nobody meant, or crash on: masked
    arrays, numbers written as words, broken sparse matrices."""
    refuse_masked("X", X)
    if scipy.sparse.issparse(X):
        refuse_broken(X)
    elif _has_words(X):
        raise ValueError("X must hold real numbers, not words")


def _refuse_words(y: Any, how: dict[str, Any]) -> None:
    """Refuse masked and mixed targets, and for a regression also words."""
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    if kind == "c" or not (kind or isinstance(y, list | tuple)):
        return  # scikit-learn has its own sentence for complex numbers, and for what is no array
    labels = as_labels("y", y)
    if how.get("y_numeric") and _has_words(labels):
        raise ValueError("y must hold numbers for a regression loss, not words")


def _has_words(values: Any) -> bool:
    """Whether a list, an array or a column of a table holds words."""
    kinds = getattr(values, "dtypes", None)
    if kinds is not None and hasattr(values, "columns"):  # a table of pandas or polars
        names = [
            name
            for name, kind in zip(values.columns, kinds, strict=True)
            if not re.match(NUMBERS, str(kind))
        ]
        return any(_has_words(np.asarray(values[name])) for name in names)
    if not isinstance(values, np.ndarray | list | tuple):
        return False
    try:
        array = np.asarray(values)
    except ValueError:  # lists of unequal lengths, which scikit-learn refuses
        return False
    if array.dtype.kind == "O":
        return any(isinstance(value, str | bytes) for value in array.flat)
    return array.dtype.kind in "US"


def decide(estimator: Any, X: Any, method: str) -> Any:
    """X coef_' + intercept_, without a float64 copy of float32 data: a NumPy array, or one of the
    library of an X on a GPU."""
    if is_placed(X):
        if X.d != estimator.n_features_in_:
            raise ValueError(
                f"X must have {estimator.n_features_in_} columns, as in fit, not {X.d}"
            )
        return scores(X, dense_coef(estimator), estimator.intercept_)
    if is_source(X):
        raise ValueError(
            f"X must be rows in memory or placed data for {method}, not a source, whose rows"
            " batchsvm.predict_parts predicts"
        )
    refuse_other_library(estimator, X, method)
    if is_device_array(X):
        return _decide_on_device(estimator, X)
    X = on_host(X)
    refuse_foreign(X)
    X = validate_data(
        estimator, X, reset=False, accept_sparse="csr", accept_large_sparse=True, dtype=FLOATS
    )
    coef = to_host(estimator.coef_).astype(X.dtype, copy=False)
    jobs = read_jobs(estimator.n_jobs)
    if scipy.sparse.issparse(coef):  # `sparsify` was called
        found = safe_sparse_dot(X, coef.T, dense_output=True) + to_host(estimator.intercept_)
    else:
        found = scores(X, coef, estimator.intercept_, jobs)
    return found.astype(X.dtype, copy=False)


def dense_coef(estimator: Any) -> Any:
    """coef_, as an array also after `sparsify`."""
    coef = estimator.coef_
    return coef.toarray() if scipy.sparse.issparse(coef) else coef


def _decide_on_device(estimator: Any, X: Any) -> Any:
    _refuse_shape(X)
    validate_data(estimator, X, reset=False, skip_check_array=True)
    found = scores(X, dense_coef(estimator), estimator.intercept_)
    # What is not finite in X is not finite here: this is a smaller array than X.
    xp = namespace_of(found)
    if not bool(xp.all(xp.isfinite(found))):
        raise ValueError("X must be finite (no NaN, no inf), but decision values of it are not")
    return found


def train(
    X: Any,
    problem_on: Callable[[Dataset], Problem],
    settings: Settings,
    seed: int,
    initial: list[LinearStart] | None,
    watch: Watch,
) -> list[LinearModel]:
    """Train the problems that `problem_on` makes of the placed data."""
    where = settings.engine, settings.n_jobs
    # A free intercept takes several problems over the same data.
    once = watch.count == 1 and settings.intercept.kind != "free"
    with placed(X, *where, once=once, device=settings.device) as data:
        problem = problem_on(data)
        options = replace(settings.options, callback=watch.callback())
        warn_of_columns(data, problem, options)
        models = train_many(data, problem, options, settings.intercept, seed, initial, watch.close)
        if not is_single(X):
            return models
        return in_single_precision(data, problem, models, settings.intercept, options.tol)


def problem_of(settings: Settings, targets: Any, lam: float) -> Problem:
    """The problems of an estimator over these targets."""
    method = settings.options.method
    radius = float(method.radius) if isinstance(method, Pegasos) else inf
    return make_problem(targets, settings.loss, lam, radius=radius)


def warm(
    alphas: Any, intercepts: Any, n: int, loss: Loss, weights: np.ndarray | None
) -> list[LinearStart]:
    """Where to start from after an earlier fit: row i from its alpha, a new row from 0.

    Any point of the box will do, so that data, weights, lam and loss may all have changed.
    """
    alphas, intercepts = np.atleast_2d(to_host(alphas)), to_host(intercepts)
    start = np.zeros((len(alphas), n))
    kept = min(n, alphas.shape[1])
    start[:, :kept] = alphas[:, :kept]
    box = np.ones(n) if weights is None else weights
    lower, upper = (_edge(edge, box) for edge in (loss.lower, loss.upper))
    np.clip(start, lower, upper, out=start)
    return [
        LinearStart(alpha=alpha, intercept=float(b))
        for alpha, b in zip(start, intercepts, strict=True)
    ]


def _edge(edge: float, weights: np.ndarray) -> np.ndarray:
    """A bound of the dual's box for each row: that of the loss times the weight."""
    return np.where(weights > 0, edge, 0.0) if np.isinf(edge) else edge * weights
