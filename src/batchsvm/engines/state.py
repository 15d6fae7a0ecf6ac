"""Where a method stands on one problem whose rows are on this host.

Dual methods keep w = w(alpha).  Pegasos keeps v with w = scale v (`methods/pegasos.py`).  Both
keep alpha / c, or what it is made of, in the records of the bound problem, next to each row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchsvm.core.layout import Schedule
from batchsvm.engines.averaging import Averaging, LastIterate, RecentMean, make_averaging
from batchsvm.engines.host_problem import HostProblem
from batchsvm.engines.screening import Screening, make_screening
from batchsvm.methods import Blocks, DualMethod, Gram


@dataclass
class DualState:
    """A dual method; alpha / c is in `bound.examples`."""

    bound: HostProblem
    w: np.ndarray
    averaging: Averaging | LastIterate | RecentMean
    screening: Screening
    batch_size: int
    beta_b: float
    beta: float
    least_norm2: float  # 1 makes the step the literal one: no row counts as shorter
    workers: int = 1
    iteration: int = 0
    refused: int = 0

    # If Ctrl-C ends a kernel before its iterations are counted, w and alpha belong together.
    survives_exceptions = True

    def alpha_of(self, start: int, stop: int) -> np.ndarray:
        """A block of the dual point, or of its average where one is kept; may be a view."""
        alpha = self.bound.examples["alpha"][start:stop]
        if isinstance(self.averaging, Averaging) and self.averaging.has_mean:
            loss = self.bound.loss
            alpha = np.clip(self.averaging.mean(alpha, start, stop), loss.lower, loss.upper)
        return alpha * self.bound.weights(start, stop) if self.bound.weighted else alpha

    @property
    def iterate(self) -> np.ndarray:
        """The last iterate."""
        return self.w

    def primal_point(self) -> np.ndarray:
        """The w that goes with `alpha_of`."""
        return self.bound.w_of_alpha(self.alpha_of) if self.averaging.has_mean else self.w


def start_dual(
    bound: HostProblem,
    schedule: Schedule,
    alpha: np.ndarray | None,
    w: np.ndarray | None = None,
) -> DualState:
    """The state before the first iteration, at alpha or at zero, and at w(alpha), or at this w,
    which then changes with the steps."""
    method = schedule.method
    assert isinstance(method, DualMethod)
    if alpha is not None:
        bound.set_alpha(alpha)
    if w is None:
        w = np.zeros(bound.d)
        if alpha is not None:
            w = bound.w_of_alpha(lambda start, stop: alpha[start:stop])
    averages = schedule.averaging is not None
    skips = method.may_skip(schedule.batch_size, averages) and getattr(bound.loss, "corners", True)
    at_zero = float(bound.facts.losses_at_zero[0]) / bound.total_weight
    return DualState(
        bound,
        w,
        RecentMean(np.zeros(bound.d), np.zeros(2))
        if schedule.recent_mean and not averages
        else make_averaging(schedule.averaging, bound.n, scale=1.0),
        make_screening(
            bound.n, skips, bound.total_weight * at_zero,
            _sums_apart(schedule),
        ),
        schedule.batch_size,
        schedule.beta_b,
        method.first_beta(schedule.beta_b, schedule.batches),
        least_norm2=1.0 if method.step == "literal" else 0.0,
        workers=schedule.workers,
    )  # fmt: skip


def _sums_apart(schedule: Schedule) -> int:
    """How many sums screening keeps apart, such that their total does not depend on the workers
    where the method does not."""
    if isinstance(schedule.method, Blocks):
        return schedule.method.blocks
    return schedule.batches if isinstance(schedule.method, Gram) else schedule.workers


@dataclass
class PegasosState:
    """Pegasos; g is the `alpha` column of `bound.examples`."""

    bound: HostProblem
    v: np.ndarray
    counts: np.ndarray  # sum of the chi_i in a projected run, else empty
    averaging: Averaging | LastIterate
    batch_size: int
    shrink: float = 1.0
    iteration: int = 0
    beta: float = np.nan
    refused: int = 0
    workers: int = 1

    survives_exceptions = False  # w depends on the number of iterations

    @property
    def scale(self) -> float:
        """w = scale v."""
        return self.shrink / (self.bound.lam * max(self.iteration, 1))

    @property
    def iterate(self) -> np.ndarray:
        """The last iterate."""
        return self.scale * self.v

    def _relative_alpha(self, start: int, stop: int) -> np.ndarray:
        """alpha / c, before it is put into the box."""
        bound = self.bound
        unit = bound.n / self.batch_size
        if self.counts.size:
            return self.counts[start:stop] * (unit / max(self.iteration, 1))
        g = bound.examples["alpha"][start:stop]
        scaled = self.scale * g
        if isinstance(self.averaging, Averaging) and self.averaging.has_mean:
            scaled = self.averaging.mean(g, start, stop)
        return scaled * (bound.lam * unit)

    def alpha_of(self, start: int, stop: int) -> np.ndarray:
        """A block of the dual point, inside the box."""
        loss = self.bound.loss
        relative = np.clip(self._relative_alpha(start, stop), loss.lower, loss.upper)
        return relative * self.bound.weights(start, stop) if self.bound.weighted else relative

    def primal_point(self) -> np.ndarray:
        """w, or the average of the w's where one is kept."""
        if not (isinstance(self.averaging, Averaging) and self.averaging.has_mean):
            return self.iterate
        if self.counts.size:
            return self.averaging.primal_mean()
        weights = self.bound.weights
        return self.bound.w_of_alpha(
            lambda start, stop: self._relative_alpha(start, stop) * weights(start, stop)
        )


def start_pegasos(bound: HostProblem, schedule: Schedule, alpha: np.ndarray | None) -> PegasosState:
    """The state before the first iteration.

    From a given alpha, training goes on as if one epoch had led to w(alpha).
    """
    v, batch_size = np.zeros(bound.d), schedule.batch_size
    iteration = 0
    scale = 1.0 / bound.lam
    if alpha is not None:
        iteration = -(-bound.n // batch_size)
        scale /= iteration
        bound.set_alpha(alpha)
        bound.examples["alpha"] *= batch_size * iteration / bound.n
        v = bound.confine(bound.w_of_alpha(lambda start, stop: alpha[start:stop])) / scale
    projects = np.isfinite(bound.radius)
    counts = bound.examples["alpha"].copy() if projects else np.zeros(0)
    first = scale * v if projects else None
    averages = make_averaging(schedule.averaging, bound.n, scale, first)
    return PegasosState(
        bound, v, counts, averages, batch_size, iteration=iteration,
        workers=1 if projects else schedule.workers,
    )  # fmt: skip


State = DualState | PegasosState
