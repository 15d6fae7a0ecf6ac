"""The kernel of `methods/blocks.py`.

Workers wait for each other once per iteration: then each adds up what all blocks did, in the same
order, and so has the same w as all others.  What blocks did is written to two places in turn, so
that a worker may begin the next iteration while others still read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.engines.cache_lines import empty_in_lines
from batchsvm.engines.cpu.prefetch import ROWS_AHEAD, prefetch
from batchsvm.engines.cpu.rows import Rows
from batchsvm.engines.cpu.workers import Worker
from batchsvm.engines.screening import GAP, KEPT, SEEN, VIOLATION
from batchsvm.methods import best_theta

LINE = 8  # numbers in a cache line


class Exchange(NamedTuple):
    """Room for what the blocks do apart; a line of each array belongs to a worker or a block."""

    base: np.ndarray  # for each worker: w at the start of the iteration
    local: np.ndarray  # for each worker: base and what the block at hand has added to it
    # For each turn and block: local - base at the end; what it gains in N D; ||local - base||^2.
    moves: np.ndarray
    visited: np.ndarray  # for each worker: the rows of the block at hand, and some that follow
    moved: np.ndarray  # for each block: how many of its rows moved in this iteration
    rows: np.ndarray
    old: np.ndarray  # their alpha / c before
    due: np.ndarray  # whether a full pass is due: one truth value


def make_exchange(workers: int, blocks: int, rows_per_block: int, d: int) -> Exchange:
    # Lines are padded, or two workers would write to one cache line.
    most = rows_per_block + blocks  # the last iteration of an epoch may take a few more
    wide, long = -(-(d + 2) // LINE) * LINE, -(-most // LINE) * LINE + LINE
    moves = empty_in_lines(2 * blocks * wide, np.float64).reshape(2, blocks, wide)
    moves[:] = 0.0
    return Exchange(
        base=np.zeros((workers, wide + LINE)),
        local=np.zeros((workers, wide + LINE)),
        moves=moves,
        visited=np.zeros((workers, long + 2 * ROWS_AHEAD + LINE), np.int64),
        moved=np.zeros((blocks, 16), np.int64),
        rows=np.zeros((blocks, long), np.int64),
        old=np.zeros((blocks, long)),
        due=np.zeros(1, np.bool_),
    )


class BlockWorker(NamedTuple):
    """One of the workers that share blocks of rows."""

    worker: Worker
    rows: Rows
    exchange: Exchange


@Kernel
def sdca_blocks(dual, block_worker, w, visits, theta, budget):
    """Returns the iterations done, whether that was because a full pass is due, theta of the
    last one, and how many had one below 1."""
    worker, rows, exchange = block_worker.worker, block_worker.rows, block_worker.exchange
    sampler, screening, averaging = visits.sampler, visits.screening, visits.averaging
    examples, order_of, d = dual.examples, sampler.visits, w.size
    me, blocks, order = worker.rank, order_of.edges.size - 1, order_of.order
    share = sampler.rows_per_block
    base, local = exchange.base[me, :d], exchange.local[me, :d]
    visited, every = exchange.visited[me], screening.visits_per_term(order.size)
    for j in range(d):
        base[j] = w[j]
    position = sampler.position[0]
    done, shortened, reached = 0, 0, False
    worker.wait()  # all have read w before the first of them may write it
    while done < budget.iterations and not reached:
        if position >= order.size:
            for segment in range(me, blocks, worker.workers):
                order_of.redraw(segment)
            position = 0
            worker.wait()  # all know the order
        moves = exchange.moves[done % 2]
        for block in range(me, blocks, worker.workers):
            for j in range(d):
                local[j] = base[j]
            seen, gap = screening.sums[block, SEEN], screening.sums[block, GAP]
            violation, kept = screening.sums[block, VIOLATION], screening.sums[block, KEPT]
            gain, moved = 0.0, 0
            slack = screening.slack(seen, violation)
            count = sampler.list_rows(block, position, visited, 0)
            ahead = visited[: count + 2 * ROWS_AHEAD]  # rows of the next iteration are fetched too
            known = sampler.list_rows(block, position + share, ahead, count)
            for k in range(count):
                i, near = visited[k], visited[min(k + ROWS_AHEAD, known - 1)]
                rows.prefetch_row(visited[min(k + 2 * ROWS_AHEAD, known - 1)], near)
                prefetch(examples, near)
                a = dual.response(i, rows.dot(i, local))
                alpha, new = examples[i].alpha, dual.step(i, a, 1.0)
                change = new - alpha
                if np.int64(seen) % every == 0:
                    gap += every * dual.gap_of(i, a)
                seen += 1.0
                violation += abs(change) * dual.curvature(i, 1.0)
                if screening.skips:
                    keeps = change != 0.0 or not dual.stays(i, a, 1.0, slack)
                    order_of.keep[i] = keeps
                    kept += keeps
                if change != 0.0:
                    exchange.rows[block, moved], exchange.old[block, moved] = i, alpha
                    moved += 1
                    gain += dual.gain(i, new, a)
                    examples[i].alpha = new
                    rows.add(i, dual.unit * examples[i].signed_weight * change, local)
            screening.store(block, seen, gap, violation, kept)
            exchange.moved[block, 0] = moved
            square = 0.0
            for j in range(d):
                move = local[j] - base[j]
                moves[block, j] = move
                square += move * move
            moves[block, d], moves[block, d + 1] = gain, square
        worker.wait()
        # What the blocks gain to first order, sum_j L_j, and ||sum_j Delta_j||^2/(lam N).
        first_order, quadratic = 0.0, 0.0
        for block in range(blocks):
            first_order += moves[block, d] + 0.5 * moves[block, d + 1] / dual.unit
        for j in range(d):
            total = 0.0
            for block in range(blocks):
                total += moves[block, j]
            local[j] = total
            quadratic += total * total / dual.unit
        theta = best_theta(first_order, quadratic, blocks)
        for j in range(d):
            base[j] += theta * local[j]
        if me == 0:
            averaging.observe_primal(1.0, base)
        if theta < 1.0:
            shortened += 1
            for block in range(me, blocks, worker.workers):
                for k in range(exchange.moved[block, 0]):
                    i, old = exchange.rows[block, k], exchange.old[block, k]
                    examples[i].alpha = old + theta * (examples[i].alpha - old)
        done += 1
        position += share
        if position >= order_of.longest_segment():
            worker.wait()
            if me == 0:
                exchange.due[0] = screening.end_epoch(budget.target, 0)
                averaging.fade()
            worker.wait()
            position = order.size
            reached = exchange.due[0]
    if me == 0:
        sampler.position[0] = position
        for j in range(d):
            w[j] = base[j]
    return done, reached, theta, shortened
