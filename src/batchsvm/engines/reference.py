"""The oracle: the paper's algorithms in plain NumPy, line by line, slow and obvious.

It shares with the compiled engine the problem, the stream of batches, the losses' formulas
and the bookkeeping of averages and epochs; the two must agree seed by seed.  A batch is
laid out densely as an array of b x d, and D(alpha + delta) - D(alpha) is eq. (Ddelta).
"""

from __future__ import annotations

from math import inf

import numpy as np

from batchsvm.losses import TINY
from batchsvm.methods import Aggressive, DualState, Method, PegasosState, State
from batchsvm.problem import Problem
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


def run(
    problem: Problem, method: Method, state: State, sampler: Sampler, stop: int, target: float
) -> float:
    """Advance `state` to iteration `stop`, or to the end of an epoch whose estimated gap
    is at most `target`.  Returns the last estimate of the gap (infinity: none)."""
    while state.iteration < stop:
        start = draw_batch(sampler)
        A = sampler.order[start : start + sampler.batch_size].astype(np.int64)
        X = batch_of(problem, A)
        state.iteration += 1
        if isinstance(state, PegasosState):
            _pegasos_iteration(problem, state, A, X)
            continue
        before, a, q = _look(problem, state, A, X)
        if isinstance(method, Aggressive) and A.size > 1:
            _aggressive_iteration(problem, method, state, A, X)
        else:
            _fixed_beta_iteration(problem, state, A, X)
        if state.watch.skips:
            slack, step = state.watch.slack(), problem.loss.dual_step
            moved = problem.examples["alpha"][A] != before
            if moved or not (step(before, a - slack, q) == before == step(before, a + slack, q)):
                sampler.keep_row(start)
        goal = target * problem.total_weight
        if sampler.epoch_is_over(state.watch.visited[0]) and state.watch.finish(sampler, goal):
            break
    if isinstance(state, PegasosState):
        return inf
    return state.watch.estimate / problem.total_weight


def _look(problem, state, A, X):
    """Show the rows to the watch as they are before the step; returns alpha, a and q."""
    sign, weight, offset = _parts(problem, A)
    alpha, loss = problem.examples["alpha"][A], problem.loss
    a = sign * (X @ state.w) - offset
    q = _curvature(problem, state, state.beta, A, weight)
    gaps = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
    violations = np.abs(loss.dual_step(alpha, a, q) - alpha) * q
    for gap, violation in zip(gaps, violations, strict=True):
        state.watch.see(gap, violation)
    return alpha, a, q


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
