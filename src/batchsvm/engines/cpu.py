"""The compiled engine: kernels run by the threads of a fit."""

from __future__ import annotations

from math import inf

import numpy as np

from batchsvm.engines.dual import Dual, make_batch, sdca_aggressive, sdca_fixed_beta
from batchsvm.engines.primal import pegasos
from batchsvm.methods import Aggressive, DualState, Guarded, Method, PegasosState, State
from batchsvm.parts import split
from batchsvm.problem import Problem
from batchsvm.sampling import Sampler

# Non-zeros visited by one call at the most: Python sees Ctrl-C only between calls.
NONZEROS_A_CALL = 2**25


class Engine:
    """What runs the iterations of one fit."""

    def __init__(self, problem: Problem, method: Method, state: State, sampler: Sampler) -> None:
        self.problem, self.method, self.state, self.sampler = problem, method, state, sampler
        self.threads, self.workers = problem.matrix.threads, state.workers
        everyone = self.workers == len(problem.matrix.parts)
        self.parts = (
            problem.matrix.parts if everyone else split(problem.rows, self.threads, self.workers)
        )
        self.batch = make_batch(self.workers, sampler.batch_size)
        per_iteration = 1 + sampler.batch_size * problem.rows.nonzeros // problem.n
        per_iteration += state.averaging.primal.size  # a projected run that averages
        self.at_once = max(1, self.workers * NONZEROS_A_CALL // per_iteration)

    def run(self, stop: int, target: float) -> float:
        """Advance the state to iteration `stop`, or to the end of an epoch whose estimated
        gap is at most `target`.  Returns the last estimate of the gap (infinity: none)."""
        state, total = self.state, self.problem.total_weight
        while True:  # once at least: with nothing to do, a kernel is compiled and does nothing
            count = min(stop - state.iteration, self.at_once)
            if isinstance(state, PegasosState):
                self._pegasos(state, count)
                if state.iteration >= stop:
                    return inf
                continue
            # The kernels sum the gap, and do not divide by N.
            done = self._sdca(state, count, target * total)
            estimate = state.watch.estimate / total
            if done < count or state.watch.verdict[0] or state.iteration >= stop:
                state.watch.verdict[0] = False
                return estimate

    def _pegasos(self, state: PegasosState, count: int) -> None:
        problem, sampler = self.problem, self.sampler
        share = problem.n / (problem.total_weight * sampler.batch_size)
        state.shrink, *_ = self.threads.together(
            lambda team: pegasos(
                team, self.parts[team.rank], problem.examples, problem.loss, state.v,
                state.counts, self.batch, sampler, state.averaging, problem.lam, share,
                problem.radius, state.shrink, state.iteration, count,
            ),
            self.workers,
        )  # fmt: skip
        state.iteration += count

    def _sdca(self, state: DualState, count: int, goal: float) -> int:
        """Up to `count` iterations; how many were done."""
        problem, method = self.problem, self.method
        unit = 1.0 / (problem.lam * problem.total_weight)
        dual = Dual(problem.examples, problem.loss, unit, state.least_norm2)
        if isinstance(method, Aggressive) and self.sampler.batch_size > 1:
            delta = np.zeros(problem.d)
            (done, state.beta, refused), *_ = self.threads.together(
                lambda team: sdca_aggressive(
                    dual, team, self.parts[team.rank], state.w, delta, self.batch, self.sampler,
                    state.watch, state.averaging, method.gamma, method.rounds, state.beta_b,
                    state.beta, count, goal,
                ),
                self.workers,
            )  # fmt: skip
            state.refused += refused
        else:
            guards = isinstance(method, Guarded) and self.sampler.batch_size > 1
            (done, state.beta), *_ = self.threads.together(
                lambda team: sdca_fixed_beta(
                    dual, team, self.parts[team.rank], state.w, self.batch, self.sampler,
                    state.watch, state.averaging, guards, state.beta, count, goal,
                ),
                self.workers,
            )  # fmt: skip
        state.iteration += done
        return done
