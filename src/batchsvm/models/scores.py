"""Predictions: X coef' + intercept, on all threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.api import place
from batchsvm.engines import is_placed


def scores(X: Any, coef: np.ndarray, intercept: Any, jobs: int = 1) -> np.ndarray:
    """A column for each row of `coef`, or a vector for a single vector `coef`; dense products are
    BLAS's, which has its own threads."""
    if is_placed(X):
        found = X.scores(np.atleast_2d(coef).T)
    elif jobs > 1 and scipy.sparse.issparse(X) and X.format == "csr":
        with place(X, n_jobs=jobs) as data:
            found = data.scores(np.atleast_2d(coef).T)
    else:
        return np.asarray(X @ coef.T) + intercept
    return (found if coef.ndim == 2 else found[:, 0]) + intercept
