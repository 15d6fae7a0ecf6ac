"""Predictions: X coef' + intercept, on all threads, or on the device where X is."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.api.place import place
from batchsvm.core.arrays import (
    cast,
    dtype_name,
    is_device_array,
    moved,
    namespace_of,
    to_host,
)
from batchsvm.engines import is_placed

SHORT = ("float16", "bfloat16", "float32")  # types whose products are computed in float32
MAX_CONVERTED_ENTRIES = 2**26  # of X at a time, where X has a type that is not computed in


def scores(X: Any, coef: Any, intercept: Any, jobs: int = 1) -> Any:
    """A column for each row of `coef`, or a vector for a single vector `coef`; dense products are
    BLAS's, which has its own threads.  Those of an array on a GPU stay there."""
    if is_device_array(X):
        return _scores_on_device(X, coef, intercept)
    coef, intercept = to_host(coef), to_host(intercept)
    if is_placed(X):
        found = X.scores(np.atleast_2d(coef).T)
    elif jobs > 1 and scipy.sparse.issparse(X) and X.format == "csr":
        with place(X, n_jobs=jobs) as data:
            found = data.scores(np.atleast_2d(coef).T)
    else:
        return np.asarray(to_host(X) @ coef.T) + intercept
    return (found if coef.ndim == 2 else found[:, 0]) + intercept


def _scores_on_device(X: Any, coef: Any, intercept: Any) -> Any:
    """The scores, computed by the library of X where X is."""
    xp = namespace_of(X)
    if xp is None:
        raise ValueError(
            "X must be an array of a library that computes on a GPU, such as CuPy or torch, not"
            f" {type(X).__name__}"
        )
    coef = moved(coef, X)  # in float64, or in float32 where there is no float64
    dtype = xp.float32 if dtype_name(X) in SHORT else coef.dtype
    coef = cast(coef, dtype)
    columns = coef.T if coef.ndim == 2 else coef
    if X.dtype == dtype:
        found = X @ columns
    else:
        n, size = X.shape[0], max(1, MAX_CONVERTED_ENTRIES // X.shape[1])
        ends = [(i, min(i + size, n)) for i in range(0, n, size)]
        blocks = [cast(X[start:stop, :], dtype) @ columns for start, stop in ends]
        found = (xp.concat if hasattr(xp, "concat") else xp.concatenate)(blocks)
    return found + moved(intercept, X)
