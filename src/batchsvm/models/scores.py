"""Predictions: X coef' + intercept, on all threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.api import is_placed, place


def scores(X: Any, coef: np.ndarray, intercept: Any, jobs: int = 1) -> np.ndarray:
    """A column for each row of `coef`; dense products are BLAS's, which has its own threads."""
    if is_placed(X):
        return X.scores(coef.T) + intercept
    if jobs > 1 and scipy.sparse.issparse(X) and X.format == "csr":
        with place(X, n_jobs=jobs) as data:
            return data.scores(coef.T) + intercept
    return np.asarray(X @ coef.T) + intercept
