"""Which kernel runs the iterations of which method, and with what."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchsvm.core.layout import Schedule
from batchsvm.engines.column_ranks import rank_columns
from batchsvm.engines.cpu.batches import (
    BatchWorker,
    make_batch,
    screen_rows,
    sdca_aggressive,
    sdca_fixed_beta,
)
from batchsvm.engines.cpu.blocks import BlockWorker, make_exchange, sdca_blocks
from batchsvm.engines.cpu.gram import (
    GramRule,
    GramWorker,
    make_matrices,
    make_room,
    sdca_gram,
)
from batchsvm.engines.cpu.pegasos import PrimalProblem, pegasos
from batchsvm.engines.cpu.problem import CpuProblem
from batchsvm.engines.cpu.ranked_blocks import (
    RankedWorker,
    make_ranked_exchange,
    sdca_ranked_blocks,
)
from batchsvm.engines.cpu.serial import sdca_serial
from batchsvm.engines.cpu.structs import Budget, Rule, Visits
from batchsvm.engines.host_problem import HostProblem
from batchsvm.engines.state import DualState, PegasosState, State
from batchsvm.engines.trainer import Stepper
from batchsvm.methods import Aggressive, Blocks, Gram, Guarded, Naive, Pegasos, Safe


class _Steps:
    """What the steppers have in common."""

    def __init__(self, bound: CpuProblem, schedule: Schedule, state: State, sampler: Any) -> None:
        self.bound, self.schedule, self.sampler = bound, schedule, sampler
        self.pool, self.workers = bound.data.pool, state.workers
        per_iteration = 1 + state.batch_size * bound.rows.nonzeros // bound.n
        per_iteration += state.averaging.primal.size  # a projected run that averages
        # Iterations of a call by one worker.
        self.of_one_worker = max(1, bound.data.tuning.max_call_nonzeros // per_iteration)
        self.max_iterations = self.workers * self.of_one_worker


class _DualSteps(_Steps):
    """A dual method; `beta_of_steps` is the beta that screening has to reckon with."""

    def __init__(
        self, bound: CpuProblem, schedule: Schedule, state: DualState, sampler: Any
    ) -> None:
        super().__init__(bound, schedule, state, sampler)
        self.state = state
        self.dual = bound.as_struct(state.least_norm2)
        self.visits = Visits(sampler, state.screening, state.averaging)
        bound.compile(state.alpha_of, self.screen if state.screening.skips else None)

    @property
    def beta_of_steps(self) -> float:
        return self.state.beta

    def screen(self, start: int, responses: np.ndarray) -> None:
        keep = self.sampler.visits.keep[start : start + responses.size]
        screen_rows(
            self.dual, self.state.screening, keep, self.beta_of_steps, start, responses
        )  # fmt: skip


class SerialSteps(_DualSteps):
    """Batches of one row."""

    def advance(self, count: int, target: float) -> bool:
        done, due = sdca_serial(
            self.dual, self.bound.rows, self.state.w, self.visits, Budget(count, target)
        )
        self.state.iteration += done
        return due


class _BatchSteps(_DualSteps):
    """Batches that the workers share by columns."""

    def __init__(
        self, bound: CpuProblem, schedule: Schedule, state: DualState, sampler: Any
    ) -> None:
        super().__init__(bound, schedule, state, sampler)
        self.batch = make_batch(self.workers, sampler.batch_size)
        self.slices = bound.column_slices(self.workers)

    @property
    def rule(self) -> Rule:
        method, state = self.schedule.method, self.state
        gamma, rounds = getattr(method, "gamma", 0.0), getattr(method, "rounds", 0)
        return Rule(state.beta, state.beta_b, isinstance(method, Guarded), gamma, rounds)


class FixedBetaSteps(_BatchSteps):
    """Naive, safe and guarded."""

    def advance(self, count: int, target: float) -> bool:
        rule, budget = self.rule, Budget(count, target)
        (done, due, self.state.beta), *_ = self.pool.run(
            lambda worker: sdca_fixed_beta(
                self.dual, BatchWorker(worker, self.slices[worker.rank], self.batch),
                self.state.w, self.visits, rule, budget,
            ),
            self.workers,
        )  # fmt: skip
        self.state.iteration += done
        return due


class AggressiveSteps(_BatchSteps):
    """Algorithm 2."""

    def advance(self, count: int, target: float) -> bool:
        rule, budget, delta = self.rule, Budget(count, target), np.zeros(self.bound.d)
        (done, due, self.state.beta, refused), *_ = self.pool.run(
            lambda worker: sdca_aggressive(
                self.dual, BatchWorker(worker, self.slices[worker.rank], self.batch),
                self.state.w, delta, self.visits, rule, budget,
            ),
            self.workers,
        )  # fmt: skip
        self.state.refused += refused
        self.state.iteration += done
        return due


class BlockSteps(_DualSteps):
    """Blocks of rows side by side."""

    def __init__(
        self, bound: CpuProblem, schedule: Schedule, state: DualState, sampler: Any
    ) -> None:
        super().__init__(bound, schedule, state, sampler)
        blocks = sampler.visits.edges.size - 1
        self.exchange = make_exchange(self.workers, blocks, sampler.rows_per_block, bound.d)

    @property
    def beta_of_steps(self) -> float:
        return 1.0  # within a block, steps are serial

    def advance(self, count: int, target: float) -> bool:
        theta, budget = 1.0 / self.state.beta, Budget(count, target)
        (done, due, theta, shortened), *_ = self.pool.run(
            lambda worker: sdca_blocks(
                self.dual, BlockWorker(worker, self.bound.rows, self.exchange),
                self.state.w, self.visits, theta, budget,
            ),
            self.workers,
        )  # fmt: skip
        self.state.beta = 1.0 / theta
        self.state.refused += shortened
        self.state.iteration += done
        return due


class RankedBlockSteps(_DualSteps):
    """Blocks of rows side by side that exchange frequent columns more often than rare ones."""

    def __init__(
        self, bound: CpuProblem, schedule: Schedule, state: DualState, sampler: Any
    ) -> None:
        super().__init__(bound, schedule, state, sampler)
        blocks = sampler.visits.edges.size - 1
        ranks = rank_columns(bound.data, bound, blocks * sampler.rows_per_block)
        self.exchange = make_ranked_exchange(ranks, self.workers, blocks, sampler.rows_per_block)
        # A call ends with an exchange of all columns: the same for any number of workers.
        self.max_iterations = self.of_one_worker

    def advance(self, count: int, target: float) -> bool:
        beta, budget = self.state.beta, Budget(count, target)
        (done, due, self.state.beta), *_ = self.pool.run(
            lambda worker: sdca_ranked_blocks(
                self.dual, RankedWorker(worker, self.bound.rows, self.exchange),
                self.state.w, self.visits, beta, budget,
            ),
            self.workers,
        )  # fmt: skip
        self.state.iteration += done
        return due


class GramSteps(_DualSteps):
    """Batches that keep their rows, with their Gram matrices.

    Python draws the order of the batches at the start of every epoch.
    """

    def __init__(
        self, bound: CpuProblem, schedule: Schedule, state: DualState, sampler: Any
    ) -> None:
        super().__init__(bound, schedule, state, sampler)
        assert isinstance(schedule.method, Gram)
        self.sweeps = schedule.method.sweeps
        tuning, b = bound.data.tuning, sampler.batch_size
        self.matrices = make_matrices(sampler, self.workers, tuning.max_gram_bytes)
        self.room = make_room(self.workers, sampler, bound.d)
        # A batch may have to compute its Gram matrix first.
        per_row = bound.rows.nonzeros / bound.n + self.sweeps
        per_round = sampler.batches * b * b * per_row
        self.max_iterations = max(1, int(self.workers * tuning.max_call_nonzeros / per_round))

    def advance(self, count: int, target: float) -> bool:
        if count == 0:  # compile it
            self._run(np.empty(0, np.int64))
        while count > 0:
            order = self.sampler.upcoming(count)
            if self.sampler.is_cut_anew:
                self.matrices.known[:] = False
            self._run(order)
            done = -(-order.size // self.sampler.batches)
            self.state.iteration += done
            count -= done
            if self.sampler.epoch_is_over and self.state.screening.end_epoch(target, 0):
                return True
        return False

    def _run(self, order: np.ndarray) -> None:
        state, sampler = self.state, self.sampler
        rule = GramRule(
            state.beta, sampler.batch_size, sampler.batches, self.sweeps,
            float(getattr(self.bound.loss, "conjugate_curvature", 0.0)),
        )  # fmt: skip
        (state.beta, shortened), *_ = self.pool.run(
            lambda worker: sdca_gram(
                self.dual, GramWorker(worker, self.bound.rows, self.matrices, self.room),
                state.w, state.screening, rule, order,
            ),
            self.workers,
        )  # fmt: skip
        state.refused += shortened


class PegasosSteps(_Steps):
    """Algorithm 1."""

    def __init__(
        self, bound: CpuProblem, schedule: Schedule, state: PegasosState, sampler: Any
    ) -> None:
        super().__init__(bound, schedule, state, sampler)
        self.state = state
        share = bound.n / (bound.total_weight * state.batch_size)
        self.primal = PrimalProblem(bound.examples, bound.loss, bound.lam, share, bound.radius)
        self.visits = Visits(sampler, None, state.averaging)
        self.batch = make_batch(self.workers, sampler.batch_size)
        self.slices = bound.column_slices(self.workers)
        bound.compile(state.alpha_of, None)

    def advance(self, count: int, target: float) -> bool:
        state = self.state
        at = state.iteration, state.shrink
        state.shrink, *_ = self.pool.run(
            lambda worker: pegasos(
                self.primal, BatchWorker(worker, self.slices[worker.rank], self.batch),
                state.v, state.counts, self.visits, at, count,
            ),
            self.workers,
        )  # fmt: skip
        state.iteration += count
        return False

    def screen(self, start: int, responses: np.ndarray) -> None:
        raise AssertionError("Pegasos visits all rows")


STEPPERS: dict[type, Any] = {
    Pegasos: PegasosSteps,
    Naive: FixedBetaSteps,
    Safe: FixedBetaSteps,
    Guarded: FixedBetaSteps,
    Aggressive: AggressiveSteps,
    Blocks: BlockSteps,
    Gram: GramSteps,
}


def make_stepper(bound: HostProblem, schedule: Schedule, state: State, sampler: Any) -> Stepper:
    """What runs this method; all dual methods but blocks are the same for batches of one."""
    kind = STEPPERS[type(schedule.method)]
    if schedule.batch_size == 1 and issubclass(kind, _BatchSteps):
        kind = SerialSteps
    if isinstance(schedule.method, Blocks) and schedule.method.exchange == "frequency":
        kind = RankedBlockSteps
    return kind(bound, schedule, state, sampler)
