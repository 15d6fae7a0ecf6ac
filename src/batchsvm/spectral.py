"""sigma^2, the spectral norm of the data, and beta_b, what it makes of a batch size.

    sigma^2 >= ||X~||^2 / n        eq. (sigma_sq), X~ being X with rows of unit norm
    beta_b   = 1 + (b - 1)(n sigma^2 - 1)/(n - 1)                       eq. (betab)

1/sigma^2 is roughly the number of rows that a batch may hold before its rows get in each
other's way, and b / beta_b is the speed-up that a batch of b can bring.  Rows of unit norm
give sigma^2 between 1/n (orthogonal rows) and 1 (all rows on one line).
"""

from __future__ import annotations

from math import inf, isinf, log, nan, sqrt
from numbers import Real

import numpy as np
import scipy.linalg
import scipy.sparse

from batchsvm.compiled import Kernel
from batchsvm.matrix import Matrix, inner, norm
from batchsvm.rows import (
    Biased,
    Dense,
    Rows,
    absolute_sums,
    as_scipy,
    densify,
    row_block,
)

SIGMA2_METHODS = ("auto", "exact", "lanczos", "sample", "crude", "estimate")
EXACT_UP_TO = 256  # rows or columns: up to here the Gram matrix is formed and solved
EXACT_AT_ONCE = 10**7  # multiplications that take no longer than an estimate
DENSE_BLOCK = 1024  # rows or columns made dense at a time for it
LANCZOS_STEPS = 16
SAMPLED_ROWS = 4096
ESTIMATE_ROWS, ESTIMATE_STEPS = 128, 6
FAILURE_PROBABILITY = 1e-3


class Sigma2(float):
    """sigma^2, or an upper bound on it: a number that knows where it comes from.

    Attributes
    ----------
    how : str
        In words, how it was found.
    failure_probability : float
        How likely it is to be no upper bound: 0 for the exact and the crude one, NaN
        (unknown) for an estimate.
    """

    how: str
    failure_probability: float

    def __new__(cls, value: float, how: str, failure_probability: float = 0.0) -> Sigma2:
        self = super().__new__(cls, value)
        self.how = how
        self.failure_probability = failure_probability
        return self

    def __getnewargs__(self) -> tuple[float, str, float]:  # type: ignore[override]
        return float(self), self.how, self.failure_probability


def beta_b(b: float, n: int, sigma2: float) -> float:
    """beta_b of eq. (betab), between 1 and b.

    For an infinite population, drawn from with replacement, it is 1 + (b - 1) sigma^2
    (Section 6): pass n = numpy.inf.

    >>> beta_b(1, 1000, 0.05)
    1.0
    >>> round(beta_b(20, 1000, 0.05), 3)
    1.932
    """
    if not (isinstance(b, Real) and 1 <= b <= n):
        raise ValueError(f"b must be between 1 and n = {n}, not {b!r}")
    if not (isinstance(sigma2, Real) and 0 <= sigma2 <= 1 + 1e-9):
        raise ValueError(f"sigma2 must be between 0 and 1, not {sigma2!r}")
    if isinf(n):
        return float(1.0 + (b - 1) * sigma2)
    if n == 1:
        return 1.0
    # Rows of norm zero can push n sigma^2 below 1, the least it is for rows of norm one.
    return float(1.0 + (b - 1) * max(n * sigma2 - 1.0, 0.0) / (n - 1))


def measure_sigma2(
    matrix: Matrix,
    norms2: np.ndarray,
    how: str = "auto",
    rng: np.random.Generator | None = None,
    sampled_rows: int = SAMPLED_ROWS,
    failure_probability: float = FAILURE_PROBABILITY,
) -> Sigma2:
    """sigma^2 of the rows, each divided by the root of its entry in norms2.

    "exact"     the largest eigenvalue of the Gram matrix
    "lanczos"   an upper bound by random-start Lanczos, one pass over the data a step
    "sample"    an upper bound from some rows only
    "crude"     ||X~||^2 <= (largest column sum)(largest row sum), both of |X~|
    "estimate"  a quick look at a few rows, and no bound
    "auto"      "exact" where that is cheap, else "lanczos"
    """
    n, d = matrix.n, matrix.d
    rows = matrix.rows
    rng = rng or np.random.default_rng(0)
    if how == "auto" or (how == "sample" and sampled_rows >= n):
        how = "exact" if min(n, d) <= EXACT_UP_TO else "lanczos"
    if how == "estimate" and n * min(n, d) ** 2 <= EXACT_AT_ONCE:
        how = "exact"
    if how == "exact":
        found = Sigma2(_largest_eigenvalue(rows, norms2) / n, "exact")
    elif how == "lanczos":
        found = _lanczos_bound(matrix, norms2, failure_probability, rng)
    elif how == "sample":
        found = _sample_bound(rows, norms2, failure_probability, rng, sampled_rows)
    elif how == "estimate":
        found = _estimate(rows, norms2, rng)
    else:
        found = Sigma2(_crude_bound(rows, norms2), "crude bound by row and column sums")
    if found < 1.0 / n:  # only where rows are shorter than 1
        return Sigma2(1.0 / n, "1/n, the least for rows of unit norm")
    return Sigma2(min(found, 1.0), found.how, found.failure_probability)


def _inverse_norms(norms2: np.ndarray) -> np.ndarray:
    norms = np.sqrt(norms2)
    return np.divide(1.0, norms, out=norms, where=norms > 0)


def _largest_eigenvalue(rows: Rows, norms2: np.ndarray) -> float:
    """Of X~X~' for few rows, else of X~'X~; a block of X is made dense at a time."""
    n, d = rows.shape
    scale = _inverse_norms(norms2)
    gram = np.zeros((min(n, d), min(n, d)))
    if n > d:
        for start in range(0, n, DENSE_BLOCK):
            part = np.zeros((min(DENSE_BLOCK, n - start), d))
            densify(rows, start, part)
            part *= scale[start : start + DENSE_BLOCK, None]
            gram += part.T @ part
        return float(np.linalg.eigvalsh(gram)[-1])
    base = rows.base if isinstance(rows, Biased) else rows
    if isinstance(base, Dense):
        for start in range(0, d, DENSE_BLOCK):
            part = base.values[:, start : start + DENSE_BLOCK] * scale[:, None]
            gram += part @ part.T
    else:
        part = scipy.sparse.diags_array(scale) @ as_scipy(base)
        gram = (part @ part.T).toarray()
    if isinstance(rows, Biased):
        gram += np.outer(rows.constant * scale, rows.constant * scale)
    return float(np.linalg.eigvalsh(gram)[-1])


def _crude_bound(rows: Rows, norms2: np.ndarray) -> float:
    """||X~||^2 / n <= (largest column sum of |X~|)(largest row sum) / n, in one pass."""
    columns = np.zeros(rows.shape[1])
    widest = absolute_sums(rows, _inverse_norms(norms2), columns)
    return float(widest * columns.max()) / rows.shape[0]


def _lanczos(
    matrix: Matrix, norms2: np.ndarray, steps: int, rng: np.random.Generator
) -> tuple[float, int]:
    """The largest Ritz value of X~'X~ or X~X~', whichever is smaller, and the passes made.

    Fewer passes than `steps`: the Krylov space is exhausted, and the value is exact.
    """
    n, d = matrix.n, matrix.d
    scale = _inverse_norms(norms2)
    size = min(n, d)
    v, previous = rng.standard_normal(size), np.zeros(size)
    v /= norm(v)
    diagonal: list[float] = []
    off = [0.0]
    for _ in range(min(steps, size)):
        if n <= d:
            u = scale * matrix.times(_combine(matrix, scale * v))
        else:
            u = _combine(matrix, scale * scale * matrix.times(v))
        diagonal.append(inner(u, v))
        u -= diagonal[-1] * v + off[-1] * previous
        off.append(norm(u))
        if off[-1] <= 1e-12 * max(diagonal):
            break
        previous, v = v, u / off[-1]
    passes = len(diagonal)
    return float(scipy.linalg.eigvalsh_tridiagonal(diagonal, off[1:passes])[-1]), passes


def _combine(matrix: Matrix, coefficients: np.ndarray) -> np.ndarray:
    """X' c."""
    return matrix.combination(lambda start, stop: coefficients[start:stop])


def _lanczos_bound(
    matrix: Matrix, norms2: np.ndarray, failure_probability: float, rng: np.random.Generator
) -> Sigma2:
    """Lanczos with the bound of Kuczynski and Wozniakowski (1992, Theorem 4.2).

    From a start drawn uniformly from the sphere of R^m, the largest Ritz value after k
    steps is below (1 - eps) times the largest eigenvalue with probability at most
    1.648 sqrt(m) exp(-sqrt(eps)(2k - 1)), whatever the spectrum is.
    """
    n, m = matrix.n, min(matrix.n, matrix.d)
    ritz, passes = _lanczos(matrix, norms2, LANCZOS_STEPS, rng)
    if passes < LANCZOS_STEPS:
        return Sigma2(ritz / n, f"Lanczos, complete after {passes} passes", failure_probability)
    eps = (log(1.648 * sqrt(m) / failure_probability) / (2 * passes - 1)) ** 2
    bound = ritz / n / (1 - eps) if eps < 1 else inf
    return Sigma2(bound, f"Lanczos, {passes} passes", failure_probability)


def _sample_bound(
    rows: Rows,
    norms2: np.ndarray,
    failure_probability: float,
    rng: np.random.Generator,
    sampled_rows: int,
) -> Sigma2:
    """From m rows drawn without replacement, with a bound that does not depend on d.

    For u the leading eigenvector, <x~_i, u>^2 lies in [0, 1] and has mean sigma^2; by
    Chernoff's bound the mean over the sample is below sigma^2 - c sigma with probability
    at most exp(-m c^2 / 2), and the sample's own largest eigenvalue is not below that mean.
    """
    half = failure_probability / 2
    order = np.sort(rng.choice(rows.shape[0], sampled_rows, replace=False))
    sample = row_block(rows, order)
    inner = measure_sigma2(Matrix(sample), norms2[order], "auto", rng, failure_probability=half)
    c = sqrt(2 * log(1 / half) / sampled_rows)
    root = (c + sqrt(c * c + 4 * inner)) / 2
    return Sigma2(root * root, f"sample of {sampled_rows} rows", failure_probability)


def _estimate(rows: Rows, norms2: np.ndarray, rng: np.random.Generator) -> Sigma2:
    """From the largest Ritz value over a few rows: mostly close, never sure.

    A row's product with itself weighs more among few rows than among many; with others it
    weighs the same, (m s - 1)/(m - 1) for m rows with sigma^2 = s, as in beta_b.
    """
    n, few = rows.shape[0], min(ESTIMATE_ROWS, rows.shape[0])
    order = np.sort(rng.choice(n, few, replace=False))
    scale, room = _inverse_norms(norms2[order]), np.zeros(rows.shape[1])
    v, largest = rng.standard_normal(few), 1.0
    for _ in range(ESTIMATE_STEPS):
        if (length := norm(v)) == 0.0:  # these rows are all zero
            break
        v /= length
        u = np.empty(few)
        gram_times(rows, order, scale, v, room, u)
        largest, v = inner(u, v), u
    others = max(largest - 1.0, 0.0) / max(few - 1, 1)
    return Sigma2((1.0 + (n - 1) * others) / n, f"estimate from {few} rows", nan)


@Kernel
def gram_times(rows, order, scale, v, room, out):
    """out = X~X~' v over the rows in `order`; `room`, of d zeros, is left with rounding errors."""
    for k in range(order.size):
        rows.add(order[k], scale[k] * v[k], room)
    for k in range(order.size):
        out[k] = scale[k] * rows.dot(order[k], room)
    for k in range(order.size):
        rows.add(order[k], -scale[k] * v[k], room)
