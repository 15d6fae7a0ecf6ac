"""Training on parts that lie in the actors of a cluster, all at the same time.

The driver has w; each worker has alpha of its rows.  In a round (`rounds.py`) the workers train at
the same w, their changes of w are added up by the workers in pairs, and the driver says how far
alpha and w go.  D does not fall.

alpha of all rows is brought to the driver now and then.  Where a worker was replaced, the new one
starts from what was brought last, and w is computed anew from all alphas before the next round: it
holds steps of the lost worker that the restored alpha does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.dual import HostDual
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem
from batchsvm.engines.part_handles import PartsDual, PerPart, duals_of, parts_of, size_of
from batchsvm.engines.part_steps import iterations_per_visit, refuse_schedule
from batchsvm.engines.parts import total_facts
from batchsvm.engines.protocol import Dual, Progress
from batchsvm.engines.ray.errors import WorkerLost
from batchsvm.engines.ray.library import load_ray
from batchsvm.engines.ray.local_training import BETA, ENDED, GAP, REFUSED, Order, Report, Task
from batchsvm.engines.ray.rounds import RoundSize, Shares, joint_step
from batchsvm.engines.ray.workers import Call
from batchsvm.methods import DualMethod
from batchsvm.methods.gram import LARGEST_FIRST_BETA

if TYPE_CHECKING:
    from batchsvm.engines.ray.dataset import RayDataset

Found = TypeVar("Found")
# Seconds between two times that alpha is brought to the driver, at the least; and how much of the
# time that may take.
CHECKPOINT_SECONDS = 5.0
CHECKPOINT_SHARE = 0.05


class RayTrainer:
    """A `Trainer` (see `engines/protocol.py`) of any number of problems."""

    survives_exceptions = True  # a round that was not finished is taken back
    knows_point = estimates_are_reliable = False

    def __init__(self, data: RayDataset, problem: Problem) -> None:
        self.data, self.problem = data, problem
        self.facts = total_facts(data.part_facts(problem))
        self._key = data.workers.new_key()

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        refuse_schedule(schedule, "ray", "each worker visits its rows")
        data, k = self.data, self.problem.k
        self._schedule, p = schedule, self.problem.columns(data.d)
        self._rows = [size_of(place) for place in data.cut.places]
        self._best_w = np.zeros((p, k))
        self._best = [np.zeros((rows, k), order="F") for rows in self._rows]
        self._stored: list[np.ndarray | None] = [None] * len(self._rows)  # alpha, on the driver
        if dual is not None:
            self._stored = [own.fetch() for own in duals_of(dual)]
        self._is_stored = True
        self._stored_at, self._storing_seconds = monotonic(), 0.0
        method = schedule.method
        assert isinstance(method, DualMethod)
        self.beta = np.full(k, method.first_beta(schedule.beta_b, schedule.batches))
        self.refused = np.zeros(k, np.int64)
        self.joint_beta = np.full(k, min(float(len(self._rows)), LARGEST_FIRST_BETA))
        per_visit = np.array([iterations_per_visit(schedule, rows) for rows in self._rows])
        self._shares = Shares(per_visit)
        self.round_size = RoundSize(int(per_visit.sum()), data.deterministic)
        self._iteration, self._iterations, self._round = 0, np.zeros(k, np.int64), 0
        self._forget_gaps()
        self._generations = [-1] * len(self._rows)
        self._W = np.zeros((p, k), order="F")
        self._combination: np.ndarray | None = None if dual is not None else np.zeros((p, k))
        self.refreshes = 0  # how often w was computed anew since a worker was replaced
        self._everywhere(lambda: None)
        if dual is not None:
            self._refresh()

    def __del__(self) -> None:
        """Give back the memory of the workers, where they are still there."""
        if hasattr(self, "_generations") and len(self.data.workers):
            with contextlib.suppress(Exception):  # they may go away meanwhile
                self._tell("end")

    # Workers that are lost.

    def _everywhere(self, job: Callable[[], Found]) -> Found:
        """Do something on all workers; where one is lost, replace it and do it again."""
        while True:
            try:
                self._restore()
                return job()
            except WorkerLost as error:
                self.data.workers.replace(error.lost)

    def _restore(self) -> None:
        """Begin on workers that are new, and bring w to where alpha is then."""
        data, new = self.data, []
        data.require_open()
        for j, (p, _) in enumerate(data.members):
            if data.workers.generation(p) != self._generations[j]:
                new.append(j)
        if not new:
            return
        first = all(generation < 0 for generation in self._generations)
        calls = [self._begin(j) for j in new]
        data.workers.gather(calls)
        for j, call in zip(new, calls, strict=True):
            self._generations[j] = call.generation
        if not first:
            self._combination = None
            self._is_stored = False
            self._forget_gaps()
            self._refresh_now()

    def _begin(self, j: int) -> Call:
        p, view = self.data.members[j]
        workers, targets = self.data.workers, parts_of(self.problem.targets)[j]
        problem = replace(self.problem, targets=targets)
        seed = j, workers.generation(p)
        task = Task(problem, self._schedule, self.facts.total_weight, self._stored[j], seed)
        return workers.call(p, "begin", self._key, view, task)

    def _refresh_now(self) -> None:
        """w(alpha), from the alphas of all workers."""
        self._combination = self._total(self._call("combination"), np.add)
        self._W[:] = self._combination / (self.problem.lam * self.facts.total_weight)
        self.refreshes += 1

    def _refresh(self) -> None:
        self._everywhere(self._refresh_now)

    def _call(self, method: str, *arguments: Any) -> list[Call]:
        """A call of every worker, answered."""
        calls = self._submit(method, *arguments)
        self.data.workers.wait(calls)
        return calls

    def _submit(self, method: str, *arguments: Any) -> list[Call]:
        workers = self.data.workers
        return [workers.call(p, method, self._key, *arguments) for p, _ in self.data.members]

    def _tell(self, method: str, *arguments: Any) -> None:
        """A call of every worker whose end nobody waits for: calls of a worker are in order."""
        self._submit(method, *arguments)

    def _total(self, calls: list[Call], plus: Callable[[Any, Any], Any]) -> Any:
        return self.data.workers.total(calls, plus, self._W.nbytes)

    # Training.

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        going = np.flatnonzero(~np.isnan(targets))
        estimates = np.full(self.problem.k, inf)
        while self._iteration < until and going.size and not stop.is_set:
            count = min(until - self._iteration, self.round_size.iterations)
            if not self._everywhere(partial(self._round_of, count, going, targets, stop)):
                break
            self._iteration += count
            self._iterations[going] = self._iteration
            self._store_now_and_then()
            shown = self._shown()
            if shown is not None and np.any(shown[going] <= targets[going]):
                if self._iteration < until:
                    estimates[going] = shown[going]
                break
        return Progress(self._iterations.copy(), estimates)

    def _round_of(self, count: int, going: np.ndarray, targets: np.ndarray, stop: StopFlag) -> bool:
        """A round; whether it came to its end."""
        began, shares = perf_counter(), self._shares.deal(count)
        self._round += 1
        self._combination, self._is_stored = None, False
        finished = False
        try:
            W = np.asfortranarray(self._W[:, going])
            calls = self._order(shares, W, going, targets)
            self.data.workers.wait(calls, stop, self._key)
            if stop.is_set:
                return False
            reports = [self.data.workers.result(call, call.results[1]) for call in calls]
            total = self.data.workers.total(calls, np.add, W.nbytes)
            self._move(W, total, reports, going)
            finished = True
        finally:
            if not finished:  # Ctrl-C, the stop flag, a worker that is lost
                self._shares.take_back(shares)
                self._tell("settle", self._round, {})
        active = [j for j in range(len(shares)) if shares[j]]
        self._note(active, reports, going)
        slowest = max(report.seconds for report in reports)
        self.round_size.learn(count, slowest, perf_counter() - began - slowest)
        return True

    def _order(
        self, shares: np.ndarray, W: np.ndarray, going: np.ndarray, targets: np.ndarray
    ) -> list[Call]:
        stored, workers = load_ray().put(W), self.data.workers
        active = np.count_nonzero(shares)
        betas = self.joint_beta[going] if active > 1 else np.ones(going.size)
        numbers = tuple(going.tolist()), tuple(betas.tolist()), tuple(targets[going].tolist())
        calls = []
        for (p, _), iterations in zip(self.data.members, shares.tolist(), strict=True):
            if iterations:
                order = Order(self._round, numbers[0], iterations, *numbers[1:])
                calls.append(workers.call(p, "work", self._key, order, stored, results=2))
        return calls

    def _move(
        self, W: np.ndarray, total: np.ndarray, reports: list[Report], going: np.ndarray
    ) -> None:
        """w and alpha go the part theta of the way."""
        numbers = np.array([report.numbers for report in reports])
        products, squares = np.einsum("pk,pk->k", W, total), np.einsum("pk,pk->k", total, total)
        lam_n = (self.problem.lam * self.facts.total_weight)[going]
        step = joint_step(numbers, products, squares, lam_n, self.joint_beta[going])
        self.joint_beta[going] = step.betas
        self._W[:, going] = W + step.thetas * total
        if np.any(step.thetas < 1.0):
            self._tell("settle", self._round, dict(zip(going.tolist(), step.thetas, strict=True)))
        self.refused[going] += step.thetas == 0.0

    def _note(self, active: list[int], reports: list[Report], going: np.ndarray) -> None:
        """What workers have seen of the gap, and of their own steps."""
        for j, report in zip(active, reports, strict=True):
            numbers = report.numbers
            ended = numbers[ENDED] > 0
            self._gaps[j, going] = np.where(ended, numbers[GAP], self._gaps[j, going])
            self._ended[j, going] |= ended
            self.refused[going] += numbers[REFUSED].astype(np.int64)
        seen = [report.numbers[BETA] for report in reports]
        self.beta[going] = np.where(np.max(seen, axis=0) > 0, np.max(seen, axis=0), 1.0)

    def _forget_gaps(self) -> None:
        shape = len(self._rows), self.problem.k
        self._gaps, self._ended = np.zeros(shape), np.zeros(shape, np.bool_)

    def _shown(self) -> np.ndarray | None:
        """The gap that the last epoch has shown of each problem, once all workers have ended
        one."""
        whole = self._ended.all(axis=0)
        if not whole.any():
            return None
        shown = np.where(whole, self._gaps.sum(axis=0) / self.facts.total_weight, inf)
        self._ended[:, whole] = False
        return shown

    # Where it stands.

    def point(self) -> np.ndarray:
        return self._W

    def iterate(self) -> np.ndarray:
        return self._W

    def recent_mean(self) -> np.ndarray | None:
        return None

    def sums(self, W: np.ndarray, screen: bool = False) -> Sums:
        def found() -> Sums:
            stored = load_ray().put(np.asfortranarray(W))
            calls = self._call("sums", stored, screen)
            return self.data.workers.total(calls, Sums.plus, 0)

        return self._everywhere(found)

    def combination(self) -> np.ndarray:
        def found() -> np.ndarray:
            if self._combination is None:
                self._combination = self._total(self._call("combination"), np.add)
            return self._combination

        return self._everywhere(found)

    # What is kept.

    def _store(self) -> None:
        """Bring alpha to the driver, where it outlives the workers."""
        if not self._is_stored:
            began = perf_counter()
            self._stored = self._everywhere(
                lambda: self.data.workers.gather(self._submit("alphas"))
            )
            self._is_stored = True
            self._storing_seconds = perf_counter() - began
        self._stored_at = monotonic()

    def _store_now_and_then(self) -> None:
        wait = max(CHECKPOINT_SECONDS, self._storing_seconds / CHECKPOINT_SHARE)
        if monotonic() - self._stored_at > wait:
            self._store()

    def keep_primal(self, W: np.ndarray, which: np.ndarray) -> None:
        self._best_w[:, which] = W[:, which]

    def keep_dual(self, which: np.ndarray) -> None:
        if not which.any():
            return
        self._store()
        for best, alpha in zip(self._best, self._stored, strict=True):
            best[:, which] = 0.0 if alpha is None else alpha[:, which]

    def best(self) -> tuple[np.ndarray, PartsDual]:
        return self._best_w, PartsDual(PerPart(map(HostDual, self._best)), self.data.cut)

    def restart_average(self) -> None:
        pass
