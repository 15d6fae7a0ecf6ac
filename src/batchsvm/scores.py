"""Predictions: X coef' + intercept, on all threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.data_inputs import read_matrix
from batchsvm.team import Threads


def scores(X: Any, coef: np.ndarray, intercept: Any, jobs: int = 1) -> np.ndarray:
    """A column for each row of `coef`; dense products are BLAS's, which has its own threads."""
    if jobs > 1 and scipy.sparse.issparse(X) and X.format == "csr":
        with Threads(jobs) as threads:
            matrix = read_matrix(X, threads)
            found = np.column_stack([matrix.times(w) for w in coef.astype(np.float64)])
        return found + intercept
    return np.asarray(X @ coef.T) + intercept
