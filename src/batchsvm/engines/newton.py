"""Training one problem by Newton's method, with passes that every data set offers
(`methods/newton.py`)."""

from __future__ import annotations

from math import inf, isfinite, isnan
from typing import NamedTuple

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem
from batchsvm.core.vectors import inner, norm
from batchsvm.engines.newton_equation import conjugate_gradients, solve_positive
from batchsvm.engines.protocol import Dataset, Dual, Progress, Trainer
from batchsvm.methods.newton import (
    FAR,
    LEAST_PART_OF_PROMISE,
    LENGTHS_AT_ONCE,
    MIN_DECREASE,
    MOST_ROUGH_STEPS,
    STEP_LENGTHS,
    Newton,
    is_quadratic,
    residual_goal,
)

ROUNDING = 1e-13  # of P, by which a computed P may be off


class _Point(NamedTuple):
    """A point of the primal."""

    w: np.ndarray
    primal: float
    gradient: np.ndarray

    def plain_gap(self, lam: float) -> float:
        """The gap of alpha_i = -c_i phi'(a_i)."""
        return inner(self.gradient, self.gradient) / (2 * lam)


class NewtonTrainer:
    """A `Trainer` (see `engines/protocol.py`) of one problem, on the data of any engine.

    `engine` is the trainer that the engine has made: it knows the facts of the problem, and keeps
    what the engine has prepared for its passes.
    """

    survives_exceptions = True
    estimates_are_reliable = False  # they are of P, whose gap may be a thousand times as large

    def __init__(self, data: Dataset, problem: Problem, engine: Trainer) -> None:
        self.data, self.problem, self._engine = data, problem, engine
        self.smooth = problem  # what the steps are made on
        self.facts = engine.facts
        self.lam, self.weight = float(problem.lam[0]), float(self.facts.total_weight[0])
        self.beta, self.refused = np.array([np.nan]), np.zeros(1, np.int64)
        self._iterations = 0
        self._first_size = 0.0  # of the gradient where training began
        self._point: _Point | None = None
        self._step: tuple[np.ndarray, np.ndarray] | None = None  # w, and the Newton step from there
        self._certified: tuple[Sums, np.ndarray] | None = None  # of the point and the dual point

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        assert isinstance(schedule.method, Newton)
        p = self.problem.columns(self.data.d)
        most = self.data.tuning.max_hessian_columns
        self._forms_hessian = schedule.method.forms_hessian(p, most)
        self._dual = self.data.dual(self.problem) if dual is None else dual
        self.w = np.zeros(p) if dual is None else self._start_of(dual)
        self._best_w, self._best_dual = self.w, self._dual
        # How many more steps may be made with the Hessian of a sample, and whether the next one is.
        self._rough_steps = MOST_ROUGH_STEPS if dual is None else 0
        self._is_far = not is_quadratic(self.problem.loss)

    def _start_of(self, dual: Dual) -> np.ndarray:
        """The best point on the way from 0 to w(alpha): an alpha of a larger lam leads too far."""
        w = self.data.combination(self.problem, dual) / (self.lam * self.weight)
        lengths = np.array([1.0, *STEP_LENGTHS[:20], 0.0])
        losses = self.data.losses_along(self.problem, np.zeros_like(w), w, lengths)[:, 0]
        primals = losses / self.weight + self.lam / 2 * (lengths * norm(w[:, 0])) ** 2
        return lengths[int(np.argmin(primals))] * w[:, 0]

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        target, estimate = float(targets[0]), inf
        while not isnan(target) and self._iterations < until and not stop.is_set:
            estimate = self._iterate()
            if estimate <= target:
                break
        return Progress(np.array([self._iterations]), np.array([estimate]))

    def _at(self, w: np.ndarray) -> _Point:
        sums = self.data.gradient_sums(self.smooth, w[:, np.newaxis])
        primal = float(sums.losses[0]) / self.weight + self.lam / 2 * inner(w, w)
        return _Point(w, primal, sums.slopes[:, 0] / self.weight + self.lam * w)

    def _iterate(self) -> float:
        """One step; returns an estimate of the gap after it."""
        here = self._point or self._at(self.w)
        self._first_size = self._first_size or norm(here.gradient)
        step, is_rough = self._newton_step(here)
        slope = inner(here.gradient, step)
        there = self._at(here.w + step)
        is_whole = _falls(here, there, slope, inner(there.gradient, step))
        if not is_whole:
            self.refused[0] += 1
            there = self._shortened(here, step)
        self._iterations += 1
        self._point, self.w, self._step = there, there.w, (here.w, step)
        self._certified = None
        # What the quadratic model missed is of the size of the linearised point's gap.
        fall = here.primal - there.primal
        missed = abs(fall + slope / 2) if is_whole else inf
        self._is_far = missed > FAR * there.primal
        if is_rough:
            promise = -slope / 2
            kept = is_whole and fall >= LEAST_PART_OF_PROMISE * promise
            self._rough_steps = self._rough_steps - 1 if kept else 0
            return there.plain_gap(self.lam)
        return min(missed, there.plain_gap(self.lam))

    def _newton_step(self, here: _Point) -> tuple[np.ndarray, bool]:
        """The step, and whether its Hessian is that of a sample."""
        W = here.w[:, np.newaxis]
        if self._forms_hessian:
            hessian = None
            if self._is_far and self._rough_steps > 0:
                hessian = self.data.rough_hessian(self.smooth, W)
            is_rough = hessian is not None
            if hessian is None:
                self._rough_steps = 0
                hessian = self.data.hessian(self.smooth, W)
            hessian[np.diag_indices_from(hessian)] += self.lam
            found = solve_positive(hessian, -here.gradient)
            if found is not None:  # else lam is next to nothing
                return found, is_rough
            self._rough_steps = 0

        def times(v: np.ndarray) -> np.ndarray:
            product = self.data.hessian_times(self.smooth, W, v[:, np.newaxis])
            return self.lam * v + product[:, 0]

        goal = residual_goal(norm(here.gradient), self._first_size)
        return conjugate_gradients(times, -here.gradient, goal), False

    def _shortened(self, here: _Point, step: np.ndarray) -> _Point:
        """The best of some points on the way of the step, or where it began if none is better."""
        W, V = here.w[:, np.newaxis], step[:, np.newaxis]
        cross, size2 = inner(here.w, step), inner(step, step)
        for first in range(0, len(STEP_LENGTHS), LENGTHS_AT_ONCE):
            lengths = np.array(STEP_LENGTHS[first : first + LENGTHS_AT_ONCE])
            losses = self.data.losses_along(self.smooth, W, V, lengths)[:, 0] / self.weight
            squares = inner(here.w, here.w) + lengths * (2 * cross + lengths * size2)
            primals = losses + self.lam / 2 * squares
            best = int(np.argmin(primals))
            if primals[best] < here.primal and best < len(lengths) - 1:
                return self._at(here.w + lengths[best] * step)
        return self._at(here.w + lengths[best] * step) if primals[best] < here.primal else here

    # What a certificate needs.

    @property
    def knows_point(self) -> bool:
        return self._certified is not None

    def point(self) -> np.ndarray:
        return self.w[:, np.newaxis]

    def iterate(self) -> np.ndarray:
        return self.point()

    def recent_mean(self) -> None:
        return None

    def sums(self, W: np.ndarray, screen: bool = False) -> Sums:
        if not np.array_equal(W[:, 0], self.w):
            return self.data.sums(self.problem, W, self._dual)
        return self._certify_sums()[0]

    def combination(self) -> np.ndarray:
        return self._certify_sums()[1]

    def _certify_sums(self) -> tuple[Sums, np.ndarray]:
        """The sums at the point, with the better one of its dual points."""
        if self._certified is None:
            data, problem, W = self.data, self.problem, self.point()
            if self._step is None:
                self._certified = data.point_sums(problem, W, self._dual)
                return self._certified
            assert self._point is not None
            before, step = (vector[:, np.newaxis] for vector in self._step)
            self._dual = data.dual_at(problem, before, step)
            found = data.point_sums(problem, W, self._dual)
            if self._point.plain_gap(self.lam) < self._gap(*found):
                self._dual = data.dual_at(problem, W)
                found = data.point_sums(problem, W, self._dual)
            self._certified = found
        return self._certified

    def _gap(self, sums: Sums, combination: np.ndarray) -> float:
        """The gap at these sums, but for rounding."""
        [gap] = sums.gaps(self.problem.lam)
        norm_w = norm(combination[:, 0]) / (self.lam * self.weight)
        size = float(sums.norms[0])
        gap += self.lam / 2 * (norm_w * norm_w - size * size)  # a power would raise OverflowError
        return gap if isfinite(gap) else inf

    def keep_primal(self, W: np.ndarray, which: np.ndarray) -> None:
        if which[0]:
            self._best_w = W[:, 0].copy()

    def keep_dual(self, which: np.ndarray) -> None:
        if which[0]:
            self._best_dual = self._dual

    def best(self) -> tuple[np.ndarray, Dual]:
        return self._best_w[:, np.newaxis], self._best_dual

    def restart_average(self) -> None:
        """There is no average."""


def _falls(here: _Point, there: _Point, slope: float, slope_there: float) -> bool:
    """Whether P falls by a part of what the slope promises; where rounding hides that, whether the
    slope at the end is small enough to say so."""
    if there.primal <= here.primal + MIN_DECREASE * slope:
        return True
    hidden = there.primal <= here.primal + ROUNDING * here.primal
    return hidden and abs(slope_there) <= (1 - 2 * MIN_DECREASE) * abs(slope)
