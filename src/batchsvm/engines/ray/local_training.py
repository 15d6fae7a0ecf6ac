"""The training of K problems on the part of one worker, at the same time as on all other parts.

A round starts at the w of the whole.  The worker takes steps on rows of its own for a while and
sees what they do to w beta times (`engines/part_steps.py`).  What it changes is kept back until
the driver says which part theta of the way alpha goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import NamedTuple

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.dual import HostDual, dual_of
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem, join_facts
from batchsvm.engines.cpu.dataset import CpuDataset
from batchsvm.engines.part_steps import PartSteps, part_problem, part_schedule
from batchsvm.engines.targets import HostTargets


@dataclass(frozen=True)
class Task:
    """What a worker is to train."""

    problem: Problem
    schedule: Schedule
    total_weights: np.ndarray  # (K,): N of the whole
    alpha: np.ndarray | None  # (n, K), of the part
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Order:
    """The work of one round."""

    number: int
    going: tuple[int, ...]  # the problems in training
    iterations: int
    betas: tuple[float, ...]  # of each of these problems
    targets: tuple[float, ...]


class Report(NamedTuple):
    """What a worker says of a round; the lines of `numbers` are those below."""

    numbers: np.ndarray  # (7, problems in training)
    seconds: float


# What the conjugates and the offsets of all rows gain together, ||Delta||^2, and what curves the
# conjugates; N times the gap of the last epoch; whether an epoch has ended; beta of the steps
# within the part; and steps that were refused.
GAIN, SQUARE, CURVED, GAP, ENDED, BETA, REFUSED = range(7)


class _Pending(NamedTuple):
    """A round whose theta is not known yet."""

    number: int
    before: dict[int, np.ndarray]  # alpha / c of each problem that was trained


class LocalTraining:
    """One part of a training."""

    def __init__(self, data: CpuDataset, task: Task) -> None:
        self._data, self._problem = data, task.problem
        self._steps: dict[int, PartSteps] = {}
        self._w: dict[int, np.ndarray] = {}
        self._done: dict[int, int] = {}
        self._pending: _Pending | None = None
        for k in range(task.problem.k):
            own = task.problem.only(k)
            assert isinstance(own.targets, HostTargets)
            weight = own.targets.total_weight
            if weight > 0.0:
                self._start(k, own, weight, task)

    def _start(self, k: int, own: Problem, weight: float, task: Task) -> None:
        data, schedule = self._data, task.schedule
        seeds = np.random.SeedSequence([(schedule.seed + k) % 2**64, *task.seed])
        seed = int(seeds.generate_state(1, np.uint64)[0])
        alpha = np.zeros(data.n) if task.alpha is None else task.alpha[:, k]
        self._w[k], self._done[k] = np.zeros(own.columns(data.d)), 0
        steps = PartSteps(data, part_problem(own, float(task.total_weights[k]), weight))
        steps.start(part_schedule(schedule, data.n, seed), alpha, self._w[k])
        self._steps[k] = steps

    # Rounds.

    def work(self, order: Order, W: np.ndarray, stop: StopFlag) -> tuple[np.ndarray, Report]:
        """Train from W, (p, problems in training); the change of W by each of them."""
        began = perf_counter()
        self._pending = _Pending(order.number, {})
        deltas = np.zeros(W.shape, order="F")
        numbers = np.zeros((7, len(order.going)))
        for j, k in enumerate(order.going):
            if k in self._steps:
                self._work_on(j, k, order, W[:, j], stop)
                self._finish(j, k, order, W[:, j], deltas[:, j], numbers[:, j])
            else:
                numbers[ENDED, j] = True  # rows that weigh nothing have no gap
        return deltas, Report(numbers, perf_counter() - began)

    def _work_on(self, j: int, k: int, order: Order, w: np.ndarray, stop: StopFlag) -> None:
        steps = self._steps[k]
        assert self._pending is not None
        self._pending.before[k] = steps.bound.examples["alpha"].copy()
        self._w[k][:] = w
        steps.set_beta(order.betas[j])
        steps.forget_gap()
        until = self._done[k] + order.iterations
        while self._done[k] < until and not stop.is_set:
            self._done[k], shown = steps.run(until, stop, order.targets[j])
            if shown < inf and steps.screens:  # which rows are visited is decided anew
                steps.full_pass(self._w[k], screen=True)

    def _finish(
        self, j: int, k: int, order: Order, w: np.ndarray, delta: np.ndarray, numbers: np.ndarray
    ) -> None:
        steps, bound = self._steps[k], self._steps[k].bound
        assert self._pending is not None
        before, rows, loss = self._pending.before[k], bound.examples, bound.loss
        np.subtract(self._w[k], w, out=delta)
        delta /= order.betas[j]
        moved = np.flatnonzero(rows["alpha"] != before)
        old, new, some = before[moved], rows["alpha"][moved], rows[moved]
        weights, change = np.abs(some["signed_weight"]), new - old
        gain = loss.conjugate(old) - loss.conjugate(new) + change * some["offset"]
        curvature = float(getattr(loss, "conjugate_curvature", 0.0))
        numbers[GAIN] = weights @ gain
        numbers[SQUARE] = delta @ delta
        numbers[CURVED] = curvature * (weights @ (change * change))
        numbers[ENDED] = steps.gap < inf
        numbers[GAP] = steps.gap if steps.gap < inf else 0.0
        numbers[BETA], numbers[REFUSED] = steps.beta, steps.newly_refused()

    def settle(self, number: int, thetas: dict[int, float]) -> None:
        """Let alpha go the part theta of the way that this round has shown; 0 takes it back."""
        pending, self._pending = self._pending, None
        if pending is None or pending.number != number:
            return
        for k, old in pending.before.items():
            theta, bound = thetas.get(k, 0.0), self._steps[k].bound
            if theta == 0.0:
                bound.examples["alpha"] = old
            elif theta < 1.0:
                alpha, loss = bound.examples["alpha"], bound.loss
                # Rounding must not lead out of the box.
                alpha[:] = np.clip(old + theta * (alpha - old), loss.lower, loss.upper)

    # Where it stands.

    def alphas(self) -> np.ndarray:
        """alpha of the part, (n, K)."""
        found = np.zeros((self._data.n, self._problem.k), order="F")
        for k, steps in self._steps.items():
            found[:, k] = steps.alpha
        return found

    def sums(self, W: np.ndarray, screen: bool) -> Sums:
        """The sums over the part at (W, alpha)."""
        found = []
        for k in range(self._problem.k):
            w, steps = np.ascontiguousarray(W[:, k]), self._steps.get(k)
            if steps is not None and self._problem.radius == inf:
                found.append(steps.full_pass(w, screen))
                continue
            # Steps know of no radius, and rows that weigh nothing have none.
            if steps is not None and screen and steps.screens:
                steps.full_pass(w, screen)
            alpha = np.zeros(self._data.n) if steps is None else steps.alpha
            found.append(self._data.sums(self._problem.only(k), W[:, [k]], dual_of(alpha)))
        return Sums(
            np.concatenate([sums.values for sums in found], axis=1),
            np.concatenate([sums.norms for sums in found]),
            join_facts([sums.facts for sums in found]),
        )

    def combination(self) -> np.ndarray:
        """sum_i alpha_i s_i x_i of the part, (p, K)."""
        return self._data.combination(self._problem, HostDual(self.alphas()))
