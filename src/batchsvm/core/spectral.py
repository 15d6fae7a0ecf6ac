"""sigma^2, the spectral norm of the data, and beta_b, what it makes of a batch size.

    sigma^2 >= ||X~||^2 / n        eq. (sigma_sq), X~ being X with rows of unit norm
    beta_b   = 1 + (b - 1)(n sigma^2 - 1)/(n - 1)                       eq. (betab)

1/sigma^2 is roughly the number of rows that a batch may hold before its rows get in each
other's way, and b / beta_b is the speed-up that a batch of b can bring.  Rows of unit norm
give sigma^2 between 1/n (orthogonal rows) and 1 (all rows on one line).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isinf, log, nan, sqrt
from numbers import Real
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse

from batchsvm.core.vectors import inner, norm

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset

SIGMA2_METHODS = ("auto", "exact", "lanczos", "sample", "crude", "estimate")
MAX_EXACT_SIDE = 256  # rows or columns: up to here the Gram matrix is formed and solved
MAX_QUICK_PRODUCTS = 10**7  # multiplications that take no longer than an estimate
LANCZOS_STEPS = 16
SAMPLED_ROWS = 4096
ESTIMATE_ROWS, ESTIMATE_STEPS = 128, 6
MAX_KEPT_ENTRIES = 2**18  # of rows that a plan keeps for an estimate; if there are more, it is made
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

    @property
    def value(self) -> Sigma2:
        """Itself, as `LaterSigma2` has it."""
        return self

    def __new__(cls, value: float, how: str, failure_probability: float = 0.0) -> Sigma2:
        self = super().__new__(cls, value)
        self.how = how
        self.failure_probability = failure_probability
        return self

    def __getnewargs__(self) -> tuple[float, str, float]:  # type: ignore[override]
        return float(self), self.how, self.failure_probability


class LaterSigma2:
    """sigma^2 that is estimated when it is first asked for, from rows that have been taken out of
    the data.  Many fits do not need it, and of text like rcv1 it takes a fiftieth of a fit."""

    def __init__(self, measure: Callable[[], Sigma2]) -> None:
        self._measure = measure
        self._found: Sigma2 | None = None
        self._lock = Lock()  # fits in several threads may share a plan

    @property
    def value(self) -> Sigma2:
        with self._lock:
            if self._found is None:
                self._found = self._measure()
                del self._measure  # and the rows that it holds
            return self._found

    def __reduce__(self) -> Any:
        """Copied or pickled, it is a number."""
        return Sigma2, self.value.__getnewargs__()


def beta_b(b: float, n: int, sigma2: float) -> float:
    """beta_b, equation (betab), between 1 and b.

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


@dataclass(frozen=True)
class SpectralQuery:
    """Which sigma^2 of a data set is asked for.

    "exact"     the largest eigenvalue of the Gram matrix
    "lanczos"   an upper bound by random-start Lanczos, one pass over the data per step
    "sample"    an upper bound from some rows only
    "crude"     ||X~||^2 <= (largest column sum)(largest row sum), both of |X~|
    "estimate"  a quick look at a few rows, and no bound
    "auto"      "exact" where that is cheap, else "lanczos"
    """

    how: str = "auto"
    normalize: bool = True  # scale the rows to norm 1
    bias: float | None = None  # of the constant column that the rows have beside X
    sampled_rows: int = SAMPLED_ROWS
    failure_probability: float = FAILURE_PROBABILITY
    seed: int = 0


def measure_sigma2(data: Dataset, query: SpectralQuery) -> Sigma2:
    """sigma^2 of the rows of a data set, measured once."""
    return sigma2_later(data, query).value


def sigma2_later(data: Dataset, query: SpectralQuery) -> Sigma2 | LaterSigma2:
    """The same, and an estimate is made when it is first asked for."""
    if query not in data.memo:
        data.memo[query] = _measure(data, query)
    return data.memo[query]


def _measure(data: Dataset, query: SpectralQuery) -> Sigma2 | LaterSigma2:
    n, p = data.n, data.d + (query.bias is not None)
    rng = np.random.default_rng(query.seed)
    how = query.how
    if how == "auto" or (how == "sample" and query.sampled_rows >= n):
        how = "exact" if min(n, p) <= MAX_EXACT_SIDE else "lanczos"
    if how == "estimate" and n * min(n, p) ** 2 <= MAX_QUICK_PRODUCTS:
        how = "exact"
    if how == "exact":
        found = Sigma2(_largest_eigenvalue(data, query) / n, "exact")
    elif how == "lanczos":
        found = _lanczos_bound(data, query, rng)
    elif how == "sample":
        found = _sample_bound(data, query, rng)
    elif how == "estimate":
        rows = np.sort(rng.choice(n, min(ESTIMATE_ROWS, n), replace=False))
        start = rng.standard_normal(len(rows))
        gram_times = data.row_gram(rows, query.normalize, query.bias)
        later = LaterSigma2(partial(_estimate, n, start, gram_times))
        return later if len(rows) * data.nonzeros <= MAX_KEPT_ENTRIES * n else later.value
    else:
        columns, widest = data.absolute_sums(query.normalize, query.bias)
        bound = float(widest * columns.max()) / n
        found = Sigma2(bound, "crude bound by row and column sums")
    return _within_limits(found, n)


def _within_limits(found: Sigma2, n: int) -> Sigma2:
    if found < 1.0 / n:  # only where rows are shorter than 1
        return Sigma2(1.0 / n, "1/n, the least for rows of unit norm")
    return Sigma2(min(found, 1.0), found.how, found.failure_probability)


def _largest_eigenvalue(data: Dataset, query: SpectralQuery) -> float:
    """Of X~X~' for few rows, else of X~'X~."""
    p = data.d + (query.bias is not None)
    if data.n > p:
        gram = data.gram_times(np.eye(p), query.normalize, query.bias)
        return float(np.linalg.eigvalsh(gram)[-1])
    rows = data.sample(np.arange(data.n))
    product = rows @ rows.T
    gram = product.toarray() if scipy.sparse.issparse(product) else product
    gram = gram + (query.bias or 0.0) ** 2
    if query.normalize:
        norms = np.sqrt(np.diag(gram))
        scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        gram = gram * np.outer(scale, scale)
    return float(np.linalg.eigvalsh(gram)[-1])


def _lanczos(
    data: Dataset, query: SpectralQuery, steps: int, rng: np.random.Generator
) -> tuple[float, int]:
    """The largest Ritz value of X~'X~, and the passes made.

    Fewer passes than `steps`: the Krylov space is exhausted, and the value is exact.
    """
    size = data.d + (query.bias is not None)
    v, previous = rng.standard_normal(size), np.zeros(size)
    v /= norm(v)
    diagonal: list[float] = []
    off = [0.0]
    for _ in range(min(steps, size)):
        u = data.gram_times(v[:, np.newaxis], query.normalize, query.bias)[:, 0].copy()
        diagonal.append(inner(u, v))
        u -= diagonal[-1] * v + off[-1] * previous
        off.append(norm(u))
        if off[-1] <= 1e-12 * max(diagonal):
            break
        previous, v = v, u / off[-1]
    passes = len(diagonal)
    return float(scipy.linalg.eigvalsh_tridiagonal(diagonal, off[1:passes])[-1]), passes


def _lanczos_bound(data: Dataset, query: SpectralQuery, rng: np.random.Generator) -> Sigma2:
    """Lanczos with the bound of Kuczynski and Wozniakowski (1992, Theorem 4.2).

    From a start drawn uniformly from the sphere of R^m, the largest Ritz value after k
    steps is below (1 - eps) times the largest eigenvalue with probability at most
    1.648 sqrt(m) exp(-sqrt(eps)(2k - 1)), whatever the spectrum is.
    """
    n, m, chance = data.n, data.d + (query.bias is not None), query.failure_probability
    ritz, passes = _lanczos(data, query, LANCZOS_STEPS, rng)
    if passes < LANCZOS_STEPS:
        return Sigma2(ritz / n, f"Lanczos, complete after {passes} passes", chance)
    eps = (log(1.648 * sqrt(m) / chance) / (2 * passes - 1)) ** 2
    bound = ritz / n / (1 - eps) if eps < 1 else inf
    return Sigma2(bound, f"Lanczos, {passes} passes", chance)


def _sample_bound(data: Dataset, query: SpectralQuery, rng: np.random.Generator) -> Sigma2:
    """From m rows drawn without replacement, with a bound that does not depend on d.

    For u the leading eigenvector, <x~_i, u>^2 lies in [0, 1] and has mean sigma^2; by
    Chernoff's bound the mean over the sample is below sigma^2 - c sigma with probability
    at most exp(-m c^2 / 2), and the sample's own largest eigenvalue is not below that mean.
    """
    half, m = query.failure_probability / 2, query.sampled_rows
    order = np.sort(rng.choice(data.n, m, replace=False))
    again = replace(query, how="auto", failure_probability=half, seed=int(rng.integers(2**62)))
    with data.subset(order) as sample:
        inside = measure_sigma2(sample, again)
    c = sqrt(2 * log(1 / half) / m)
    root = (c + sqrt(c * c + 4 * inside)) / 2
    return Sigma2(root * root, f"sample of {m} rows", query.failure_probability)


def _estimate(n: int, start: np.ndarray, gram_times: Callable[[np.ndarray], np.ndarray]) -> Sigma2:
    """From the largest Ritz value over a few rows: mostly close, never sure.

    A row's product with itself weighs more among few rows than among many; with others it
    weighs the same, (m s - 1)/(m - 1) for m rows with sigma^2 = s, as in beta_b.
    """
    # Rows of text have nearly the same product with all others: the vector of ones is close to the
    # one sought, and with a random vector alone, six steps found a fifteenth of sigma^2.
    few, v, largest = start.size, 1.0 + start, 1.0
    for _ in range(ESTIMATE_STEPS):
        if (length := sqrt(v @ v)) == 0.0:  # these rows are all zero
            break
        v = v / length
        u = gram_times(v)
        largest, v = float(u @ v), u
    others = max(largest - 1.0, 0.0) / max(few - 1, 1)
    found = Sigma2((1.0 + (n - 1) * others) / n, f"estimate from {few} rows", nan)
    return _within_limits(found, n)
