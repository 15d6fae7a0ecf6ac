"""The compiled engine: kernels run by the threads of a fit."""

from __future__ import annotations

from math import inf

import numpy as np

from batchsvm.engines.batch import make_batch
from batchsvm.engines.blocks import make_exchange, sdca_blocks
from batchsvm.engines.dual import Dual, mark, sdca_aggressive, sdca_fixed_beta
from batchsvm.engines.primal import pegasos
from batchsvm.engines.serial import sdca_serial
from batchsvm.methods import (
    Aggressive,
    BlockSampler,
    DualState,
    Guarded,
    Method,
    PegasosState,
    State,
)
from batchsvm.parts import split
from batchsvm.problem import Problem
from batchsvm.sampling import Sampler

# Non-zeros visited by one call at the most: Python sees Ctrl-C only between calls.
NONZEROS_A_CALL = 2**25


class Engine:
    """What runs the iterations of one fit."""

    def __init__(
        self, problem: Problem, method: Method, state: State, sampler: Sampler | BlockSampler
    ) -> None:
        self.problem, self.method, self.state, self.sampler = problem, method, state, sampler
        self.threads, self.workers = problem.matrix.threads, state.workers
        per_iteration = 1 + state.batch_size * problem.rows.nonzeros // problem.n
        per_iteration += state.averaging.primal.size  # a projected run that averages
        self.at_once = max(1, self.workers * NONZEROS_A_CALL // per_iteration)
        if isinstance(sampler, BlockSampler):
            blocks = sampler.roster.edges.size - 1
            self.exchange = make_exchange(self.workers, blocks, sampler.share, problem.d)
            return
        self.batch = make_batch(self.workers, sampler.batch_size)
        everyone = self.workers == len(problem.matrix.parts)
        self.parts = (
            problem.matrix.parts if everyone else split(problem.rows, self.threads, self.workers)
        )

    def run(self, stop: int, target: float) -> float:
        """Advance the state to iteration `stop`, or to the end of an epoch that makes a look at
        all rows worth while, such as one whose estimated gap is at most `target`.  Returns that
        estimate, or infinity at `stop`."""
        while True:  # once at least: with nothing to do, a kernel is compiled and does nothing
            count = min(stop - self.state.iteration, self.at_once)
            if isinstance(self.state, PegasosState):
                self._pegasos(self.state, count)
            else:  # the kernels sum the gap, and do not divide by N
                weight = self.problem.total_weight
                if self._sdca(self.state, count, target * weight):
                    return self.state.watch.estimate / weight
            if self.state.iteration >= stop:
                return inf

    def look(self, start: int, responses: np.ndarray) -> None:
        """Say of rows from `start` on, whose responses are these, who takes part from now on."""
        if isinstance(self.state, DualState) and self.state.watch.skips:
            dual, watch, keep = self._dual(self.state), self.state.watch, self.sampler.roster.keep
            beta = 1.0 if isinstance(self.sampler, BlockSampler) else self.state.beta
            mark(dual, watch, keep[start : start + responses.size], beta, start, responses)

    def looked(self, gap: float) -> None:
        """All rows have been looked at, and have this gap."""
        if isinstance(self.state, DualState) and self.state.watch.skips:
            self.state.watch.note_look(gap * self.problem.total_weight, self.sampler.roster.keep)

    def _dual(self, state: DualState) -> Dual:
        problem = self.problem
        unit = 1.0 / (problem.lam * problem.total_weight)
        return Dual(problem.examples, problem.loss, unit, state.least_norm2)

    def _pegasos(self, state: PegasosState, count: int) -> None:
        problem, sampler = self.problem, self.sampler
        share = problem.n / (problem.total_weight * state.batch_size)
        state.shrink, *_ = self.threads.together(
            lambda team: pegasos(
                team, self.parts[team.rank], problem.examples, problem.loss, state.v,
                state.counts, self.batch, sampler, state.averaging, problem.lam, share,
                problem.radius, state.shrink, state.iteration, count,
            ),
            self.workers,
        )  # fmt: skip
        state.iteration += count

    def _sdca(self, state: DualState, count: int, goal: float) -> bool:
        """Up to `count` iterations; whether a look at all rows is due."""
        problem, method, dual = self.problem, self.method, self._dual(state)
        if isinstance(self.sampler, BlockSampler):
            (done, reached, theta, shortened), *_ = self.threads.together(
                lambda team: sdca_blocks(
                    dual, team, problem.rows, state.w, self.exchange, self.sampler, state.watch,
                    state.averaging, 1.0 / state.beta, count, goal,
                ),
                self.workers,
            )  # fmt: skip
            state.beta = 1.0 / theta
            state.refused += shortened
        elif state.batch_size == 1:
            done, reached = sdca_serial(
                dual, problem.rows, state.w, self.sampler, state.watch, state.averaging, count, goal
            )
        elif isinstance(method, Aggressive):
            delta = np.zeros(problem.d)
            (done, reached, state.beta, refused), *_ = self.threads.together(
                lambda team: sdca_aggressive(
                    dual, team, self.parts[team.rank], state.w, delta, self.batch, self.sampler,
                    state.watch, state.averaging, method.gamma, method.rounds, state.beta_b,
                    state.beta, count, goal,
                ),
                self.workers,
            )  # fmt: skip
            state.refused += refused
        else:
            guards = isinstance(method, Guarded)
            (done, reached, state.beta), *_ = self.threads.together(
                lambda team: sdca_fixed_beta(
                    dual, team, self.parts[team.rank], state.w, self.batch, self.sampler,
                    state.watch, state.averaging, guards, state.beta, count, goal,
                ),
                self.workers,
            )  # fmt: skip
        state.iteration += done
        return reached
