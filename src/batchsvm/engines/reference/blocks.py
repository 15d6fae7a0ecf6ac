"""The iterations of `methods/blocks.py` in plain NumPy, row by row."""

from __future__ import annotations

import numpy as np

from batchsvm.engines.column_ranks import rank_columns
from batchsvm.engines.reference.problem import ReferenceProblem
from batchsvm.engines.reference.terms import gains_of, stays
from batchsvm.engines.sampling import BlockSampler
from batchsvm.engines.screening import GAP, KEPT, SEEN, VIOLATION
from batchsvm.engines.state import DualState
from batchsvm.methods import best_theta, next_block_beta


def begin_epoch(sampler: BlockSampler) -> None:
    """Draw the order of the rows, if the last one is spent."""
    visits = sampler.visits
    if sampler.position[0] >= visits.order.size:
        with np.errstate(over="ignore"):  # of the random generator, whose numbers wrap around
            for segment in range(visits.edges.size - 1):
                visits.redraw(segment)
        sampler.position[0] = 0


def epoch_is_over(state: DualState, sampler: BlockSampler) -> bool:
    """Go on to the next rows; whether there are none left in this epoch."""
    sampler.position[0] += sampler.rows_per_block
    if sampler.position[0] < sampler.visits.longest_segment():
        return False
    sampler.position[0] = sampler.visits.order.size
    state.averaging.fade()
    return True


def take_block(
    problem: ReferenceProblem,
    state: DualState,
    sampler: BlockSampler,
    block: int,
    local: np.ndarray,
    beta: float,
) -> tuple[float, float]:
    """Serial steps on the rows of a block, which change `local` as if each of them were made
    `beta` times; what they gain in N D one by one, and by how much its terms of alpha rise."""
    loss, examples, screening = problem.loss, problem.examples, state.screening
    visits, unit = sampler.visits, 1 / (problem.lam * problem.total_weight)
    slack = screening.slack(screening.sums[block, SEEN], screening.sums[block, VIOLATION])
    taken = np.empty(visits.order.size, np.int64)
    count = sampler.list_rows(block, sampler.position[0], taken, 0)
    promise, rise = 0.0, 0.0
    for i in taken[:count]:
        A = np.array([i])
        X, (sign, weight, offset) = problem.rows_of(A), problem.parts(A)
        alpha, a = examples["alpha"][A], sign * (X @ local) - offset
        q = problem.curvature(A, beta, state.least_norm2)
        new = loss.dual_step(alpha, a, q)
        gap = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
        screening.sums[block, [SEEN, GAP, VIOLATION]] += 1, gap[0], (np.abs(new - alpha) * q)[0]
        if screening.skips:
            visits.keep[i] = new != alpha or not stays(loss, alpha, a, q, slack)
            screening.sums[block, KEPT] += visits.keep[i]
        promise += gains_of(problem, A, new, a)[0]
        lower = loss.conjugate(alpha) - loss.conjugate(new)
        rise += (weight * (lower + (new - alpha) * offset))[0]
        examples["alpha"][A] = new
        local += beta * unit * X.T @ (sign * weight * (new - alpha))
    return promise, rise


def blocks_iteration(
    problem: ReferenceProblem, state: DualState, sampler: BlockSampler, target: float
) -> bool:
    """Serial steps in each block from the same w, their sum scaled by theta; at the end of an
    epoch, whether a full pass is due."""
    examples, unit = problem.examples, 1 / (problem.lam * problem.total_weight)
    blocks = sampler.visits.edges.size - 1
    begin_epoch(sampler)
    before, moves, first_order = examples["alpha"].copy(), [], 0.0
    for block in range(blocks):
        local = state.w.copy()
        promise, _ = take_block(problem, state, sampler, block, local, 1.0)
        moves.append(local - state.w)
        first_order += promise + moves[-1] @ moves[-1] / (2 * unit)
    total = np.sum(moves, axis=0)
    quadratic = total @ total / unit
    theta = best_theta(first_order, quadratic, blocks)
    state.beta = 1 / theta
    state.refused += theta < 1
    if theta < 1:
        examples["alpha"] = before + theta * (examples["alpha"] - before)
    state.w += theta * total
    state.averaging.observe_primal(1.0, state.w)
    return epoch_is_over(state, sampler) and bool(state.screening.end_epoch(target, 0))


class RankedBlocks:
    """Blocks that exchange frequent columns more often than rare ones."""

    def __init__(self, problem: ReferenceProblem, state: DualState, sampler: BlockSampler) -> None:
        self.problem, self.state, self.sampler = problem, state, sampler
        self.blocks = sampler.visits.edges.size - 1
        rows_at_once = self.blocks * sampler.rows_per_block
        self.ranks = rank_columns(problem.data, problem, rows_at_once)
        self.local = np.zeros((self.blocks, problem.d))
        self.rise = self.promise = 0.0
        self.turn = 0

    def begin(self) -> None:
        """All blocks start at w."""
        self.local[:] = self.state.w
        self.norm2 = self.state.w @ self.state.w

    def iterate(self, target: float, is_last: bool) -> bool:
        """An iteration, after which w is w(alpha) if it `is_last`; at the end of an epoch, whether
        a full pass is due."""
        problem, state, sampler = self.problem, self.state, self.sampler
        begin_epoch(sampler)
        for block in range(self.blocks):
            promise, rise = take_block(
                problem, state, sampler, block, self.local[block], state.beta
            )
            self.promise += promise
            self.rise += rise
        self.turn += 1
        over = epoch_is_over(state, sampler)
        due = over and bool(state.screening.end_epoch(target, 0))
        stop = self.ranks.due_end(self.turn)
        self.exchange(stop)
        if stop == problem.d or is_last or due:
            self.exchange(problem.d)
            self.guard()
        return due

    def exchange(self, stop: int) -> None:
        """Add up what the blocks have changed in the columns of the ranks before `stop`."""
        columns = self.ranks.columns[:stop]
        moves = (self.local[:, columns] - self.state.w[columns]) / self.state.beta
        self.state.w[columns] += moves.sum(axis=0)
        self.local[:, columns] = self.state.w[columns]

    def guard(self) -> None:
        """Let beta grow if D has risen by too little since all blocks had the same w."""
        problem, state = self.problem, self.state
        norm2 = state.w @ state.w
        rise = self.rise - problem.lam * problem.total_weight / 2 * (norm2 - self.norm2)
        kept = rise / self.promise if self.promise > 0.0 else 1.0
        state.beta = next_block_beta(state.beta, kept, float(self.blocks))
        self.norm2, self.rise, self.promise = norm2, 0.0, 0.0
