"""Kernels of the dual methods: a whole chunk of iterations in one call.

Nothing in an iteration costs O(d) on sparse data, and nothing is allocated: kernels are
given the room they need.  What an iteration does is said in `methods/sdca.py`.

A kernel is run by all workers of a team at once.  Each computes, for every row of the
batch, the part of <x_i, w> that lies in its own columns; then all wait; then each takes
the steps of the rows that are its own; all wait again; and each adds the batch to its own
columns of w.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel, struct_method
from batchsvm.losses import TINY, Loss
from batchsvm.methods.watch import GAP, PROMISE, RISE, SEEN, STAYED, VIOLATION


@struct_method
def weight_of(self, i): ...


@struct_method
def response(self, i, product): ...


@struct_method
def curvature(self, i, beta): ...


@struct_method
def step(self, i, a, beta): ...


@struct_method
def gain(self, i, new, a): ...


@struct_method
def gap_of(self, i, a): ...


@struct_method
def stays(self, i, a, beta, slack): ...


class Dual(NamedTuple):
    """The dual problem as a kernel sees it; entry i of each array belongs to row i."""

    examples: np.ndarray
    loss: Loss
    unit: float  # 1/(lam N)
    least_norm2: float

    def weight_of(self, i):
        return abs(self.examples[i].signed_weight)

    def response(self, i, product):
        """a_i, where <x_i, w> is known."""
        return np.copysign(1.0, self.examples[i].signed_weight) * product - self.examples[i].offset

    def curvature(self, i, beta):
        """q of the losses: beta ||x_i||^2 c_i / (lam N)."""
        norm2 = max(self.examples[i].norm2, self.least_norm2)
        return max(beta * norm2 * self.weight_of(i) * self.unit, TINY)

    def step(self, i, a, beta):
        """alpha_i / c_i after the step of eq. (MBalphai), at the response a."""
        return self.loss.dual_step(self.examples[i].alpha, a, self.curvature(i, beta))

    def gain(self, i, new, a):
        """By how much N D rises if alpha_i / c_i alone becomes `new`."""
        alpha, weight = self.examples[i].alpha, self.weight_of(i)
        change = weight * (new - alpha)
        lower = weight * (self.loss.conjugate(alpha) - self.loss.conjugate(new)) - change * a
        return lower - 0.5 * self.unit * self.examples[i].norm2 * change * change

    def gap_of(self, i, a):
        """The term of row i in the duality gap, at the response a."""
        alpha = self.examples[i].alpha
        return self.weight_of(i) * (self.loss.value(a) + self.loss.conjugate(alpha) + alpha * a)

    def stays(self, i, a, beta, slack):
        """Whether alpha_i would stay where it is if its response were off by `slack`."""
        alpha, q = self.examples[i].alpha, self.curvature(i, beta)
        down = self.loss.dual_step(alpha, a - slack, q) == alpha
        up = self.loss.dual_step(alpha, a + slack, q) == alpha
        return down & up  # not "and": guessing wrong costs more than the second step


@Kernel
def mark(dual, watch, keep, beta, start, responses):
    """Keep those rows, from `start` on, that would move at these responses, or if they were off
    by the slack."""
    slack = watch.slack(0.0, np.inf)  # infinite while nobody has been left out
    for k in range(responses.size):
        keep[k] = not dual.stays(start + k, responses[k], beta, slack)


@Kernel
def sdca_fixed_beta(
    dual, team, rows, w, batch, sampler, watch, averaging, guards, beta, iterations, target
):
    """Naive, guarded and safe SDCA; `rows` are those of the worker's columns.

    Returns the iterations done, whether that was because a look at all rows is due, and beta.
    """
    examples, order = dual.examples, sampler.order
    b, me = sampler.batch_size, team.rank
    first, last = team.portion(examples.size)  # the rows that are this worker's own
    start, visited = sampler.position[0], sampler.visited[0]
    seen, gap = watch.sums[me, SEEN], watch.sums[me, GAP]
    violation, rise = watch.sums[me, VIOLATION], watch.sums[me, RISE]
    promise, stayed = watch.sums[me, PROMISE], watch.sums[me, STAYED]
    batch.totals[me, 0], batch.totals[me, 1] = seen, violation
    done, reached = 0, False
    team.wait()
    while done < iterations and not reached:
        slack = batch.slack_of(watch)  # of all rows seen before this batch
        start = sampler.renew(team, start)
        if me == 0:
            averaging.observe(1.0)
        batch.multiply(team, rows, examples, order, start, w)
        team.wait()
        count = 0
        for k in range(b):
            i = order[start + k]
            if not first <= i < last:
                continue
            a = dual.response(i, batch.product(k))
            alpha, new = examples[i].alpha, dual.step(i, a, beta)
            change = new - alpha
            seen += 1.0
            gap += dual.gap_of(i, a)
            violation += abs(change) * dual.curvature(i, beta)
            if watch.skips:
                keeps = change != 0.0 or not dual.stays(i, a, beta, slack)
                sampler.roster.keep[i] = keeps
                stayed += keeps
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
        team.wait()
        for worker in range(team.size):
            for k in range(batch.counts[worker, 0]):
                i, c = batch.rows[worker, k], batch.coefficients[worker, k]
                if guards:  # N D has a term -||w||^2 lam N/2
                    rise -= 0.5 / dual.unit * rows.add_norm2(i, c, w)
                else:
                    rows.add(i, c, w)
        done += 1
        start += b
        visited += b
        if sampler.epoch_is_over(start, visited):
            watch.save(me, seen, gap, violation, stayed)
            watch.sums[me, RISE], watch.sums[me, PROMISE] = rise, promise
            seen, gap, violation, rise, promise, stayed = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            team.wait()
            if me == 0:
                batch.due[0] = watch.judge(target, sampler.takes_part() - start)
            team.wait()
            visited = 0
            start = order.size  # a shuffle is due
            if guards:  # beta_b is at most b, whatever the data
                beta = watch.next_beta(beta, float(b))
            reached = batch.due[0]
    watch.save(me, seen, gap, violation, stayed)
    watch.sums[me, RISE], watch.sums[me, PROMISE] = rise, promise
    if me == 0:
        sampler.position[0] = start
        sampler.visited[0] = visited
    return done, reached, beta


@Kernel
def sdca_aggressive(
    dual, team, rows, w, delta, batch, sampler, watch, averaging, gamma, rounds, beta_b, beta,
    iterations, target,
):  # fmt: skip
    """Algorithm 2; `delta` is a zero vector of length d, and is left zero.

    Returns as `sdca_fixed_beta`, and the number of refused steps.
    """
    examples, loss, order = dual.examples, dual.loss, sampler.order
    b, me = sampler.batch_size, team.rank
    first, last = team.portion(examples.size)
    start, visited = sampler.position[0], sampler.visited[0]
    seen, gap, violation = watch.sums[me, SEEN], watch.sums[me, GAP], watch.sums[me, VIOLATION]
    refused, done, reached = 0, 0, False
    while done < iterations and not reached:
        start = sampler.renew(team, start)
        batch.multiply(team, rows, examples, order, start, w)
        team.wait()
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
            team.wait()
            for worker in range(team.size):
                for k in range(batch.counts[worker, 0]):
                    c = batch.coefficients[worker, k]
                    if c != 0.0:
                        norm2 += rows.add_norm2(batch.rows[worker, k], c, delta)
            batch.totals[me, 2] = norm2
            team.wait()
            all_zeta, all_gain, all_norm2 = 0.0, 0.0, 0.0
            for worker in range(team.size):
                all_zeta += batch.totals[worker, 0]
                all_gain += batch.totals[worker, 1]
                all_norm2 += batch.totals[worker, 2]
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
            team.wait()  # all have read the totals before they are written again
        # N (D(alpha + delta) - D(alpha)), by eq. (Ddelta)
        accepted = all_gain - 0.5 * dual.unit * all_norm2 > 0.0
        refused += all_zeta > 0.0 and not accepted
        beta = beta**gamma * rho ** (1.0 - gamma)
        for worker in range(team.size):
            for k in range(batch.counts[worker, 0]):
                if batch.moved[worker, k]:
                    rows.flush(batch.rows[worker, k], dual.unit if accepted else 0.0, delta, w)
        if accepted:
            for k in range(count):
                i = batch.rows[me, k]
                averaging.note(i, batch.new[me, k] - examples[i].alpha)
                examples[i].alpha = batch.new[me, k]
        done += 1
        start += b
        visited += b
        if sampler.epoch_is_over(start, visited):
            watch.save(me, seen, gap, violation, 0.0)
            seen, gap, violation = 0.0, 0.0, 0.0
            team.wait()
            if me == 0:
                batch.due[0] = watch.judge(target, 0)
            team.wait()
            visited = 0
            reached = batch.due[0]
    watch.save(me, seen, gap, violation, 0.0)
    if me == 0:
        sampler.position[0] = start
        sampler.visited[0] = visited
    return done, reached, beta, refused
