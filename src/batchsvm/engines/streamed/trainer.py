"""Training on parts that are read one after another.

A pass reads the parts in a fresh random order.  Steps on a part are steps on the whole while all
other parts stand still (`engines/part_steps.py`), so that D does not fall.  Then rows that stayed
in memory are visited (`resident.py`).

A certificate costs no read of its own: before the steps on a part, its sums at the point that
the pass began with are taken, so that after the pass these are known for all rows.  That point is
alpha at the beginning of the pass, and as w the mean over the second half of the pass before, which
is nearly always better than the last w, since that has just been fitted to the last part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batchsvm.core.certificate import DUALS, Sums
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem
from batchsvm.core.saving import Note, Resumed, Saving
from batchsvm.core.vectors import column_norms
from batchsvm.engines.part_handles import PartsDual, duals_of, parts_of, size_of
from batchsvm.engines.part_steps import (
    PartSteps,
    iterations_per_visit,
    part_problem,
    part_schedule,
    refuse_schedule,
)
from batchsvm.engines.parts import PairwiseSum, add_point_sums, total_facts
from batchsvm.engines.protocol import Dual, Progress
from batchsvm.engines.streamed import checkpoint
from batchsvm.engines.streamed.alphas import Alphas
from batchsvm.engines.streamed.checkpoint_file import CheckpointFileError
from batchsvm.engines.streamed.resident import VISITS_PER_ROW, Bin, Resident, free_rows
from batchsvm.engines.targets import HostTargets
from batchsvm.methods import DualMethod

if TYPE_CHECKING:
    from batchsvm.engines.cpu.dataset import CpuDataset
    from batchsvm.engines.streamed.dataset import StreamedDataset, StreamedPart


class Known(NamedTuple):
    """A point whose sums and combination are known."""

    W: np.ndarray
    sums: Sums
    combination: np.ndarray


class StreamedTrainer:
    """A `Trainer` (see `engines/protocol.py`) of any number of problems, all on the same part at
    the same time; an epoch is one read of all parts."""

    # After an exception w is where the steps were and alpha where they were stored last, which is
    # no less of a certificate.
    survives_exceptions = True
    estimates_are_reliable = False  # rows that stay in memory are visited more often
    on_pass: Callable[[], None] | None = None
    unsaved = False

    def __init__(self, data: StreamedDataset, problem: Problem) -> None:
        self.data, self.problem = data, problem
        facts = data.part_facts(problem)
        self._weights = np.array([own.total_weight for own in facts])  # (parts, K)
        self.facts = total_facts(facts)

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        refuse_schedule(schedule, "streamed", "each part is read")
        data, problem = self.data, self.problem
        self._schedule, k, p = schedule, problem.k, problem.columns(data.d)
        spending = data.spending(problem)
        folder = None if spending.alphas else data.scratch
        self._now, self._begin, self._best = (Alphas(data.cut, k, folder) for _ in range(3))
        self._W = np.zeros((p, k), order="F")
        self._best_w = np.zeros((p, k), order="F")
        self._mean = self._W.copy(order="F")
        self._combination: np.ndarray | None = np.zeros((p, k))
        if dual is not None:
            for j, own in enumerate(duals_of(dual)):
                self._now.of_part(j)[:] = own.fetch()
            self._combination = data.combination(problem, self._now.dual())
            self._W[:] = self._combination / (problem.lam * self.facts.total_weight)
        self._is_zero = dual is None and not problem.has_offset
        method = schedule.method
        assert isinstance(method, DualMethod)
        screens = method.may_skip(schedule.batch_size, averages=False)
        entries = data.packed.loaded_bytes(0) / data.packed.parts[0].rows
        room = spending.resident if screens else 0
        self._resident = Resident(room, len(self._weights), entries)
        self.beta = np.full(k, method.first_beta(schedule.beta_b, schedule.batches))
        self.refused = np.zeros(k, np.int64)
        self._iteration, self._iterations, self._pass = 0, np.zeros(k, np.int64), 0
        self._visits: Iterator[StreamedPart] | None = None
        self._part: StreamedPart | None = None
        self._at = self._length = 0  # iterations on the part
        self._steps: dict[int, PartSteps] = {}
        self._known: Known | None = None

    # Checkpoints.

    def save(self, saving: Saving, note: Note) -> None:
        checkpoint.save(saving, self._about(), self._state(), note)
        self.unsaved = False

    def resume(self, schedule: Schedule, saving: Saving) -> Resumed:
        self.start(schedule)
        saved, state = saving.saved, self._state()
        found = checkpoint.resume(saved, self._about(), self.data, self.problem, state)
        saved.close()  # some systems do not replace a file that is open
        self._pass, self._iteration = found.counts["passes"], found.counts["iterations"]
        rows = map(size_of, self.data.cut.places)
        length = sum(iterations_per_visit(schedule, own) for own in rows)
        if self._pass < 1 or self._iteration != self._pass * length:
            raise CheckpointFileError(saved.path, "its iterations are not those of whole passes")
        self._combination = None
        return Resumed(found.note, found.sums, found.combination)

    def _about(self) -> dict[str, Any]:
        return checkpoint.description(self.data, self.problem, self._schedule)

    def _state(self) -> checkpoint.State:
        vectors = {"w": self._W.T, "mean": self._mean.T, "best_w": self._best_w.T}
        numbers = {"beta": self.beta, "refused": self.refused}
        counts = {"passes": self._pass, "iterations": self._iteration}
        return checkpoint.State(self._now, self._best, vectors, numbers, counts, self._resident)

    # Training.

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        going = np.flatnonzero(~np.isnan(targets))
        self._iterations[going] = self._iteration  # of one that goes on after it was done, too
        self._known = None
        estimates = np.full(self.problem.k, inf)
        if self._iteration < until and going.size and not stop.is_set:
            self._combination = None
        while self._iteration < until and going.size and not stop.is_set:
            if self._visits is None:
                self._begin_pass(going, wants_sums=bool((targets[going] > -inf).any()))
            if not self._work(until, going, stop):
                continue
            self._known = self._end_pass()
            if self._known is not None and self._iteration < until:
                estimates[going] = self._gaps(self._known)[going]
                break
            self._known = None
        return Progress(self._iterations.copy(), estimates)

    @property
    def knows_point(self) -> bool:
        return self._known is not None

    def _begin_pass(self, going: np.ndarray, wants_sums: bool) -> None:
        if self.on_pass is not None:  # what the pass before has shown is noted by now
            self.on_pass()
        self.unsaved = False
        self._pass += 1
        self._rng = np.random.default_rng((self._schedule.seed, self._pass))
        self._visits = self.data.visit(self._rng.permutation(len(self._weights)).tolist())
        self._part = None
        self._left = len(self._weights)
        self._seen: PairwiseSum | None = None
        # What is known of (0, 0) without a pass is not asked for.
        if wants_sums and not (self._is_zero and self._iteration == 0):
            self._seen = PairwiseSum(add_point_sums)
            self._begin.set_to(self._now)
        self._going = going
        self._point = self._mean.copy(order="F") if self._pass > 1 else self._W.copy(order="F")
        self._halves = 0.0

    def _work(self, until: int, going: np.ndarray, stop: StopFlag) -> bool:
        """Steps on the part at hand; whether that was the end of a pass."""
        if self._part is None:
            self._next_part()
        part, at = self._part, self._at
        assert part is not None
        end = min(self._length, at + until - self._iteration)
        for k in going.tolist():
            self._steps_on(part, k, end, stop)
        if stop.is_set:
            self._store(part)
            return False
        self._at = end
        self._iteration += end - at
        self._iterations[going] = self._iteration
        self._store(part)
        if end < self._length:
            return False
        self._steps.clear()
        self._revisit(part, going, stop)
        self._part = None
        self._left -= 1
        self._add_to_mean(part.data.n)
        if self._left:
            return False
        next(self._visits, None)  # type: ignore[arg-type]
        self._visits, self.unsaved = None, True
        return True

    def _next_part(self) -> None:
        assert self._visits is not None
        try:
            part = next(self._visits)
        except BaseException:
            self._visits = None  # a read that failed cannot go on
            raise
        problem = part.own(
            replace(self.problem, targets=parts_of(self.problem.targets)[part.number])
        )
        if self._seen is not None:
            self._seen.add(self._sums_of(part, problem))
        self._part, self._own, self._at = part, problem, 0
        self._length = iterations_per_visit(self._schedule, part.data.n)

    def _steps_on(self, part: StreamedPart, k: int, end: int, stop: StopFlag) -> None:
        if self._weights[part.number, k] == 0.0:
            return
        if k not in self._steps:
            alpha = self._now.of_part(part.number)[:, k]
            self._steps[k] = self._started(part.data, self._own.only(k), alpha, k, part.number)
        _train(self._steps[k], end, stop)

    def _started(
        self, data: CpuDataset, problem: Problem, alpha: np.ndarray, k: int, salt: int
    ) -> PartSteps:
        targets, total = problem.targets, float(self.facts.total_weight[k])
        assert isinstance(targets, HostTargets)
        steps = PartSteps(data, part_problem(problem, total, targets.total_weight))
        seeds = np.random.SeedSequence([(self._schedule.seed + k) % 2**64, self._pass, salt])
        seed = int(seeds.generate_state(1, np.uint64)[0])
        rows = alpha.size
        steps.start(part_schedule(self._schedule, rows, seed), alpha, self._W[:, k])
        return steps

    def _store(self, part: StreamedPart) -> None:
        """Bring alpha to where the steps on a part are, as w is already."""
        alpha = self._now.of_part(part.number)
        for k, steps in self._steps.items():
            alpha[:, k] = steps.alpha
            self.beta[k] = steps.beta
            self.refused[k] += steps.newly_refused()

    def _revisit(self, part: StreamedPart, going: np.ndarray, stop: StopFlag) -> None:
        """Visit rows that stayed in memory, and choose those of this part."""
        resident, rng = self._resident, self._rng
        if not resident.quota:
            return
        for own in resident.some(VISITS_PER_ROW * part.data.n, rng):
            for k in going.tolist():
                if not stop.is_set:
                    self._steps_on_bin(own, k, stop)
        rows = free_rows(self._own, self._now.of_part(part.number), resident.quota, rng)
        targets = self._own.targets
        assert isinstance(targets, HostTargets)
        resident.keep(part.number, part.data, targets, rows)

    def _steps_on_bin(self, own: Bin, k: int, stop: StopFlag) -> None:
        problem = replace(self._own, targets=own.targets).only(k)
        targets = problem.targets
        assert isinstance(targets, HostTargets)
        if targets.total_weight == 0.0:
            return
        members, alpha = own.members(), np.empty(own.rows.size)
        for p, at in members:
            alpha[at] = self._now.of_part(p)[own.rows[at], k]
        salt = int(self._rng.integers(2**32))
        with own.placed(self.data.jobs, self.data.tuning) as placed:
            steps = self._started(placed, problem, alpha, k, salt)
            _train(steps, iterations_per_visit(self._schedule, alpha.size), stop)
            alpha = steps.alpha
        for p, at in members:
            self._now.of_part(p)[own.rows[at], k] = alpha[at]

    # Sums without a read.

    def _sums_of(self, part: StreamedPart, problem: Problem) -> tuple[Sums, np.ndarray]:
        """The sums of a part at the point that the pass began with."""
        dual = part.data.dual(problem, self._begin.of_part(part.number), project=False)
        return part.data.point_sums(problem, self._point, dual)

    def _add_to_mean(self, rows: int) -> None:
        """The mean over the second half of a pass."""
        if self._left < len(self._weights) / 2:
            before, self._halves = self._halves, self._halves + rows
            self._mean *= before / self._halves
            self._mean += self._W * (rows / self._halves)

    def _end_pass(self) -> Known | None:
        if self._seen is None:
            return None
        known = Known(self._point, *self._seen.total())
        self._seen = None
        return known

    def _gaps(self, known: Known) -> np.ndarray:
        lam, weight = self.problem.lam, self.facts.total_weight
        duals = known.sums.values[DUALS] / weight
        duals = duals - column_norms(known.combination / weight) ** 2 / (2 * lam)
        return np.array(known.sums.primals(lam)) - duals

    # The point.

    def point(self) -> np.ndarray:
        return self._W if self._known is None else self._known.W

    def iterate(self) -> np.ndarray:
        return self._W

    def recent_mean(self) -> np.ndarray | None:
        return None

    def sums(self, W: np.ndarray, screen: bool = False) -> Sums:
        if self._known is not None and np.array_equal(W, self._known.W):
            return self._known.sums
        sums, combination = self.data.point_sums(self.problem, W, self._dual().dual())
        if self._known is None:
            self._combination = combination
        return sums

    def combination(self) -> np.ndarray:
        if self._known is not None:
            return self._known.combination
        if self._combination is None:
            self._combination = self.data.combination(self.problem, self._now.dual())
        return self._combination

    def _dual(self) -> Alphas:
        return self._now if self._known is None else self._begin

    def keep_primal(self, W: np.ndarray, which: np.ndarray) -> None:
        self._best_w[:, which] = W[:, which]

    def keep_dual(self, which: np.ndarray) -> None:
        self._best.set_to(self._dual(), which)

    def best(self) -> tuple[np.ndarray, PartsDual]:
        return self._best_w, self._best.dual()

    def restart_average(self) -> None:
        pass


def _train(steps: PartSteps, until: int, stop: StopFlag) -> None:
    done = -1
    while done < until and not stop.is_set:
        done, _ = steps.run(until, stop)
