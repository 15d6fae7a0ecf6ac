"""Serial steps on one part of the rows, while all other parts stand still.

With N the weight of all rows and N_p that of the part, the steps of a dual method on the whole
that visit rows of the part alone are the steps of an ordinary problem over the part, started at
the w of the whole: its lam' has lam' N_p = lam N, so that a change of alpha_i moves w by
s_i x_i / (lam N) times it, and the curvature of a step is that of the whole.  One part after
another, this is exact block coordinate ascent: D does not fall.

Parts that are trained at the same time would step on each other's toes.  With beta >= 1 they take
lam' N_p = lam N / beta: each sees what it does to w beta times, and the change of w is divided by
beta before those of all parts are added up.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.dual import HostDual
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem
from batchsvm.engines.cpu.dataset import CpuDataset
from batchsvm.engines.host_problem import HostProblem
from batchsvm.engines.screening import Screening
from batchsvm.engines.state import DualState
from batchsvm.engines.trainer import note_full_pass
from batchsvm.methods import Asynchronous, Gram, Newton, Pegasos


def part_problem(
    problem: Problem, total_weight: float, part_weight: float, beta: float = 1.0
) -> Problem:
    """One problem of the whole, as one over a part whose rows weigh something; its targets are
    those of the part already."""
    return replace(problem, lam=problem.lam * (total_weight / (beta * part_weight)), radius=inf)


def part_schedule(schedule: Schedule, rows: int, seed: int) -> Schedule:
    """The schedule on a part of so many rows."""
    size = min(schedule.batch_size, rows)
    batches = min(schedule.batches, -(-rows // size))
    return replace(
        schedule, batch_size=size, batches=batches, recent_mean=False, averaging=None, seed=seed
    )


def refuse_schedule(schedule: Schedule, engine: str, visits: str) -> None:
    """Refuse what training on parts does not offer; `visits` says why rows come in one order."""
    method = schedule.method
    if isinstance(method, Pegasos | Asynchronous):
        raise ValueError(
            f'method must be a dual one, such as "aggressive" or "safe", on the {engine} engine,'
            f' not "{method.name}"'
        )
    assert not isinstance(method, Newton)  # which has a trainer of its own
    if method.sampling != "permutation":
        raise ValueError(
            f'sampling must be "permutation" on the {engine} engine, where {visits} once per epoch,'
            f' not "{method.sampling}"'
        )
    if schedule.averaging is not None:
        raise ValueError(
            f"averaging must be None on the {engine} engine, which keeps no averages, not"
            f' "{schedule.averaging}"'
        )


def iterations_per_visit(schedule: Schedule, rows: int) -> int:
    """How many iterations visit each row of a part once."""
    size = min(schedule.batch_size, rows)
    per_iteration = size * schedule.batches if isinstance(schedule.method, Gram) else size
    return -(-rows // per_iteration)


class PartSteps:
    """One problem in training on one part."""

    def __init__(self, part: CpuDataset, problem: Problem) -> None:
        """The problem is one of `part_problem`."""
        self._trainer, self._refused = part.trainer(problem), 0

    def start(self, schedule: Schedule, alpha: np.ndarray, w: np.ndarray) -> None:
        """At alpha of the part, (n,), and at the w of the whole, a contiguous vector that is
        changed in place: a copy of many columns takes longer than steps on few rows."""
        self._trainer.start(schedule, HostDual(alpha[:, np.newaxis]), w)

    def set_beta(self, beta: float) -> None:
        """How often the part is to see what it does to w, from now on; the problem is one of
        beta = 1."""
        stepper, bound = self._trainer.stepper, self._trainer.bound
        unit = beta / (bound.lam * bound.total_weight)
        stepper.dual = stepper.dual._replace(unit=unit)  # type: ignore[attr-defined]

    def run(self, until: int, stop: StopFlag, target: float = -inf) -> tuple[int, float]:
        """Train on, up to so many iterations since the start; where it pauses, and the gap of the
        part, in the units of the part, that an epoch has shown."""
        progress = self._trainer.run(until, np.array([target]), stop)
        return int(progress.iterations[0]), float(progress.estimates[0])

    @property
    def alpha(self) -> np.ndarray:
        return self._trainer.state.alpha_of(0, self._trainer.bound.n)

    @property
    def beta(self) -> float:
        return float(self._trainer.beta[0])

    def newly_refused(self) -> int:
        """Steps that were refused since this was asked last."""
        before, self._refused = self._refused, int(self._trainer.refused[0])
        return self._refused - before

    @property
    def bound(self) -> HostProblem:
        return self._trainer.bound

    @property
    def gap(self) -> float:
        """N times the gap that the last epoch or full pass over the part has shown, infinity if
        there was none since `forget_gap`."""
        return self._screening.estimate

    def forget_gap(self) -> None:
        self._screening.note_estimate(inf)

    @property
    def screens(self) -> bool:
        return self._trainer.screens

    def full_pass(self, w: np.ndarray, screen: bool) -> Sums:
        """The sums at (w, alpha); with `screen` it also decides which rows are visited.  The part
        knows its terms of the gap, and not the gap that they are a part of."""
        bound, alpha_of = self._trainer.bound, self._trainer.state.alpha_of
        if not (screen and self.screens):
            return bound.sums(w, alpha_of)
        gaps = []

        def look(start: int, responses: np.ndarray) -> None:
            rows = bound.examples[start : start + responses.size]
            alpha, loss = rows["alpha"], bound.loss
            terms = loss.value(responses) + loss.conjugate(alpha) + alpha * responses
            gaps.append(float(np.abs(rows["signed_weight"]) @ terms))
            self._trainer.stepper.screen(start, responses)

        found = bound.sums(w, alpha_of, look)
        note_full_pass(self._screening, self._trainer.visits, sum(gaps))
        self._screening.note_estimate(sum(gaps))
        return found

    @property
    def _screening(self) -> Screening:
        state = self._trainer.state
        assert isinstance(state, DualState)
        return state.screening
