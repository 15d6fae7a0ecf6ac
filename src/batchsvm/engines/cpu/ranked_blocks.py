"""The kernel of `Blocks(exchange="frequency")` (`methods/blocks.py`), for many columns.

Each block has a w of its own, in which it sees all of its own steps.  After each iteration the
blocks exchange what they changed in the columns that are due (`engines/column_ranks.py`): each
worker lists the changes of its blocks in one run of memory, all wait, each adds up the changes of
all blocks in its part of these columns, all wait again, and each copies the sums to its blocks.
So one core reads from another in long runs alone.

Where all columns are due, all blocks have the same w, which is w(alpha), and it is known by how
much D has risen since this was last so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel, struct_methods
from batchsvm.engines.column_ranks import ColumnRanks
from batchsvm.engines.cpu.prefetch import ROWS_AHEAD, prefetch
from batchsvm.engines.cpu.rows import Rows
from batchsvm.engines.cpu.workers import Worker
from batchsvm.engines.screening import GAP, KEPT, SEEN, VIOLATION
from batchsvm.methods import next_block_beta

LINE = 8  # numbers in a cache line
RUN = 2**14  # columns that are exchanged at a time: their changes stay in a core's own cache
# What a block sums up since all blocks had the same w.
RISE, PROMISE, SQUARES = 0, 1, 2


class RankedExchange(NamedTuple):
    """Room for what the blocks do apart; a line of each array belongs to a worker or a block."""

    ranks: ColumnRanks
    base: np.ndarray  # by rank: what all blocks have in common
    local: np.ndarray  # for each block: w as it sees it, with its own steps beta times as long
    moves: np.ndarray  # for each block, by rank: what it has added to the base
    visited: np.ndarray  # for each worker: the rows of the block at hand, and some that follow
    totals: np.ndarray  # for each block: RISE, PROMISE, SQUARES
    turn: np.ndarray  # iterations so far: one integer
    due: np.ndarray  # whether a full pass is due: one truth value

    def add_up(self, worker, stop, beta):
        """Exchange the changes in the columns of the ranks before `stop`; blocks see their own
        steps `beta` times as long."""
        columns, base, blocks = self.ranks.columns, self.base, self.local.shape[0]
        for start in range(0, stop, RUN):
            count = min(RUN, stop - start)
            for block in range(worker.rank, blocks, worker.workers):
                local, moves = self.local[block], self.moves[block]
                for k in range(count):
                    moves[k] = (local[columns[start + k]] - base[start + k]) / beta
            worker.wait()
            for block in range(worker.rank, blocks, worker.workers):
                # A part of the columns for each block, and not for each worker: so the sum of
                # squares does not depend on their number.
                squares = 0.0
                for k in range(block * count // blocks, (block + 1) * count // blocks):
                    old, change = base[start + k], 0.0
                    for other in range(blocks):
                        change += self.moves[other, k]
                    base[start + k] = old + change
                    squares += change * (2.0 * old + change)
                self.totals[block, SQUARES] += squares
            worker.wait()
            for block in range(worker.rank, blocks, worker.workers):
                local = self.local[block]
                for k in range(count):
                    local[columns[start + k]] = base[start + k]

    def part_kept(self, unit):
        """The part of the promised rise of N D that came true since this was last asked."""
        rise, promise = 0.0, 0.0
        for block in range(self.totals.shape[0]):
            rise += self.totals[block, RISE] - 0.5 / unit * self.totals[block, SQUARES]
            promise += self.totals[block, PROMISE]
        return rise / promise if promise > 0.0 else 1.0


struct_methods(ColumnRanks.due_end, RankedExchange.add_up, RankedExchange.part_kept)


def make_ranked_exchange(
    ranks: ColumnRanks, workers: int, blocks: int, rows_per_block: int
) -> RankedExchange:
    d = ranks.columns.size
    # Lines are padded, or two workers would write to one cache line.
    wide, run = (-(-size // LINE) * LINE + 2 * LINE for size in (d, min(d, RUN)))
    # The last iteration of an epoch may take a few more.
    rows = rows_per_block + blocks + 2 * ROWS_AHEAD + 2 * LINE
    return RankedExchange(
        ranks=ranks,
        base=np.zeros(d),
        local=np.zeros((blocks, wide)),
        moves=np.zeros((blocks, run)),
        visited=np.zeros((workers, rows), np.int64),
        totals=np.zeros((blocks, 2 * LINE)),
        turn=np.zeros(1, np.int64),
        due=np.zeros(1, np.bool_),
    )


class RankedWorker(NamedTuple):
    """One of the workers that share blocks of rows."""

    worker: Worker
    rows: Rows
    exchange: RankedExchange


@Kernel
def sdca_ranked_blocks(dual, ranked_worker, w, visits, beta, budget):
    """Returns the iterations done, whether that was because a full pass is due, and beta."""
    worker, rows, exchange = ranked_worker.worker, ranked_worker.rows, ranked_worker.exchange
    sampler, screening = visits.sampler, visits.screening
    examples, loss, order_of, d = dual.examples, dual.loss, sampler.visits, w.size
    me, blocks, order = worker.rank, order_of.edges.size - 1, order_of.order
    share, columns, totals = sampler.rows_per_block, exchange.ranks.columns, exchange.totals
    visited, every = exchange.visited[me], screening.visits_per_term(order.size)
    if budget.iterations == 0:  # this call only compiles
        return 0, False, beta
    first, last = worker.portion(d)
    for k in range(first, last):
        exchange.base[k] = w[columns[k]]
    for block in range(me, blocks, worker.workers):
        for j in range(d):
            exchange.local[block, j] = w[j]
    position, turn = sampler.position[0], exchange.turn[0]
    done, reached = 0, False
    worker.wait()  # all have read w and the base is whole
    while done < budget.iterations and not reached:
        if position >= order.size:
            for segment in range(me, blocks, worker.workers):
                order_of.redraw(segment)
            position = 0
            worker.wait()  # all know the order
        for block in range(me, blocks, worker.workers):
            local = exchange.local[block, :d]
            seen, gap = screening.sums[block, SEEN], screening.sums[block, GAP]
            violation, kept = screening.sums[block, VIOLATION], screening.sums[block, KEPT]
            rise, promise = totals[block, RISE], totals[block, PROMISE]
            slack = screening.slack(seen, violation)
            count = sampler.list_rows(block, position, visited, 0)
            ahead = visited[: count + 2 * ROWS_AHEAD]  # rows of the next iteration are fetched too
            known = sampler.list_rows(block, position + share, ahead, count)
            for k in range(count):
                i, near = visited[k], visited[min(k + ROWS_AHEAD, known - 1)]
                rows.prefetch_row(visited[min(k + 2 * ROWS_AHEAD, known - 1)], near)
                prefetch(examples, near)
                a = dual.response(i, rows.dot(i, local))
                alpha, new = examples[i].alpha, dual.step(i, a, beta)
                change = new - alpha
                if np.int64(seen) % every == 0:
                    gap += every * dual.gap_of(i, a)
                seen += 1.0
                violation += abs(change) * dual.curvature(i, beta)
                if screening.skips:
                    keeps = change != 0.0 or not dual.stays(i, a, beta, slack)
                    order_of.keep[i] = keeps
                    kept += keeps
                if change != 0.0:
                    lower = loss.conjugate(alpha) - loss.conjugate(new)
                    rise += dual.weight_of(i) * (lower + change * examples[i].offset)
                    promise += dual.gain(i, new, a)
                    examples[i].alpha = new
                    rows.add(i, beta * dual.unit * examples[i].signed_weight * change, local)
            screening.store(block, seen, gap, violation, kept)
            totals[block, RISE], totals[block, PROMISE] = rise, promise
        turn += 1
        done += 1
        position += share
        over = position >= order_of.longest_segment()
        if over:
            worker.wait()  # all have stored what they have seen
            if me == 0:
                exchange.due[0] = screening.end_epoch(budget.target, 0)
            worker.wait()
            position, reached = order.size, exchange.due[0]
        stop = exchange.ranks.due_end(turn)
        exchange.add_up(worker, stop, beta)
        if stop == d or reached or done == budget.iterations:
            if stop < d:
                exchange.add_up(worker, d, beta)
            beta = next_block_beta(beta, exchange.part_kept(dual.unit), float(blocks))
            worker.wait()  # all have read the totals
            for block in range(me, blocks, worker.workers):
                totals[block] = 0.0
    first, last = worker.portion(d)
    for k in range(first, last):
        w[columns[k]] = exchange.base[k]
    if me == 0:
        sampler.position[0], exchange.turn[0] = position, turn
    return done, reached, beta
