"""The oracle: the paper's algorithms in plain NumPy, line by line, slow and obvious.

It shares with the compiled engine the problem, the stream of batches, the losses' formulas
and the bookkeeping of averages and epochs; the two must agree seed by seed.  A batch is
laid out densely as an array of b x d, and D(alpha + delta) - D(alpha) is eq. (Ddelta).
"""

from __future__ import annotations

from math import inf

import numpy as np

from batchsvm.losses import TINY
from batchsvm.methods import (
    Aggressive,
    BlockSampler,
    DualState,
    Guarded,
    Method,
    PegasosState,
    State,
)
from batchsvm.methods.blocks import best_theta
from batchsvm.methods.watch import GAP, PROMISE, RISE, SEEN, STAYED, VIOLATION
from batchsvm.problem import Problem
from batchsvm.roster import line_up_all
from batchsvm.rows import Biased, Dense, Rows
from batchsvm.sampling import Sampler, draw_batch


def batch_of(problem: Problem, A: np.ndarray) -> np.ndarray:
    """The rows of the batch as a dense float64 array."""
    return _dense_rows(problem.rows, A)


def _dense_rows(rows: Rows, A: np.ndarray) -> np.ndarray:
    if isinstance(rows, Biased):
        return np.column_stack([_dense_rows(rows.base, A), np.full(A.size, rows.constant)])
    if isinstance(rows, Dense):
        return rows.values[A].astype(np.float64)
    X = np.zeros((A.size, rows.shape[1]))
    for k, i in enumerate(A):
        row = slice(int(rows.starts[i]), int(rows.starts[i + 1]))
        X[k, rows.indices[row]] = rows.values[row]
    return X


class Engine:
    """What runs the iterations of one fit, one after the other."""

    def __init__(
        self, problem: Problem, method: Method, state: State, sampler: Sampler | BlockSampler
    ) -> None:
        self.problem, self.method, self.state, self.sampler = problem, method, state, sampler

    def run(self, stop: int, target: float) -> float:
        """As the compiled engine's."""
        problem, state, sampler = self.problem, self.state, self.sampler
        goal = target * problem.total_weight
        while state.iteration < stop:
            state.iteration += 1
            if isinstance(sampler, BlockSampler):
                assert isinstance(state, DualState)
                if _blocks_iteration(problem, state, sampler, goal):
                    return state.watch.estimate / problem.total_weight
                continue
            start = draw_batch(sampler)
            A = sampler.order[start : start + sampler.batch_size].astype(np.int64)
            X = batch_of(problem, A)
            if isinstance(state, PegasosState):
                _pegasos_iteration(problem, state, A, X)
            elif _dual_iteration(problem, self.method, state, sampler, start, A, X, goal):
                return state.watch.estimate / problem.total_weight
        return inf

    def look(self, start: int, responses: np.ndarray) -> None:
        """As the compiled engine's."""
        problem, state = self.problem, self.state
        if not (isinstance(state, DualState) and state.watch.skips):
            return
        A = np.arange(start, start + responses.size)
        _, weight, _ = _parts(problem, A)
        beta = 1.0 if isinstance(self.sampler, BlockSampler) else state.beta
        q = _curvature(problem, state, beta, A, weight)
        slack, alpha = state.watch.slack(0.0, inf), problem.examples["alpha"][A]
        self.sampler.roster.keep[A] = ~_stays(problem.loss, alpha, responses, q, slack)

    def looked(self, gap: float) -> None:
        """As the compiled engine's."""
        if isinstance(self.state, DualState) and self.state.watch.skips:
            self.state.watch.note_look(gap * self.problem.total_weight, self.sampler.roster.keep)


def _dual_iteration(problem, method, state, sampler, start, A, X, goal) -> bool:
    """An iteration, and what comes at the end of an epoch; whether a look at all rows is due."""
    watch, before = state.watch, _dual_value(problem, state, A)
    alpha, keep = problem.examples["alpha"][A], _show(problem, state, A, X)
    if isinstance(method, Aggressive) and A.size > 1:
        _aggressive_iteration(problem, method, state, A, X)
    else:
        _fixed_beta_iteration(problem, state, A, X)
    watch.sums[0, RISE] += _dual_value(problem, state, A) - before
    if watch.skips:
        keep |= problem.examples["alpha"][A] != alpha
        sampler.roster.keep[A] = keep
        watch.sums[0, STAYED] += keep.sum()
    sampler.visited[0] += A.size
    if not sampler.epoch_is_over(start + A.size, sampler.visited[0]):
        return False
    due = watch.judge(goal, sampler.takes_part() - start - A.size)
    sampler.position[0], sampler.visited[0] = sampler.order.size, 0
    state.averaging.fade()
    if isinstance(method, Guarded) and A.size > 1:
        state.beta = watch.next_beta(state.beta, float(A.size))
    return bool(due)


def _show(problem, state, A, X):
    """Show the rows to the watch as they are before the step; returns which of them would
    move if their response were off by the slack."""
    sign, weight, offset = _parts(problem, A)
    alpha, loss, watch = problem.examples["alpha"][A], problem.loss, state.watch
    a = sign * (X @ state.w) - offset
    q = _curvature(problem, state, state.beta, A, weight)
    gaps = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
    new = loss.dual_step(alpha, a, q)
    violations = np.abs(new - alpha) * q
    slack = watch.slack(watch.sums[0, SEEN], watch.sums[0, VIOLATION])
    watch.sums[0, [SEEN, GAP, VIOLATION]] += A.size, gaps.sum(), violations.sum()
    watch.sums[0, PROMISE] += _gains(problem, A, new, a).sum()
    return ~_stays(loss, alpha, a, q, slack)


def _blocks_iteration(problem, state, sampler, goal) -> bool:
    """Serial steps in each block from the same w, their sum scaled by theta; at the end of an
    epoch, whether a look at all rows is due."""
    loss, examples, watch, roster = problem.loss, problem.examples, state.watch, sampler.roster
    blocks, unit = roster.edges.size - 1, 1 / (problem.lam * problem.total_weight)
    if sampler.position[0] >= roster.order.size:
        line_up_all(roster)
        sampler.position[0] = 0
    before, moves, first_order = examples["alpha"].copy(), [], 0.0
    for block in range(blocks):
        local, start = state.w.copy(), roster.edges[block] + sampler.position[0]
        stop = min(start + sampler.share, roster.edges[block] + roster.active[block, 0])
        slack = watch.slack(watch.sums[block, SEEN], watch.sums[block, VIOLATION])
        for i in roster.order[start:stop]:
            A = np.array([i])
            X, (sign, weight, offset) = batch_of(problem, A), _parts(problem, A)
            alpha, a = examples["alpha"][A], sign * (X @ local) - offset
            q = _curvature(problem, state, 1.0, A, weight)
            new = loss.dual_step(alpha, a, q)
            gap = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
            watch.sums[block, [SEEN, GAP, VIOLATION]] += 1, gap[0], (np.abs(new - alpha) * q)[0]
            if watch.skips:
                roster.keep[i] = new != alpha or not _stays(loss, alpha, a, q, slack)
                watch.sums[block, STAYED] += roster.keep[i]
            first_order += _gains(problem, A, new, a)[0]
            examples["alpha"][A] = new
            local += unit * X.T @ (sign * weight * (new - alpha))
        moves.append(local - state.w)
        first_order += moves[-1] @ moves[-1] / (2 * unit)
    total = np.sum(moves, axis=0)
    quadratic = total @ total / unit
    theta = best_theta(first_order, quadratic, blocks)
    state.beta = 1 / theta
    state.refused += theta < 1
    if theta < 1:
        examples["alpha"] = before + theta * (examples["alpha"] - before)
    state.w += theta * total
    state.averaging.observe_primal(1.0, state.w)
    sampler.position[0] += sampler.share
    if sampler.position[0] < roster.longest_block():
        return False
    sampler.position[0] = roster.order.size
    state.averaging.fade()
    return bool(watch.judge(goal, 0))


def _gains(problem, A, new, a):
    """By how much N D rises, for each row of A, if its alpha / c alone becomes `new`."""
    _, weight, _ = _parts(problem, A)
    alpha, loss = problem.examples["alpha"][A], problem.loss
    change = weight * (new - alpha)
    unit = 1 / (problem.lam * problem.total_weight)
    lower = weight * (loss.conjugate(alpha) - loss.conjugate(new)) - change * a
    return lower - unit / 2 * problem.examples["norm2"][A] * change**2


def _stays(loss, alpha, a, q, slack):
    """Whether alpha would stay where it is if responses were off by the slack."""
    down, up = loss.dual_step(alpha, a - slack, q), loss.dual_step(alpha, a + slack, q)
    return (down == alpha) & (up == alpha)


def _dual_value(problem: Problem, state: DualState, A: np.ndarray) -> float:
    """N D(alpha), without the rows outside of A in its sum."""
    _, weight, offset = _parts(problem, A)
    alpha = problem.examples["alpha"][A]
    terms = weight * (alpha * offset - problem.loss.conjugate(alpha))
    return float(terms.sum() - problem.lam * problem.total_weight / 2 * (state.w @ state.w))


def _parts(problem: Problem, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sign, weight and offset of the rows in the batch."""
    signed = problem.examples["signed_weight"][A]
    return np.copysign(1.0, signed), np.abs(signed), problem.examples["offset"][A]


def _curvature(problem, state, beta, A, weight):
    """q of the losses: beta ||x_i||^2 c_i / (lam N), or without ||x_i||^2 (literal step)."""
    norm2 = np.maximum(problem.examples["norm2"][A], state.least_norm2)
    q = beta * weight * norm2 / (problem.lam * problem.total_weight)
    return np.maximum(q, TINY)


def _step(problem, state, beta, A, a, weight):
    """alpha / c after the step of eq. (MBalphai)."""
    q = _curvature(problem, state, beta, A, weight)
    return problem.loss.dual_step(problem.examples["alpha"][A], a, q)


def _move(problem, state, A, X, sign, weight, new):
    """alpha <- new, and w with it."""
    change = new - problem.examples["alpha"][A]
    problem.examples["alpha"][A] = new
    for i, step in zip(A, change, strict=True):
        state.averaging.note(i, step)
    state.w += X.T @ (sign * weight * change) / (problem.lam * problem.total_weight)


def _fixed_beta_iteration(problem: Problem, state: DualState, A: np.ndarray, X: np.ndarray) -> None:
    """Naive and safe mini-batching, Sections 4.1 and 4.2."""
    sign, weight, offset = _parts(problem, A)
    state.averaging.observe(1.0)
    state.averaging.observe_primal(1.0, state.w)
    a = sign * (X @ state.w) - offset
    _move(problem, state, A, X, sign, weight, _step(problem, state, state.beta, A, a, weight))


def _aggressive_iteration(
    problem: Problem, method: Aggressive, state: DualState, A: np.ndarray, X: np.ndarray
) -> None:
    """One pass through the loop of Algorithm 2."""
    sign, weight, offset = _parts(problem, A)
    loss, lam, N = problem.loss, problem.lam, problem.total_weight
    state.averaging.observe(1.0)
    alpha = problem.examples["alpha"][A]
    a = sign * (X @ state.w) - offset

    tentative = weight * (_step(problem, state, state.beta, A, a, weight) - alpha)
    norm2 = np.maximum(problem.examples["norm2"][A], state.least_norm2)
    zeta = np.sum(norm2 * tentative**2)
    Delta = X.T @ (sign * tentative)
    for _ in range(method.rounds):
        rho = np.clip(Delta @ Delta / zeta, 1.0, state.beta_b) if zeta > 0 else state.beta
        new = _step(problem, state, rho, A, a, weight)
        delta = weight * (new - alpha)
        zeta = np.sum(norm2 * delta**2)
        Delta = X.T @ (sign * delta)
    state.beta = state.beta**method.gamma * rho ** (1 - method.gamma)

    gain = np.sum(weight * (loss.conjugate(alpha) - loss.conjugate(new)) - delta * a)
    if gain - Delta @ Delta / (2 * lam * N) > 0:
        _move(problem, state, A, X, sign, weight, new)
    elif zeta > 0:
        state.refused += 1


def _pegasos_iteration(problem: Problem, state: PegasosState, A: np.ndarray, X: np.ndarray) -> None:
    """One pass through the loop of Algorithm 1, and the projection of Section 6."""
    sign, weight, offset = _parts(problem, A)
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
