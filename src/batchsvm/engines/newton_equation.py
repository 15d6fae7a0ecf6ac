"""The Newton equation, (H + lam I) p = -g: by a Cholesky factor, or by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from batchsvm.compiled import Kernel
from batchsvm.core.vectors import inner

# LAPACK's threads wait for each other: on a busy machine of two cores, a factor of 300 columns took
# them 115 ms.  So few columns are factored in a few milliseconds without them.
MAX_OWN_COLUMNS = 512


def solve_positive(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """The solution for a positive definite matrix, which is overwritten; None if rounding has made
    it indefinite.  Columns of different size are brought to one size first."""
    diagonal = np.diag(matrix)
    if not (diagonal > 0.0).all():
        return None
    scale = 1.0 / np.sqrt(diagonal)
    matrix *= scale[:, np.newaxis]
    matrix *= scale
    if right.size <= MAX_OWN_COLUMNS:
        found = scale * right
        return scale * found if cholesky_solve(matrix, found) else None
    try:
        factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        return None
    return scale * scipy.linalg.cho_solve(factor, scale * right)


@Kernel
def cholesky_solve(matrix, x):
    """Overwrite the lower half of the matrix by its Cholesky factor, and x, the right-hand side, by
    the solution; returns whether the matrix is positive definite.

    Four rows of the factor at a time: each row above them is read once, in half the time.
    """
    n = x.size
    for top in range(0, n, 4):
        first = 0  # from this column on, rows are computed one by one
        if top + 4 <= n:
            first = top
            for j in range(top):
                a, b, c, d = (
                    matrix[top, j],
                    matrix[top + 1, j],
                    matrix[top + 2, j],
                    matrix[top + 3, j],
                )
                for k in range(j):
                    factor = matrix[j, k]
                    a -= matrix[top, k] * factor
                    b -= matrix[top + 1, k] * factor
                    c -= matrix[top + 2, k] * factor
                    d -= matrix[top + 3, k] * factor
                scale = 1.0 / matrix[j, j]
                matrix[top, j], matrix[top + 1, j] = a * scale, b * scale
                matrix[top + 2, j], matrix[top + 3, j] = c * scale, d * scale
        for i in range(top, min(top + 4, n)):
            for j in range(first, i + 1):
                total = matrix[i, j]
                for k in range(j):
                    total -= matrix[i, k] * matrix[j, k]
                if j < i:
                    matrix[i, j] = total / matrix[j, j]
                elif total > 0.0:
                    matrix[i, i] = np.sqrt(total)
                else:
                    return False
    for i in range(n):
        total = x[i]
        for k in range(i):
            total -= matrix[i, k] * x[k]
        x[i] = total / matrix[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= matrix[i, i]
        for k in range(i):
            x[k] -= matrix[i, k] * x[i]
    return True


def conjugate_gradients(
    times: Callable[[np.ndarray], np.ndarray], right: np.ndarray, goal: float
) -> np.ndarray:
    """A solution whose residual has at most this norm, for a positive definite matrix that is known
    by its products; after as many steps as there are columns it ends in any case."""
    found, residual = np.zeros_like(right), right.copy()
    direction, size2 = residual.copy(), inner(residual, residual)
    with np.errstate(over="ignore", invalid="ignore"):  # a step that is not finite is not taken
        for _ in range(right.size):
            if size2 <= goal * goal:
                break
            product = times(direction)
            curvature = inner(direction, product)
            if not curvature > 0.0:  # it underflows, or rounding has made the matrix indefinite
                break
            length = size2 / curvature
            found += length * direction
            residual -= length * product
            size2, before = inner(residual, residual), size2
            direction = residual + size2 / before * direction
    return found
