"""The kernel of `methods/gram.py`.

Each worker takes some batches of a round, and sees to them alone; the workers wait for each other
once per round.  Then each adds up what all batches did, in the same order, and so has the same w
as all others, as in `blocks.py`.  A single batch at a time needs none of that: its rows are added
to w itself, so that nothing costs O(d) on sparse data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel, struct_methods
from batchsvm.engines.batch_order import BatchOrder
from batchsvm.engines.cpu.prefetch import ROWS_AHEAD, prefetch
from batchsvm.engines.cpu.rows import Rows
from batchsvm.engines.cpu.workers import Worker
from batchsvm.engines.screening import GAP
from batchsvm.methods import joint_theta, next_joint_beta

LINE = 8  # numbers in a cache line


class GramMatrices(NamedTuple):
    """The rows of batch after batch, and inner products of those of one batch.

    Where the matrices are kept, line k of `entries` belongs to place k of `members`, and a matrix
    is computed when its batch is first visited.  Else each worker has room for one.
    """

    members: np.ndarray
    entries: np.ndarray
    known: np.ndarray  # for each batch, whether its matrix is there; empty if none is kept

    def prepare(self, rows, number, begin, size, room, scratch):
        """Where in `entries` the matrix of this batch is, computed if need be; `room` is the place
        of the worker's own.  `scratch` is a zero vector as long as w, and is left zero."""
        place = room
        if self.known.size > 0:
            place = begin
            if self.known[number]:
                return place
            self.known[number] = True
        for k in range(size):
            rows.add(self.members[begin + k], 1.0, scratch)
            for other in range(k, size):
                entry = rows.dot(self.members[begin + other], scratch)
                self.entries[place + k, other] = entry
                self.entries[place + other, k] = entry
            rows.flush(self.members[begin + k], 0.0, scratch, scratch)
        return place

    def sweep(self, dual, begin, place, beta, m):
        """A serial step on each row of the batch; m are its <x_i, w>, and follow the steps."""
        for k in range(m.size):
            i = self.members[begin + k]
            alpha = dual.examples[i].alpha
            new = dual.step(i, dual.response(i, m[k]), beta)
            if new != alpha:
                dual.examples[i].alpha = new
                c = beta * dual.unit * dual.examples[i].signed_weight * (new - alpha)
                for other in range(m.size):
                    m[other] += c * self.entries[place + k, other]


struct_methods(GramMatrices.prepare, GramMatrices.sweep)


class GramRoom(NamedTuple):
    """Room for what the batches of a round do apart; a line of each array belongs to a worker or
    to a batch.  The first three have no columns if one batch at a time is taken."""

    base: np.ndarray  # for each worker: w at the start of the round
    total: np.ndarray  # for each worker: the sum of the moves
    # For each turn and batch: Delta_s; then what it gains in N D to first order, the sum of the
    # squared changes of alpha / c, and ||Delta_s||^2.
    moves: np.ndarray
    scratch: np.ndarray  # for each worker: zeros
    before: np.ndarray  # for each worker: <x_i, w> at the start
    m: np.ndarray  # for each worker: <x_i, w> as the steps change it
    old: np.ndarray  # for each batch: alpha / c at the start


class GramWorker(NamedTuple):
    """One of the workers that share the batches of a round."""

    worker: Worker
    rows: Rows
    matrices: GramMatrices
    room: GramRoom


class GramRule(NamedTuple):
    """How a round goes (`methods/gram.py`)."""

    beta: float
    batch_size: int
    batches: int  # at once
    sweeps: int
    curvature_of_conjugate: float


def make_matrices(order: BatchOrder, workers: int, max_bytes: int) -> GramMatrices:
    n, b = order.rows.size, order.batch_size
    kept = n * b * 8 <= max_bytes
    return GramMatrices(
        order.rows,
        np.empty((n if kept else workers * b, b)),
        np.zeros(order.count if kept else 0, np.bool_),
    )


def make_room(workers: int, order: BatchOrder, d: int) -> GramRoom:
    # Lines are padded, or two workers would write to one cache line.
    wide, long = _padded(d + 3), _padded(order.batch_size)
    exchanged = wide if order.batches > 1 else 0
    return GramRoom(
        base=np.zeros((workers, exchanged)),
        total=np.zeros((workers, exchanged)),
        moves=np.zeros((2, order.batches, exchanged)),
        scratch=np.zeros((workers, wide)),
        before=np.zeros((workers, long)),
        m=np.zeros((workers, long)),
        old=np.zeros((order.batches, long)),
    )


def _padded(width: int) -> int:
    return -(-width // LINE) * LINE + LINE


@Kernel
def sdca_gram(dual, gram_worker, w, screening, rule, order):
    """The rounds whose batches are numbered in `order`, within one epoch.  Returns beta, and how
    many of the rounds had a theta below 1."""
    worker, rows, room = gram_worker.worker, gram_worker.rows, gram_worker.room
    matrices, examples, loss = gram_worker.matrices, dual.examples, dual.loss
    members, b, at_once = matrices.members, rule.batch_size, rule.batches
    me, d, beta, shortened = worker.rank, w.size, rule.beta, 0
    base, total = w, w
    if at_once > 1:
        base, total = room.base[me, :d], room.total[me, :d]
        for j in range(d):
            base[j] = w[j]
    worker.wait()  # all have read w before the first of them may write it
    for first in range(0, order.size, at_once):
        count = min(at_once, order.size - first)
        moves = room.moves[first // at_once % 2]
        for slot in range(me, count, worker.workers):
            number = order[first + slot]
            begin = number * b
            size = min(b, members.size - begin)
            before, m, old = room.before[me, :size], room.m[me, :size], room.old[slot, :size]
            place = matrices.prepare(rows, number, begin, size, me * b, room.scratch[me, :d])
            gap = 0.0
            for k in range(size):
                i = members[begin + k]
                rows.prefetch_ahead(members, begin + k)
                prefetch(examples, members[min(begin + k + ROWS_AHEAD, members.size - 1)])
                before[k] = rows.dot(i, base)
                m[k], old[k] = before[k], examples[i].alpha
                gap += dual.gap_of(i, dual.response(i, before[k]))
            screening.sums[slot, GAP] += gap
            for _ in range(rule.sweeps):
                matrices.sweep(dual, begin, place, beta, m)
            target = w
            if at_once > 1:
                target = moves[slot, :d]
                for j in range(d):
                    target[j] = 0.0
            gain, squares, norm2 = 0.0, 0.0, 0.0
            for k in range(size):
                i = members[begin + k]
                change = examples[i].alpha - old[k]
                if change != 0.0:
                    v = dual.unit * examples[i].signed_weight * change
                    rows.add(i, v, target)
                    if at_once > 1:
                        norm2 += v * (m[k] - before[k]) / beta  # ||X' v||^2 = v' G v
                        conjugates = loss.conjugate(old[k]) - loss.conjugate(examples[i].alpha)
                        weight, a = dual.weight_of(i), dual.response(i, before[k])
                        gain += weight * (conjugates - change * a)
                        squares += weight * change * change
            if at_once > 1:
                moves[slot, d], moves[slot, d + 1], moves[slot, d + 2] = gain, squares, norm2
        if at_once == 1:
            continue
        worker.wait()
        first_order, curved, sum_of_squares, square = 0.0, 0.0, 0.0, 0.0
        for slot in range(count):
            first_order += moves[slot, d]
            curved += rule.curvature_of_conjugate * moves[slot, d + 1]
            sum_of_squares += moves[slot, d + 2]
        for j in range(d):
            entry = 0.0
            for slot in range(count):
                entry += moves[slot, j]
            total[j] = entry
            square += entry * entry
        theta = joint_theta(first_order, square / dual.unit, curved, at_once)
        beta = next_joint_beta(beta, square, sum_of_squares, at_once)
        for j in range(d):
            base[j] += theta * total[j]
        if theta < 1.0:
            shortened += 1
            for slot in range(me, count, worker.workers):
                begin = order[first + slot] * b
                for k in range(min(b, members.size - begin)):
                    i, alpha = members[begin + k], room.old[slot, k]
                    examples[i].alpha = alpha + theta * (examples[i].alpha - alpha)
    if at_once > 1 and me == 0:
        for j in range(d):
            w[j] = base[j]
    return beta, shortened
