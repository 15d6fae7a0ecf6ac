"""Kernels of the dual methods: a whole chunk of iterations in one call.

Nothing in an iteration costs O(d) on sparse data, and nothing is allocated: kernels are
given the room they need.  What an iteration does is said in `methods/sdca.py`.

A kernel is run by all workers at once. Each computes, for every row of the batch, the part of
<x_i, w> that lies in its own columns; then all wait; then each takes the steps of the rows that
are its own; all wait again; and each adds the batch to its own columns of w. What a worker writes
no other writes, in this or any other batch, and next to nothing of it is read by others: a cache
line that another core has written costs more than a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel, struct_methods
from batchsvm.engines.cpu.column_slices import ColumnSlice
from batchsvm.engines.cpu.prefetch import ROWS_AHEAD, prefetch
from batchsvm.engines.cpu.workers import Worker
from batchsvm.engines.screening import GAP, KEPT, PROMISE, RISE, SEEN, VIOLATION
from batchsvm.methods import next_beta


class Batch(NamedTuple):
    """What the workers tell each other about the batch at hand; a line of each array belongs to
    one of them."""

    size: int  # rows of the batch
    products: np.ndarray  # <x_i, w> over the worker's columns, for each row of the batch
    counts: np.ndarray  # how many of the batch's rows are listed in what follows
    rows: np.ndarray
    coefficients: np.ndarray  # of x_i in what is to be added to w or to Delta
    responses: np.ndarray
    new: np.ndarray  # alpha_i / c_i after the step
    moved: np.ndarray
    totals: np.ndarray  # sums over the worker's rows and over its columns
    due: np.ndarray  # whether a full pass is due: one truth value

    def multiply(self, worker, rows, examples, order, start, w):
        """A worker's part of <x_i, w> for the batch that starts at `start`."""
        first, last = worker.portion(examples.size)
        for k in range(start, start + self.size):
            rows.prefetch_ahead(order, k)
            ahead = order[min(k + ROWS_AHEAD, order.size - 1)]
            if first <= ahead < last:  # fetched by another, it would have to come back
                prefetch(examples, ahead)
            self.products[worker.rank, k - start] = rows.dot(order[k], w)

    def product(self, k):
        """<x_i, w> of the k-th row, of the parts that the workers have computed."""
        total = 0.0
        for other in range(self.products.shape[0]):
            total += self.products[other, k]
        return total

    def slack_of(self, screening):
        """The slack, where the workers have put rows seen and violation in `totals`."""
        seen, violation = 0.0, 0.0
        for worker in range(self.totals.shape[0]):
            seen += self.totals[worker, 0]
            violation += self.totals[worker, 1]
        return screening.slack(seen, violation)


struct_methods(Batch.multiply, Batch.product, Batch.slack_of)


class BatchWorker(NamedTuple):
    """One of the workers that share batches: its slice of the columns, and the batch at hand."""

    worker: Worker
    rows: ColumnSlice
    batch: Batch


def make_batch(workers: int, size: int) -> Batch:
    # Lines are padded, or two workers would write to one cache line.
    wide = (workers, -(-size // 8) * 8 + 8)
    return Batch(
        size=size,
        products=np.zeros(wide),
        counts=np.zeros((workers, 16), np.int64),
        rows=np.zeros(wide, np.int64),
        coefficients=np.zeros(wide),
        responses=np.zeros(wide),
        new=np.zeros(wide),
        moved=np.zeros(wide, np.int64),
        totals=np.zeros((workers, 16)),
        due=np.zeros(1, np.bool_),
    )


@Kernel
def screen_rows(dual, screening, keep, beta, start, responses):
    """Keep those rows, from `start` on, that would move at these responses, or if they were off
    by the slack."""
    slack = screening.slack(0.0, np.inf)  # infinite while no row has been left out
    for k in range(responses.size):
        keep[k] = not dual.stays(start + k, responses[k], beta, slack)


@Kernel
def sdca_fixed_beta(dual, batch_worker, w, visits, rule, budget):
    """Naive, guarded and safe SDCA.

    Returns the iterations done, whether that was because a full pass is due, and beta.
    """
    worker, rows, batch = batch_worker.worker, batch_worker.rows, batch_worker.batch
    sampler, screening, averaging = visits.sampler, visits.screening, visits.averaging
    beta = rule.beta
    examples, order = dual.examples, sampler.order
    b, me = sampler.batch_size, worker.rank
    first, last = worker.portion(examples.size)  # the rows that are this worker's own
    start, visited = sampler.position[0], sampler.visited[0]
    seen, gap = screening.sums[me, SEEN], screening.sums[me, GAP]
    violation, rise = screening.sums[me, VIOLATION], screening.sums[me, RISE]
    promise, kept = screening.sums[me, PROMISE], screening.sums[me, KEPT]
    batch.totals[me, 0], batch.totals[me, 1] = seen, violation
    every = screening.visits_per_term(sampler.n)
    done, reached = 0, False
    worker.wait()
    while done < budget.iterations and not reached:
        slack = batch.slack_of(screening)  # of all rows seen before this batch
        start = sampler.renew(worker, start)
        if me == 0:
            averaging.observe(1.0)
        batch.multiply(worker, rows, examples, order, start, w)
        worker.wait()
        guards = rule.guards and screening.looks_at_rise(start // b, sampler.active_rows() // b)
        count = 0
        for k in range(b):
            i = order[start + k]
            if not first <= i < last:
                continue
            a = dual.response(i, batch.product(k))
            alpha, new = examples[i].alpha, dual.step(i, a, beta)
            change = new - alpha
            seen += 1.0
            if (visited + k) % every == 0:
                gap += every * dual.gap_of(i, a)
            violation += abs(change) * dual.curvature(i, beta)
            if screening.skips:
                keeps = change != 0.0 or not dual.stays(i, a, beta, slack)
                sampler.visits.keep[i] = keeps
                kept += keeps
            if change != 0.0:
                if guards:
                    gain = dual.loss.conjugate(alpha) - dual.loss.conjugate(new)
                    rise += dual.weight_of(i) * (gain + change * examples[i].offset)
                    promise += dual.gain(i, new, a)
                examples[i].alpha = new
                averaging.note(i, change)
                batch.rows[me, count] = i
                batch.coefficients[me, count] = dual.unit * examples[i].signed_weight * change
                count += 1
        batch.counts[me, 0] = count
        batch.totals[me, 0], batch.totals[me, 1] = seen, violation
        worker.wait()
        for other in range(worker.workers):
            for k in range(batch.counts[other, 0]):
                i, c = batch.rows[other, k], batch.coefficients[other, k]
                if guards:  # N D has a term -||w||^2 lam N/2
                    rise -= 0.5 / dual.unit * rows.add_norm2(i, c, w)
                else:
                    rows.add(i, c, w)
        done += 1
        start += b
        visited += b
        if sampler.epoch_is_over(start, visited):
            screening.store(me, seen, gap, violation, kept)
            screening.sums[me, RISE], screening.sums[me, PROMISE] = rise, promise
            seen, gap, violation, rise, promise, kept = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            worker.wait()
            if me == 0:
                batch.due[0] = screening.end_epoch(budget.target, sampler.active_rows() - start)
            worker.wait()
            visited = 0
            start = order.size  # a shuffle is due
            if rule.guards:  # beta_b is at most b, whatever the data
                beta = next_beta(beta, screening.kept_promise(), float(b))
            reached = batch.due[0]
    screening.store(me, seen, gap, violation, kept)
    screening.sums[me, RISE], screening.sums[me, PROMISE] = rise, promise
    if me == 0:
        sampler.position[0] = start
        sampler.visited[0] = visited
    return done, reached, beta


@Kernel
def sdca_aggressive(dual, batch_worker, w, delta, visits, rule, budget):
    """Algorithm 2; `delta` is a zero vector as long as w, and is left zero.

    Returns as `sdca_fixed_beta`, and the number of refused steps.
    """
    worker, rows, batch = batch_worker.worker, batch_worker.rows, batch_worker.batch
    sampler, screening, averaging = visits.sampler, visits.screening, visits.averaging
    beta, beta_b, gamma, rounds = rule.beta, rule.beta_b, rule.gamma, rule.rounds
    examples, loss, order = dual.examples, dual.loss, sampler.order
    b, me = sampler.batch_size, worker.rank
    first, last = worker.portion(examples.size)
    start, visited = sampler.position[0], sampler.visited[0]
    seen, gap, violation = (
        screening.sums[me, SEEN],
        screening.sums[me, GAP],
        screening.sums[me, VIOLATION],
    )
    refused, done, reached = 0, 0, False
    while done < budget.iterations and not reached:
        start = sampler.renew(worker, start)
        batch.multiply(worker, rows, examples, order, start, w)
        worker.wait()
        if me == 0:
            averaging.observe(1.0)
        count, zeta = 0, 0.0
        for k in range(b):  # the tentative step
            i = order[start + k]
            if not first <= i < last:
                continue
            a = dual.response(i, batch.product(k))
            new = dual.step(i, a, beta)
            change = new - examples[i].alpha
            seen += 1.0
            gap += dual.gap_of(i, a)
            violation += abs(change) * dual.curvature(i, beta)
            batch.rows[me, count] = i
            batch.responses[me, count] = a
            batch.new[me, count] = new
            batch.moved[me, count] = change != 0.0
            batch.coefficients[me, count] = examples[i].signed_weight * change
            count += 1
            change *= dual.weight_of(i)
            zeta += max(examples[i].norm2, dual.least_norm2) * change * change
        batch.counts[me, 0] = count
        norm2, gain, rho = 0.0, 0.0, beta  # norm2: of this worker's columns of Delta
        for turn in range(rounds + 1):
            batch.totals[me, 0], batch.totals[me, 1] = zeta, gain
            worker.wait()
            for other in range(worker.workers):
                for k in range(batch.counts[other, 0]):
                    c = batch.coefficients[other, k]
                    if c != 0.0:
                        norm2 += rows.add_norm2(batch.rows[other, k], c, delta)
            batch.totals[me, 2] = norm2
            worker.wait()
            all_zeta, all_gain, all_norm2 = 0.0, 0.0, 0.0
            for other in range(worker.workers):
                all_zeta += batch.totals[other, 0]
                all_gain += batch.totals[other, 1]
                all_norm2 += batch.totals[other, 2]
            if turn == rounds:
                break
            rho = min(max(all_norm2 / all_zeta, 1.0), beta_b) if all_zeta > 0.0 else beta
            zeta, gain = 0.0, 0.0
            for k in range(count):
                i, a, tentative = batch.rows[me, k], batch.responses[me, k], batch.new[me, k]
                alpha, best = examples[i].alpha, dual.step(i, a, rho)
                batch.coefficients[me, k] = examples[i].signed_weight * (best - tentative)
                batch.moved[me, k] |= best != tentative
                batch.new[me, k] = best
                change = dual.weight_of(i) * (best - alpha)
                if change != 0.0:
                    zeta += max(examples[i].norm2, dual.least_norm2) * change * change
                    lower = loss.conjugate(alpha) - loss.conjugate(best) - (best - alpha) * a
                    gain += dual.weight_of(i) * lower
            worker.wait()  # all have read the totals before they are written again
        # N (D(alpha + delta) - D(alpha)), by eq. (Ddelta)
        accepted = all_gain - 0.5 * dual.unit * all_norm2 > 0.0
        refused += all_zeta > 0.0 and not accepted
        beta = beta**gamma * rho ** (1.0 - gamma)
        for other in range(worker.workers):
            for k in range(batch.counts[other, 0]):
                if batch.moved[other, k]:
                    rows.flush(batch.rows[other, k], dual.unit if accepted else 0.0, delta, w)
        if accepted:
            for k in range(count):
                i = batch.rows[me, k]
                averaging.note(i, batch.new[me, k] - examples[i].alpha)
                examples[i].alpha = batch.new[me, k]
        done += 1
        start += b
        visited += b
        if sampler.epoch_is_over(start, visited):
            screening.store(me, seen, gap, violation, 0.0)
            seen, gap, violation = 0.0, 0.0, 0.0
            worker.wait()
            if me == 0:
                batch.due[0] = screening.end_epoch(budget.target, 0)
            worker.wait()
            visited = 0
            reached = batch.due[0]
    screening.store(me, seen, gap, violation, 0.0)
    if me == 0:
        sampler.position[0] = start
        sampler.visited[0] = visited
    return done, reached, beta, refused
