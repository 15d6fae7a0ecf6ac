"""Warnings before training: columns of very different size, and targets far from zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from batchsvm.core.choice import newton_alternative_of
from batchsvm.core.convergence_warning import warn_of_convergence
from batchsvm.core.options import FitOptions
from batchsvm.core.problem import Problem
from batchsvm.core.warning import warn_user
from batchsvm.losses import Loss
from batchsvm.methods import Newton

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset

MIN_SAMPLED_ROWS, MAX_SAMPLED_ROWS = 32, 256
SAMPLED_ENTRIES = 8192  # of long rows, fewer are looked at
LOW_SHARE = 0.1  # of the columns count as the small ones
MAX_RATIO = 300.0  # of the largest column to the small ones
LARGE_SHARE = 1.0  # of the losses at the mean target, that a penalty may cost without a word
_SEEN = "sizes of columns"


def warn_of_columns(data: Dataset, problem: Problem, options: FitOptions) -> None:
    """Warn, once for placed data, if the columns are of so different size that steps on single rows
    make little progress; Newton's method does not mind."""
    if isinstance(options.method, Newton) or _SEEN in data.memo:
        return
    data.memo[_SEEN] = found = column_ratio(data)
    if found > MAX_RATIO and not _takes_newton(data, problem.only(0), options):
        warn_of_convergence(
            f"the columns of X differ in size by a factor of {found:.1g}, so that training may take"
            " many epochs and hardly use the small ones. Scale them first, for instance by"
            " make_pipeline(StandardScaler(), BatchSVC()), with StandardScaler(with_mean=False) for"
            " sparse data; the certificate is then of the problem with scaled columns."
        )


def _takes_newton(data: Dataset, problem: Problem, options: FitOptions) -> bool:
    """Whether "auto" is Newton's method, or is likely to go on with it."""
    if options.method is not None or options.batch_size != "auto":
        return False
    found = newton_alternative_of(data, problem, data.facts(problem), options)
    return found is not None and found[0].is_likely


def column_ratio(data: Dataset) -> float:
    """How many times larger the largest column is than the small ones, from some of the rows.  The
    size of a column is the root mean square of its entries that are not zero."""
    enough = SAMPLED_ENTRIES * data.n // max(data.nonzeros, 1)
    few = min(max(enough, MIN_SAMPLED_ROWS), MAX_SAMPLED_ROWS, data.n)
    rows = data.sample(np.linspace(0, data.n - 1, few).astype(np.int64))
    with np.errstate(over="ignore", invalid="ignore"):
        squares, counts = _column_sums(rows)
        sizes = np.sqrt(squares[counts > 0] / counts[counts > 0])
    if sizes.size < 2 or not np.isfinite(sizes).all():  # training refuses what is not finite
        return 1.0
    place = int(LOW_SHARE * sizes.size)  # np.quantile takes five times as long
    small = float(np.partition(sizes, place)[place])
    return float(sizes.max()) / small if small > 0.0 else 1.0


def _column_sums(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """The squares of the entries of each column, added up, and how many entries are not zero."""
    if not scipy.sparse.issparse(rows):
        return np.einsum("ij,ij->j", rows, rows), np.count_nonzero(rows, axis=0)
    columns, place = np.unique(rows.indices, return_inverse=True)
    squares = np.bincount(place, rows.data**2, minlength=columns.size)
    return squares, np.bincount(place, rows.data != 0, minlength=columns.size)


def warn_of_targets(y: np.ndarray, loss: Loss, lam: float, scaling: float) -> None:
    """Warn if a penalised intercept that reaches the mean of the targets costs much."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(y.mean())
        penalty = lam / 2 * float(np.square(mean / scaling))
        losses = float(np.mean(loss.value(mean - y)))
    if penalty > LARGE_SHARE * losses and np.isfinite(penalty):
        warn_user(
            f"the mean of y is {mean:.3g}, and a penalised intercept costs {penalty:.2g} to get"
            f" there, beside losses of {losses:.2g}: predictions are drawn towards 0. Use"
            ' intercept="free", or subtract the mean from y.',
            UserWarning,
        )
