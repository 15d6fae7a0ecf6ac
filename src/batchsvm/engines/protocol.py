"""The seam between the library and the engines that hold data and train on it.

A `Dataset` owns X where it lies (`place(X)` makes it, once for any number of problems), a
`Trainer` owns everything that changes during a fit.  The loop, the certificate, sigma^2 and the
plan know neither X nor alpha: they work with what crosses this seam.

Law: nothing of size n crosses the seam, except scores and dual points that somebody asks for.
Everything else is a few numbers times K, d x K or d x d, and additive over rows.

    n   rows
    d   columns of X
    p   the length of w: d, or d + 1 for problems with a bias
    K   problems trained side by side on the same rows: classes against the rest, values of lam,
        targets of a regression; 1 is an ordinary fit

Arrays that cross are NumPy's, float64 unless said otherwise; column k belongs to problem k.
`tests/engines/conformance*.py` are what every engine has to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.device_layout import DeviceSize
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.tuning import Tuning
from batchsvm.methods import Method


class Targets(Protocol):
    """What an engine keeps of y, the weights and the offsets of K problems."""

    @property
    def k(self) -> int:
        """How many problems; one set of targets may serve problems that differ in lam alone."""
        ...

    @property
    def has_offset(self) -> bool:
        """Whether a fixed part of predictions was given."""
        ...

    def only(self, k: int) -> Targets:
        """The targets of problem k alone."""
        ...

    def some(self, which: Sequence[int]) -> Targets:
        """The targets of some problems, in this order."""
        ...


class OwnLabels(Protocol):
    """What is known of labels that came with the rows."""

    @property
    def classes(self) -> np.ndarray | None:
        """In increasing order; None if there are too many to be classes."""
        ...

    @property
    def digest(self) -> str | None:
        """Of the labels of all rows, in order (`core/label_digest.py`); None if it is not known."""
        ...


class Dual(Protocol):
    """K dual points in the engine's memory, in the box of their problem; they do not change."""

    def fetch(self) -> np.ndarray:
        """alpha on this host, (n, K); an engine may refuse it once its data set is closed."""
        ...

    def only(self, k: int) -> Dual:
        """The dual point of problem k alone, without a copy."""
        ...


class ConstantSums(NamedTuple):
    """Sums over the rows for the prediction b everywhere, of each problem."""

    losses: np.ndarray  # (K,): sum_i c_i phi(s_i b - o_i)
    slopes: np.ndarray  # (K,): sum_i c_i s_i phi'(s_i b - o_i)
    weights: np.ndarray  # (K,): sum_i c_i


class GradientSums(NamedTuple):
    """Sums over the rows at W; those of parts of the rows add up to those of all."""

    losses: np.ndarray  # (K,): sum_i c_i phi(a_i)
    slopes: np.ndarray  # (p, K): sum_i c_i phi'(a_i) s_i x_i

    def plus(self, other: GradientSums) -> GradientSums:
        """The sums over the rows of both."""
        return GradientSums(self.losses + other.losses, self.slopes + other.slopes)


class Progress(NamedTuple):
    """Where a call of `Trainer.run` has led."""

    iterations: np.ndarray  # (K,): since the start
    estimates: np.ndarray  # (K,): gap that an epoch has shown, infinity where none ended the call


class Trainer(Protocol):
    """K problems in training: w, alpha, the order of visits, averages, rows left out.

    Attributes
    ----------
    facts : Facts
        Of the problems, from the moment the trainer is made.
    beta, refused : ndarray of shape (K,)
        beta in force (NaN for Pegasos), and steps that were refused so far.
    survives_exceptions : bool
        Whether `point` is still a point of the run if an exception (Ctrl-C) has ended `run`.
    knows_point : bool
        Whether `sums` and `combination` of `point` are known already, so that a certificate costs
        nothing.
    estimates_are_reliable : bool
        Whether the estimates of `run` are of all rows, and so near the gap that a full pass would
        seldom find it larger.
    """

    @property
    def facts(self) -> Facts: ...
    @property
    def estimates_are_reliable(self) -> bool: ...
    @property
    def survives_exceptions(self) -> bool: ...
    @property
    def knows_point(self) -> bool: ...
    @property
    def beta(self) -> np.ndarray: ...
    @property
    def refused(self) -> np.ndarray: ...

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        """Get ready for the first iteration, at alpha = 0 or at this dual point and its w(alpha).

        What needs compiling is compiled here, before any clock runs.  It is called once, before
        anything below.
        """
        ...

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        """Train on.

        Parameters
        ----------
        until : int
            Iterations since the start at which each problem pauses.
        targets : ndarray of shape (K,)
            A problem also pauses at the end of an epoch that makes a full pass worth while, such
            as one whose estimated gap is at most this.  NaN marks a problem that is done: it is
            not trained any more.
        stop : StopFlag
            Looked at after bounded work (some tenths of a second); if set, the call returns.
        """
        ...

    def point(self) -> np.ndarray:
        """W, (p, K), that goes with the dual point: the last iterates, or their averages."""
        ...

    def iterate(self) -> np.ndarray:
        """The last iterates, (p, K); views, valid until the next call of `run`."""
        ...

    def recent_mean(self) -> np.ndarray | None:
        """The mean of recent iterates, (p, K), or None where none is kept."""
        ...

    def sums(self, W: np.ndarray, screen: bool = False) -> Sums:
        """A full pass at (W, alpha).  With `screen`, where W is `point()`, it also decides which
        rows are visited from now on, so that screening costs no pass of its own."""
        ...

    def combination(self) -> np.ndarray:
        """sum_i alpha_i s_i x_i of the dual point, (p, K), from scratch."""
        ...

    def keep_primal(self, W: np.ndarray, which: np.ndarray) -> None:
        """Keep column k of W as the best w of problem k, where which[k]."""
        ...

    def keep_dual(self, which: np.ndarray) -> None:
        """Keep the dual point as the best alpha of problem k, where which[k]."""
        ...

    def best(self) -> tuple[np.ndarray, Dual]:
        """What was kept: W, (p, K), and the dual points.  After a cold start, before anything was
        kept, both are 0."""
        ...

    def restart_average(self) -> None:
        """Forget the iterates of a tail average."""
        ...


class Dataset(Protocol):
    """X, placed once, for any number of problems, one after another or at the same time.

    Attributes
    ----------
    n, d, nonzeros : int
        Rows, columns, and stored entries.
    mean_norm2 : float
        The mean of ||x_i||^2.
    engine : str
        The engine's name.
    jobs : int
        Threads that work on one fit.
    device_size : DeviceSize or None
        What the device has on which the rows are; None on this host.
    deterministic : bool
        Whether the same seed and the same `jobs` give the same bits.
    sliceable : bool
        Whether the columns can be cut among workers.
    keeps_all_alphas : bool
        Whether a path keeps the dual points of every lam unless it is asked to: memory of a host
        is plenty, that of a device is not.
    cheap_passes : bool
        Whether a pass over all rows costs what their entries cost: rows in the memory of this host.
    labels : OwnLabels or None
        What is known of the labels that came with the rows, if any did.
    duals_outlive : bool
        Whether dual points can be fetched after `close`.
    tuning : Tuning
    memo : dict
        What has been measured of the data, such as sigma^2; shared by `share`.
    """

    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def nonzeros(self) -> int: ...
    @property
    def mean_norm2(self) -> float: ...
    @property
    def engine(self) -> str: ...
    @property
    def jobs(self) -> int: ...
    @property
    def device_size(self) -> DeviceSize | None: ...
    @property
    def deterministic(self) -> bool: ...
    @property
    def sliceable(self) -> bool: ...
    @property
    def keeps_all_alphas(self) -> bool: ...

    @property
    def cheap_passes(self) -> bool: ...

    @property
    def labels(self) -> OwnLabels | None: ...

    duals_outlive: bool

    @property
    def tuning(self) -> Tuning: ...
    @property
    def memo(self) -> dict[Any, Any]: ...

    def over_blocks(self, work: Callable[[int, int], Any]) -> list[Any]:
        """work(start, stop) over blocks of rows, by this host's threads; the results in order.
        It is for arrays of size n that a caller has brought, such as labels to be checked."""
        ...

    def targets(
        self, y: Any = None, sample_weight: Any = None, offset: Any = None, classes: int = 0
    ) -> Targets:
        """Keep the targets of problems; y, weights and offsets are checked already.

        Parameters
        ----------
        y : ndarray of shape (n,) or (n, K), or None
            -1 and +1 for a classification loss, numbers for a regression loss.  With `classes`,
            codes of shape (n,) from 0 on.  None where the data bring their labels themselves.
        sample_weight : ndarray of shape (n,) or (n, K), optional
        offset : ndarray of shape (n,) or (n, K), optional
            A fixed part of each prediction.
        classes : int
            K, where y holds codes: problem k is class k against the rest.
        """
        ...

    def own_targets(
        self,
        how: str,
        sample_weight: Any = None,
        offset: Any = None,
        class_weights: np.ndarray | None = None,
    ) -> Targets:
        """The labels that came with the rows: as "signs" (-1 and +1), as "numbers", or as "codes",
        each class against the rest.  Weights that came with the rows count unless others are
        given; they are multiplied by `class_weights`, one per class."""
        ...

    def class_totals(self, sample_weight: Any = None) -> np.ndarray:
        """The total weight of the rows of each class of `labels`, in one pass over the labels."""
        ...

    def facts(self, problem: Problem) -> Facts:
        """What plans and certificates need to know, in one pass over the targets."""
        ...

    def constant_sums(self, problem: Problem, b: np.ndarray) -> ConstantSums:
        """Losses and slopes of the constant predictions b, (K,); `problem.offset` is not added."""
        ...

    def offset_range(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest o_i of each problem, (K,), of rows that weigh something;
        `problem.offset` is not in it."""
        ...

    def gram_times(
        self, V: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> np.ndarray:
        """X' X V for V of shape (p, m), in one pass: what sigma^2 needs.

        `normalize` scales each row to norm 1 (rows of norm 0 stay), with its bias entry.
        """
        ...

    def row_gram(
        self, rows: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The function v -> X X' v over a few rows, numbered by `rows`; v and the result have an
        entry for each.  It takes what it needs of the rows now, and outlives the data set."""
        ...

    def absolute_sums(
        self, normalize: bool = True, bias: float | None = None
    ) -> tuple[np.ndarray, float]:
        """The column sums of |X|, (p,), and the largest row sum."""
        ...

    def column_norms2(self) -> np.ndarray:
        """sum_i x_ij^2 for each column, (d,)."""
        ...

    def sample(self, rows: np.ndarray) -> Any:
        """A few rows, on the host, as a float64 array or CSR array, in this order."""
        ...

    def subset(self, rows: np.ndarray) -> Dataset:
        """Some of the rows as a data set of their own, such as the folds of a cross-validation."""
        ...

    def share(self, jobs: int) -> Dataset:
        """The same placed data with so many threads, for one of several fits side by side; it is
        to be closed, and closes nothing of this one."""
        ...

    def scores(self, W: np.ndarray) -> np.ndarray:
        """X W, (n, K), for W of shape (d, K)."""
        ...

    def dual(self, problem: Problem, alpha: np.ndarray | None = None, project: bool = True) -> Dual:
        """A dual point from alpha of shape (n, K); zero without alpha.

        With `project`, it is put into the box to the last bit, and refused if it is far outside;
        without, it is one that came from this engine.
        """
        ...

    def owns(self, dual: Dual) -> bool:
        """Whether this dual point is one over these rows in this engine's memory, of this data set
        or of one that shares its rows, so that it needs no copy."""
        ...

    def joined_dual(self, duals: Sequence[Dual]) -> Dual:
        """The dual points of several problems as one, in this order; it owns all of them.  If they
        are the columns of one dual point, that needs no copy."""
        ...

    def dual_at(self, problem: Problem, W: np.ndarray, step: np.ndarray | None = None) -> Dual:
        """alpha_i = -c_i phi'(a_i) at W, (p, K): the dual point of a primal method.

        With a step V, (p, K), it is the linearised point (`methods/newton.py`),
        -c_i (phi'(a_i) + phi''(a_i) s_i <x_i, v>), put into the box.
        """
        ...

    def balanced(self, problem: Problem, dual: Dual) -> Dual:
        """A dual point near this one with sum_i s_i alpha_i = 0 in exact arithmetic."""
        ...

    def sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> Sums:
        """A full pass at (W, alpha), W of shape (p, K)."""
        ...

    def combination(self, problem: Problem, dual: Dual) -> np.ndarray:
        """sum_i alpha_i s_i x_i, (p, K)."""
        ...

    def point_sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> tuple[Sums, np.ndarray]:
        """`sums` and `combination` of one point: all that its certificate needs, in one read where
        rows have to be read first."""
        ...

    def settled(self, problem: Problem, W: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """What is proven of alpha_i of the optimum, if that is within `distance`, (K,), of W:
        (n, K) of 1 (at its upper bound), 0 (no support vector) and -1 (open)."""
        ...

    def gradient_sums(self, problem: Problem, W: np.ndarray) -> GradientSums:
        """Losses and their gradient at W, (p, K), in one pass."""
        ...

    def losses_along(
        self, problem: Problem, W: np.ndarray, step: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """sum_i c_i phi(a_i) at W + t V for the step V, (p, K), and each t of `lengths`,
        (lengths, K), in one pass."""
        ...

    def hessian(self, problem: Problem, W: np.ndarray) -> np.ndarray:
        """(1/N) sum_i c_i phi''(a_i) x_i x_i' of one problem (K = 1), (p, p), for small d."""
        ...

    def rough_hessian(self, problem: Problem, W: np.ndarray) -> np.ndarray | None:
        """The Hessian of one problem (K = 1) from a sample of the rows; None where so few rows
        would not do, or would not save time."""
        ...

    def hessian_times(self, problem: Problem, W: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The Hessian of the mean loss of each problem, times its column of V, (p, K)."""
        ...

    def problems_at_once(self, method: Method | None = None) -> float:
        """How many problems one trainer takes with this method; None is "auto"."""
        ...

    def trainer(self, problem: Problem) -> Trainer:
        """A trainer of up to `problems_at_once` problems."""
        ...

    def newton_trainer(self, problem: Problem, trainer: Trainer) -> Trainer:
        """A trainer of one problem by Newton's method, from the one that `trainer` has made."""
        ...

    def close(self) -> None:
        """Give back threads and memory; any later use is refused."""
        ...

    def __enter__(self) -> Dataset: ...
    def __exit__(self, *_: object) -> None: ...
