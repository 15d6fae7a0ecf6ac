"""The kernel of `methods/blocks.py`; workers wait for each other once an iteration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.methods.blocks import ALMOST_ONE
from batchsvm.methods.watch import GAP, SEEN, VIOLATION
from batchsvm.prefetch import ROWS_AHEAD, prefetch


class Exchange(NamedTuple):
    """Room for what the blocks do apart; a line of each array belongs to a worker or a block."""

    base: np.ndarray  # for each worker: w at the start of the iteration
    local: np.ndarray  # for each worker: base and what the block at hand has added to it
    moves: np.ndarray  # two turns x blocks: local - base at the end, and what it gains in N D
    moved: np.ndarray  # for each block: how many of its rows moved in this iteration
    rows: np.ndarray
    old: np.ndarray  # their alpha / c before


def make_exchange(workers: int, blocks: int, share: int, d: int) -> Exchange:
    # Lines are padded, or two workers would write to one cache line.
    wide, long = -(-(d + 1) // 8) * 8 + 8, -(-share // 8) * 8 + 8
    return Exchange(
        base=np.zeros((workers, wide)),
        local=np.zeros((workers, wide)),
        moves=np.zeros((2, blocks, wide)),
        moved=np.zeros((blocks, 16), np.int64),
        rows=np.zeros((blocks, long), np.int64),
        old=np.zeros((blocks, long)),
    )


@Kernel
def sdca_blocks(dual, team, rows, w, exchange, sampler, watch, theta, iterations, target):
    """Returns the iterations done, whether that was because the target was reached, theta of
    the last one, and how many had one below 1."""
    examples, loss, order, d = dual.examples, dual.loss, sampler.order, w.size
    me, blocks, share = team.rank, sampler.edges.size - 1, sampler.share
    base, local = exchange.base[me, :d], exchange.local[me, :d]
    for j in range(d):
        base[j] = w[j]
    position = sampler.position[0]
    done, shortened, reached = 0, 0, False
    team.wait()  # all have read w before the first of them may write it
    while done < iterations and not reached:
        if position >= sampler.longest_block():
            team.wait()
            for block in range(me, blocks, team.size):
                sampler.begin_block(block)
            position = 0
        turn = exchange.moves[done % 2]
        for block in range(me, blocks, team.size):
            for j in range(d):
                local[j] = base[j]
            start, active = sampler.edges[block], sampler.active[block, 0]
            seen, gap = watch.sums[block, SEEN], watch.sums[block, GAP]
            violation, gain, moved = watch.sums[block, VIOLATION], 0.0, 0
            slack = watch.slack(seen, violation)
            for k in range(start + position, start + min(position + share, active)):
                i = order[k]
                rows.expect(order, k)
                if k + ROWS_AHEAD < order.size:
                    prefetch(examples, order[k + ROWS_AHEAD])
                a = dual.response(i, rows.dot(i, local))
                alpha, new = examples[i].alpha, dual.step(i, a, 1.0)
                change = new - alpha
                seen += 1.0
                gap += dual.gap_of(i, a)
                violation += abs(change) * dual.curvature(i, 1.0)
                if watch.skips:
                    sampler.keep[i] = change != 0.0 or not dual.stays(i, a, 1.0, slack)
                if change != 0.0:
                    exchange.rows[block, moved], exchange.old[block, moved] = i, alpha
                    moved += 1
                    examples[i].alpha = new
                    lower = loss.conjugate(alpha) - loss.conjugate(new) - change * a
                    half = 0.5 * change * change * dual.weight_of(i) * dual.unit * examples[i].norm2
                    gain += dual.weight_of(i) * (lower - half)
                    rows.add(i, dual.unit * examples[i].signed_weight * change, local)
            watch.save(block, seen, gap, violation, 0.0)
            exchange.moved[block, 0] = moved
            for j in range(d):
                turn[block, j] = local[j] - base[j]
            turn[block, d] = gain
        team.wait()
        # What the blocks gain to first order, sum_j L_j, and ||sum_j Delta_j||^2/(lam N).
        first_order, quadratic = 0.0, 0.0
        for block in range(blocks):
            own = 0.0
            for j in range(d):
                own += turn[block, j] * turn[block, j]
            first_order += turn[block, d] + 0.5 * own / dual.unit
        for j in range(d):
            total = 0.0
            for block in range(blocks):
                total += turn[block, j]
            local[j] = total
            quadratic += total * total / dual.unit
        theta = first_order / quadratic if first_order < ALMOST_ONE * quadratic else 1.0
        for j in range(d):
            base[j] += theta * local[j]
        if theta < 1.0:
            shortened += 1
            for block in range(me, blocks, team.size):
                for k in range(exchange.moved[block, 0]):
                    i, old = exchange.rows[block, k], exchange.old[block, k]
                    examples[i].alpha = old + theta * (examples[i].alpha - old)
        done += 1
        position += share
        if position >= sampler.longest_block():
            team.wait()
            if me == 0:
                watch.judge(target)
            team.wait()
            left = 0
            for block in range(me, blocks, team.size):
                sampler.end_block(block, watch.skips, watch.verdict[2])
            team.wait()
            for block in range(blocks):
                left += sampler.active[block, 0]
            team.wait()
            if left == 0:
                for block in range(me, blocks, team.size):
                    sampler.end_block(block, False, True)
                team.wait()
            position = order.size
            reached = watch.verdict[0]
    if me == 0:
        sampler.position[0] = position
        for j in range(d):
            w[j] = base[j]
    return done, reached, theta, shortened
