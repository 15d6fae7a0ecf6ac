"""Training one problem whose loss has kinks by the proximal point method, the steps of which are
Newton's (`methods/newton.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.layout import Schedule
from batchsvm.core.problem import Problem, relative
from batchsvm.engines.base_dataset import targets_of
from batchsvm.engines.newton import NewtonTrainer
from batchsvm.engines.protocol import Dual
from batchsvm.losses.smoothing import Smoothed
from batchsvm.methods.newton import (
    LEAST_SMOOTHING,
    MOST_STEPS_PER_CENTRE,
    SMOOTHING_FACTOR,
    WIDENING_FACTOR,
    is_near_enough,
)


class ProximalNewtonTrainer(NewtonTrainer):
    """A `Trainer` (see `engines/protocol.py`) of one problem, on rows of this host."""

    data: Any  # a `HostDataset`, which imports this

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        super().start(schedule, dual)
        self._rough_steps = 0  # each step is certified, and its dual point is that of all rows
        weights = targets_of(self.problem, 0).weights(0, self.data.n)
        self._weights = np.ones(self.data.n) if weights is None else weights
        # The first parabolas are as wide as responses are far from their kinks at w = 0.
        # Where the dual point given is near the optimum, so is the end of the first problem,
        # however wide they are.
        self._widest = self._smoothing = float(self.facts.primal_at_zero[0]) or 1.0
        self._put_centre(self._dual)

    def _put_centre(self, dual: Dual) -> None:
        """Smooth the problem around this dual point."""
        loss = self.problem.loss
        self._centre = relative(loss, dual.fetch()[:, 0], self._weights)
        self._steps_here, self._point = 0, None
        self.smooth = self._smoothed()
        self._bound = self.data.bound_anew(self.smooth)  # held, so that passes find it

    def _smoothed(self) -> Problem:
        """The problem whose loss is smoothed around the centre: a shift of the responses."""
        problem, data = self.problem, self.data
        targets = targets_of(problem, 0)
        values, weights = targets.values(0, data.n), targets.weights(0, data.n)
        shift = -targets.signs(problem.loss, 0, data.n) * (self._smoothing * self._centre)
        offsets = targets.offsets(0, data.n)
        shift = shift if offsets is None else shift + offsets
        return replace(
            problem,
            loss=Smoothed(problem.loss, self._smoothing),
            targets=data.targets(values, weights, shift),
        )

    def _iterate(self) -> float:
        """One Newton step on the smoothed problem; returns the gap of the problem itself."""
        before = self.w
        super()._iterate()
        self._steps_here += 1
        gap = self._gap(*self._certify_sums())
        found = relative(self.problem.loss, self._dual.fetch()[:, 0], self._weights)
        moved2 = float(self._weights @ (found - self._centre) ** 2) / self.weight
        assert self._point is not None
        left = self._point.plain_gap(self.lam)
        if np.array_equal(self.w, before):  # the parabolas are too narrow for any step
            self._smoothing = min(self._smoothing * WIDENING_FACTOR, self._widest)
            self._put_centre(self._best_dual)
        elif is_near_enough(left, self._smoothing * moved2 / 2):
            self._smoothing = max(
                self._smoothing * SMOOTHING_FACTOR, LEAST_SMOOTHING * self._widest
            )
            self._put_centre(self._dual)
        elif self._steps_here >= MOST_STEPS_PER_CENTRE:
            self._put_centre(self._dual)
        return gap

    def _certify_sums(self) -> tuple[Sums, np.ndarray]:
        """The sums at the point, with the dual point that belongs to it in the smoothed problem."""
        if self._certified is None:
            W = self.point()
            if self._step is not None:
                self._dual = self.data.dual_at(self.smooth, W)
            self._certified = self.data.point_sums(self.problem, W, self._dual)
        return self._certified
