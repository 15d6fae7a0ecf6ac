"""The steps of the paper's algorithms in plain NumPy, line by line, slow and obvious.

They share with the compiled engine the state, the stream of batches, the losses' formulas and
the bookkeeping of averages and epochs; the two must agree seed by seed.  A batch is laid out
densely as an array of b x d, and D(alpha + delta) - D(alpha) is eq. (Ddelta).
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from batchsvm.core.layout import Schedule
from batchsvm.engines.reference.blocks import RankedBlocks, blocks_iteration
from batchsvm.engines.reference.gram import gram_round
from batchsvm.engines.reference.problem import ReferenceProblem
from batchsvm.engines.reference.terms import gains_of, stays
from batchsvm.engines.sampling import draw_batch
from batchsvm.engines.screening import GAP, KEPT, PROMISE, RISE, SEEN, VIOLATION
from batchsvm.engines.state import DualState, PegasosState, State
from batchsvm.engines.trainer import Stepper
from batchsvm.methods import (
    Aggressive,
    Blocks,
    Gram,
    Guarded,
    Naive,
    Pegasos,
    Safe,
    next_beta,
)


class _Steps:
    """Iterations one after another."""

    max_iterations = 1000  # some tenths of a second: then the stop flag is looked at

    def __init__(
        self, problem: ReferenceProblem, schedule: Schedule, state: State, sampler: Any
    ) -> None:
        self.problem, self.method, self.sampler = problem, schedule.method, sampler
        self.state: Any = state

    def advance(self, count: int, target: float) -> bool:
        for _ in range(count):
            self.state.iteration += 1
            if self.iterate(target):
                return True
        return False

    def iterate(self, target: float) -> bool:
        """One iteration; whether a full pass is due."""
        raise NotImplementedError

    def next_batch(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Where the batch starts in the order, its rows' numbers, and its rows."""
        start = draw_batch(self.sampler)
        A = self.sampler.order[start : start + self.sampler.batch_size].astype(np.int64)
        return start, A, self.problem.rows_of(A)

    def screen(self, start: int, responses: np.ndarray) -> None:
        problem, state = self.problem, self.state
        A = np.arange(start, start + responses.size)
        shares_w = isinstance(self.method, Blocks) and self.method.exchange == "all"
        beta = 1.0 if shares_w else state.beta  # 1/theta there
        q = problem.curvature(A, beta, state.least_norm2)
        slack, alpha = state.screening.slack(0.0, inf), problem.examples["alpha"][A]
        self.sampler.visits.keep[A] = ~stays(problem.loss, alpha, responses, q, slack)


class PegasosSteps(_Steps):
    def iterate(self, target: float) -> bool:
        _, A, X = self.next_batch()
        _pegasos_iteration(self.problem, self.state, A, X)
        return False


class BatchSteps(_Steps):
    """Naive, safe, guarded and aggressive SDCA."""

    def step(self, A: np.ndarray, X: np.ndarray) -> None:
        _fixed_beta_iteration(self.problem, self.state, A, X)

    def iterate(self, target: float) -> bool:
        problem, state, sampler = self.problem, self.state, self.sampler
        start, A, X = self.next_batch()
        screening, before = state.screening, _dual_value(problem, state, A)
        alpha = problem.examples["alpha"][A]
        keep, promise = _visit(problem, state, A, X)
        self.step(A, X)
        if screening.looks_at_rise(start // A.size, sampler.active_rows() // A.size):
            screening.sums[0, RISE] += _dual_value(problem, state, A) - before
            screening.sums[0, PROMISE] += promise
        if screening.skips:
            keep |= problem.examples["alpha"][A] != alpha
            sampler.visits.keep[A] = keep
            screening.sums[0, KEPT] += keep.sum()
        sampler.visited[0] += A.size
        if not sampler.epoch_is_over(start + A.size, sampler.visited[0]):
            return False
        due = screening.end_epoch(target, sampler.active_rows() - start - A.size)
        sampler.position[0], sampler.visited[0] = sampler.order.size, 0
        state.averaging.fade()
        self.end_epoch(A.size)
        return bool(due)

    def end_epoch(self, batch_size: int) -> None:
        pass


class GuardedSteps(BatchSteps):
    def end_epoch(self, batch_size: int) -> None:
        if batch_size > 1:
            kept = self.state.screening.kept_promise()
            self.state.beta = next_beta(self.state.beta, kept, float(batch_size))


class AggressiveSteps(BatchSteps):
    def step(self, A: np.ndarray, X: np.ndarray) -> None:
        assert isinstance(self.method, Aggressive)
        if A.size > 1:
            _aggressive_iteration(self.problem, self.method, self.state, A, X)
        else:
            _fixed_beta_iteration(self.problem, self.state, A, X)


class BlockSteps(_Steps):
    def iterate(self, target: float) -> bool:
        return blocks_iteration(self.problem, self.state, self.sampler, target)


class RankedBlockSteps(_Steps):
    def __init__(
        self, problem: ReferenceProblem, schedule: Schedule, state: State, sampler: Any
    ) -> None:
        super().__init__(problem, schedule, state, sampler)
        self.blocks = RankedBlocks(problem, self.state, sampler)

    def advance(self, count: int, target: float) -> bool:
        if count == 0:
            return False
        self.blocks.begin()
        for left in reversed(range(count)):
            self.state.iteration += 1
            due = self.blocks.iterate(target, is_last=left == 0)
            if due:
                return True
        return False


class GramSteps(_Steps):
    def iterate(self, target: float) -> bool:
        assert isinstance(self.method, Gram)
        gram_round(self.problem, self.method, self.state, self.sampler)
        over = self.sampler.epoch_is_over
        return over and bool(self.state.screening.end_epoch(target, 0))


STEPPERS: dict[type, Any] = {
    Pegasos: PegasosSteps,
    Naive: BatchSteps,
    Safe: BatchSteps,
    Guarded: GuardedSteps,
    Aggressive: AggressiveSteps,
    Blocks: BlockSteps,
    Gram: GramSteps,
}


def make_stepper(problem: Any, schedule: Schedule, state: State, sampler: Any) -> Stepper:
    kind = STEPPERS[type(schedule.method)]
    if isinstance(schedule.method, Blocks) and schedule.method.exchange == "frequency":
        kind = RankedBlockSteps
    return kind(problem, schedule, state, sampler)


def _visit(problem, state, A, X):
    """Add to the sums of screening what the rows are before the step.  Returns which of them would
    move if their response were off by the slack, and by how much N D rises if they move one by
    one."""
    sign, weight, offset = problem.parts(A)
    alpha, loss, screening = problem.examples["alpha"][A], problem.loss, state.screening
    a = sign * (X @ state.w) - offset
    q = problem.curvature(A, state.beta, state.least_norm2)
    gaps = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
    new = loss.dual_step(alpha, a, q)
    violations = np.abs(new - alpha) * q
    slack = screening.slack(screening.sums[0, SEEN], screening.sums[0, VIOLATION])
    screening.sums[0, [SEEN, GAP, VIOLATION]] += A.size, gaps.sum(), violations.sum()
    return ~stays(loss, alpha, a, q, slack), gains_of(problem, A, new, a).sum()


def _dual_value(problem: ReferenceProblem, state: DualState, A: np.ndarray) -> float:
    """N D(alpha), without the rows outside of A in its sum."""
    _, weight, offset = problem.parts(A)
    alpha = problem.examples["alpha"][A]
    terms = weight * (alpha * offset - problem.loss.conjugate(alpha))
    return float(terms.sum() - problem.lam * problem.total_weight / 2 * (state.w @ state.w))


def _step(problem, state, beta, A, a):
    """alpha / c after the step of eq. (MBalphai)."""
    q = problem.curvature(A, beta, state.least_norm2)
    return problem.loss.dual_step(problem.examples["alpha"][A], a, q)


def _move(problem, state, A, X, sign, weight, new):
    """alpha <- new, and w with it."""
    change = new - problem.examples["alpha"][A]
    problem.examples["alpha"][A] = new
    for i, step in zip(A, change, strict=True):
        state.averaging.note(i, step)
    state.w += X.T @ (sign * weight * change) / (problem.lam * problem.total_weight)


def _fixed_beta_iteration(
    problem: ReferenceProblem, state: DualState, A: np.ndarray, X: np.ndarray
) -> None:
    """Naive and safe mini-batching, Sections 4.1 and 4.2."""
    sign, weight, offset = problem.parts(A)
    state.averaging.observe(1.0)
    state.averaging.observe_primal(1.0, state.w)
    a = sign * (X @ state.w) - offset
    _move(problem, state, A, X, sign, weight, _step(problem, state, state.beta, A, a))


def _aggressive_iteration(
    problem: ReferenceProblem, method: Aggressive, state: DualState, A: np.ndarray, X: np.ndarray
) -> None:
    """One pass through the loop of Algorithm 2."""
    sign, weight, offset = problem.parts(A)
    loss, lam, N = problem.loss, problem.lam, problem.total_weight
    state.averaging.observe(1.0)
    alpha = problem.examples["alpha"][A]
    a = sign * (X @ state.w) - offset

    tentative = weight * (_step(problem, state, state.beta, A, a) - alpha)
    norm2 = np.maximum(problem.examples["norm2"][A], state.least_norm2)
    zeta = np.sum(norm2 * tentative**2)
    Delta = X.T @ (sign * tentative)
    for _ in range(method.rounds):
        rho = np.clip(Delta @ Delta / zeta, 1.0, state.beta_b) if zeta > 0 else state.beta
        new = _step(problem, state, rho, A, a)
        delta = weight * (new - alpha)
        zeta = np.sum(norm2 * delta**2)
        Delta = X.T @ (sign * delta)
    state.beta = state.beta**method.gamma * rho ** (1 - method.gamma)

    gain = np.sum(weight * (loss.conjugate(alpha) - loss.conjugate(new)) - delta * a)
    if gain - Delta @ Delta / (2 * lam * N) > 0:
        _move(problem, state, A, X, sign, weight, new)
    elif zeta > 0:
        state.refused += 1


def _pegasos_iteration(
    problem: ReferenceProblem, state: PegasosState, A: np.ndarray, X: np.ndarray
) -> None:
    """One pass through the loop of Algorithm 1, and the projection of Section 6."""
    sign, weight, offset = problem.parts(A)
    lam, t = problem.lam, state.iteration
    scale, b = 1.0 / (lam * max(t - 1, 1)), A.size
    state.averaging.observe(scale)
    w = scale * state.v
    if state.counts.size:
        state.averaging.observe_primal(scale, state.v)
    chi = -problem.loss.subgradient(sign * (X @ w) - offset)
    gradient = X.T @ (problem.n / problem.total_weight * weight * chi * sign) / b
    w = (1 - 1 / t) * w + gradient / (lam * t)
    totals = state.counts if state.counts.size else problem.examples["alpha"]
    for i, x in zip(A, chi, strict=True):
        totals[i] += x
        if not state.counts.size:
            state.averaging.note(i, x)
    state.v = problem.confine(w) * (lam * t)  # shrink stays 1: v is not kept sparse here
