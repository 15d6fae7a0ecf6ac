"""Products with the Gram matrix of a few rows, from which sigma^2 is estimated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse


def gram_product(
    few: Any, normalize: bool, bias: float | None
) -> Callable[[np.ndarray], np.ndarray]:
    """The function v -> X X' v over these rows, an array or a CSR matrix (`Dataset.row_gram`)."""
    bias2 = (bias or 0.0) ** 2
    squares = few.multiply(few) if scipy.sparse.issparse(few) else few * few
    norms2 = np.asarray(squares.sum(axis=1)).ravel() + bias2
    scale = np.ones(norms2.size)
    if normalize:
        scale = np.divide(1.0, np.sqrt(norms2), out=np.zeros(norms2.size), where=norms2 > 0)

    def times(v: np.ndarray) -> np.ndarray:
        u = scale * v
        return scale * (few @ (few.T @ u) + bias2 * u.sum())

    return times
