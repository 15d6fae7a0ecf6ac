"""Training one problem on rows that are on this host."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan
from typing import Any, Protocol

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.dual import HostDual
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.tuning import Tuning
from batchsvm.engines.averaging import Averaging
from batchsvm.engines.batch_order import BatchOrder
from batchsvm.engines.host_problem import HostProblem
from batchsvm.engines.protocol import Dual, Progress
from batchsvm.engines.sampling import BlockSampler, Sampler, make_block_sampler, make_sampler
from batchsvm.engines.screening import Screening
from batchsvm.engines.state import DualState, State, start_dual, start_pegasos
from batchsvm.engines.visit_order import UNSCREENED, VisitOrder, make_visit_order
from batchsvm.methods import Blocks, Gram, Newton, Pegasos


class Stepper(Protocol):
    """What runs the iterations of one method; each engine has a table of them."""

    max_iterations: int  # of one call of `advance`

    def advance(self, count: int, target: float) -> bool:
        """Up to `count` iterations; whether a full pass is due.  `target` is N times a gap."""
        ...

    def screen(self, start: int, responses: np.ndarray) -> None:
        """Decide which rows from `start` on, whose responses are these, are visited from now on."""
        ...


StepperFor = Callable[[HostProblem, Schedule, State, Any], Stepper]


def make_state(
    bound: HostProblem,
    schedule: Schedule,
    alpha: np.ndarray | None,
    w: np.ndarray | None = None,
) -> State:
    if isinstance(schedule.method, Pegasos):
        return start_pegasos(bound, schedule, alpha)
    return start_dual(bound, schedule, alpha, w)


def sampler_for(
    n: int, schedule: Schedule, bytes_per_row: float, tuning: Tuning
) -> Sampler | BlockSampler | BatchOrder:
    """The stream of batches of a method."""
    method, b, seed = schedule.method, schedule.batch_size, schedule.seed
    if isinstance(method, Blocks):
        visits = make_visit_order(n, method.blocks, seed, bytes_per_row, tuning)
        return make_block_sampler(visits, b)
    if isinstance(method, Gram):
        return BatchOrder(n, b, schedule.batches, seed)
    assert not isinstance(method, Newton)  # which has a trainer of its own
    visits = UNSCREENED
    if not isinstance(method, Pegasos) and method.may_skip(b, schedule.averaging is not None):
        visits = make_visit_order(n, 1, seed, bytes_per_row, tuning, min_rows=b)
    return make_sampler(method.sampling, n, b, seed, visits)


def note_full_pass(screening: Screening, visits: VisitOrder, gap: float) -> None:
    """A full pass has found this gap, N times, and has said of every row whether to visit it."""
    screening.note_full_pass(gap)
    visits.renew()


class HostTrainer:
    """A `Trainer` of one problem."""

    knows_point = False

    def __init__(
        self,
        bound: HostProblem,
        stepper_for: StepperFor,
        bytes_per_row: float,
        tuning: Tuning,
    ) -> None:
        self.bound, self.facts = bound, bound.facts
        self._stepper_for, self._bytes_per_row, self._tuning = stepper_for, bytes_per_row, tuning

    def start(
        self, schedule: Schedule, dual: Dual | None = None, w: np.ndarray | None = None
    ) -> None:
        """As the protocol says; with `w`, steps of a dual method start there instead of at
        w(alpha), and change it: these rows are a part of more (`engines/part_steps.py`)."""
        alpha = None if dual is None else dual.fetch()[:, 0]
        self.state = make_state(self.bound, schedule, alpha, w)
        sampler = sampler_for(self.bound.n, schedule, self._bytes_per_row, self._tuning)
        self.visits = sampler.visits
        self.stepper = self._stepper_for(self.bound, schedule, self.state, sampler)
        self._first = self.state.iteration
        self._best_w, self._best_alpha = np.zeros(self.bound.d), np.zeros(self.bound.n)
        self.survives_exceptions = self.state.survives_exceptions
        # The first pass of a screened method brings rows back that the estimate knows nothing of.
        self._visits_all_rows = getattr(schedule.method, "sampling", "") == "permutation"
        self._has_passed = not self.screens
        self._expects_certificate = False
        self._combination: np.ndarray | None = None  # of the point now, if a pass has made it
        self.stepper.advance(0, -inf)

    @property
    def beta(self) -> np.ndarray:
        return np.array([self.state.beta])

    @property
    def refused(self) -> np.ndarray:
        return np.array([self.state.refused])

    @property
    def screens(self) -> bool:
        return isinstance(self.state, DualState) and self.state.screening.skips

    @property
    def estimates_are_reliable(self) -> bool:
        state = self.state
        if not isinstance(state, DualState) or isinstance(state.averaging, Averaging):
            return False
        return self._visits_all_rows and not state.screening.skips

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        state, target, weight = self.state, float(targets[0]), self.bound.total_weight
        end, estimate = self._first + until, inf
        self._combination = None
        while not isnan(target) and state.iteration < end and not stop.is_set:
            count = min(end - state.iteration, self.stepper.max_iterations)
            if self.stepper.advance(count, target * weight):  # kernels do not divide by N
                assert isinstance(state, DualState)
                estimate = state.screening.estimate / weight
                break
        self._expects_certificate = self._has_passed and estimate <= target
        return Progress(np.array([state.iteration - self._first]), np.array([estimate]))

    def estimates(self) -> np.ndarray:
        """A row for each epoch that was noted: epochs so far, and the gap that it showed.  It is
        beside the protocol: an engine need not have it."""
        state = self.state
        if not isinstance(state, DualState):
            return np.zeros((0, 2))
        return state.screening.estimates / [self.facts.rows, self.bound.total_weight]

    def point(self) -> np.ndarray:
        return self.state.primal_point()[:, np.newaxis]

    def iterate(self) -> np.ndarray:
        return self.state.iterate[:, np.newaxis]

    def recent_mean(self) -> np.ndarray | None:
        recent = self.state.averaging.recent
        return None if recent is None else recent[:, np.newaxis]

    def sums(self, W: np.ndarray, screen: bool = False) -> Sums:
        alpha_of = self.state.alpha_of
        if not screen:
            return self.bound.sums(W[:, 0], alpha_of)
        self._has_passed = True
        show = self.stepper.screen if self.screens else None
        if self._expects_certificate:
            found, self._combination = self.bound.point_sums(W[:, 0], alpha_of, show)
        else:
            found = self.bound.sums(W[:, 0], alpha_of, show)
        if not self.screens:
            return found
        [gap] = found.gaps(self.bound.problem.lam)
        assert isinstance(self.state, DualState)
        note_full_pass(self.state.screening, self.visits, gap * self.bound.total_weight)
        return found

    def combination(self) -> np.ndarray:
        found = self._combination
        if found is None:
            found = self.bound.combination(self.state.alpha_of)
        return found[:, np.newaxis]

    def keep_primal(self, W: np.ndarray, which: np.ndarray) -> None:
        if which[0]:
            self._best_w[:] = W[:, 0]

    def keep_dual(self, which: np.ndarray) -> None:
        def keep(start: int, stop: int) -> None:
            self._best_alpha[start:stop] = self.state.alpha_of(start, stop)

        if which[0]:
            self.bound.over_blocks(keep)

    def best(self) -> tuple[np.ndarray, HostDual]:
        return self._best_w[:, np.newaxis], HostDual(self._best_alpha[:, np.newaxis])

    def restart_average(self) -> None:
        self.state.averaging.restart()
