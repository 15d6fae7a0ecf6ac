"""The compiled engine: a whole chunk of iterations in one call.

Nothing in an iteration costs O(d) on sparse data (but for averages of a projected run),
and nothing is allocated: kernels are given the room they need.  What an iteration does is
said in `methods/`; `reference.py` does the same in plain NumPy.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel, struct_method
from batchsvm.losses import TINY, Loss
from batchsvm.methods import Aggressive, DualState, Method, PegasosState, State
from batchsvm.prefetch import ROWS_AHEAD, prefetch
from batchsvm.problem import Problem
from batchsvm.rows import Rows
from batchsvm.sampling import Sampler

# Non-zeros visited by one call at the most: Python sees Ctrl-C only between calls.
NONZEROS_A_CALL = 2**25


@struct_method
def expect(self, order, k): ...


@struct_method
def weight_of(self, i): ...


@struct_method
def respond(self, i, w): ...


@struct_method
def curvature(self, i, beta): ...


@struct_method
def step(self, i, a, beta): ...


@struct_method
def gap_of(self, i, a): ...


class Dual(NamedTuple):
    """The dual problem as a kernel sees it; entry i of each array belongs to row i."""

    rows: Rows
    examples: np.ndarray
    loss: Loss
    unit: float  # 1/(lam N)
    least_norm2: float

    def expect(self, order, k):
        """Row order[k] is being visited: fetch what belongs to those that come next."""
        self.rows.expect(order, k)
        if k + ROWS_AHEAD < order.size:
            prefetch(self.examples, order[k + ROWS_AHEAD])

    def weight_of(self, i):
        return abs(self.examples[i].signed_weight)

    def respond(self, i, w):
        """The response a_i."""
        sign = np.copysign(1.0, self.examples[i].signed_weight)
        return sign * self.rows.dot(i, w) - self.examples[i].offset

    def curvature(self, i, beta):
        """q of the losses: beta ||x_i||^2 c_i / (lam N)."""
        norm2 = max(self.examples[i].norm2, self.least_norm2)
        return max(beta * norm2 * self.weight_of(i) * self.unit, TINY)

    def step(self, i, a, beta):
        """alpha_i / c_i after the step of eq. (MBalphai), at the response a."""
        return self.loss.dual_step(self.examples[i].alpha, a, self.curvature(i, beta))

    def gap_of(self, i, a):
        """The term of row i in the duality gap, at the response a."""
        alpha = self.examples[i].alpha
        return self.weight_of(i) * (self.loss.value(a) + self.loss.conjugate(alpha) + alpha * a)


@Kernel
def sdca_fixed_beta(dual, w, response, new, sampler, watch, averaging, beta, iterations, target):
    """Naive and safe SDCA, and serial SDCA for b = 1.

    Returns the iterations done, and whether that was because the target was reached.
    """
    rows, examples = dual.rows, dual.examples
    b = sampler.batch_size
    for done in range(iterations):
        start = sampler.draw()
        averaging.observe(1.0)
        for k in range(b):
            i = sampler.order[start + k]
            dual.expect(sampler.order, start + k)
            a = dual.respond(i, w)
            response[k] = a
            new[k] = dual.step(i, a, beta)
            violation = abs(new[k] - examples[i].alpha) * dual.curvature(i, beta)
            watch.see(dual.gap_of(i, a), violation)
        for k in range(b):
            i = sampler.order[start + k]
            alpha = examples[i].alpha
            change = new[k] - alpha
            if change != 0.0:
                examples[i].alpha = new[k]
                averaging.note(i, change)
                rows.add(i, dual.unit * examples[i].signed_weight * change, w)
            if watch.skips and (
                change != 0.0
                or dual.step(i, response[k] - watch.slack(), beta) != alpha
                or dual.step(i, response[k] + watch.slack(), beta) != alpha
            ):
                sampler.keep_row(start + k)
        if sampler.epoch_is_over(watch.visited[0]) and watch.finish(sampler, target):
            return done + 1, True
    return iterations, False


@Kernel
def sdca_aggressive(
    dual, w, delta, response, new, moved, sampler, watch, averaging, gamma, rounds, beta_b, beta,
    iterations, target,
):  # fmt: skip
    """Algorithm 2; `delta` is a zero vector of length d, and is left zero.

    Returns as `sdca_fixed_beta`, then beta and the number of refused steps.
    """
    rows, examples, loss = dual.rows, dual.examples, dual.loss
    b = sampler.batch_size
    refused = 0
    for done in range(iterations):
        start = sampler.draw()
        averaging.observe(1.0)
        zeta, norm2 = 0.0, 0.0  # zeta; ||Delta~||^2, and in the end ||Delta||^2
        for k in range(b):
            i = sampler.order[start + k]
            dual.expect(sampler.order, start + k)
            a = dual.respond(i, w)
            response[k] = a
            new[k] = dual.step(i, a, beta)  # the tentative one
            change = new[k] - examples[i].alpha
            watch.see(dual.gap_of(i, a), abs(change) * dual.curvature(i, beta))
            moved[k] = change != 0.0
            if moved[k]:
                norm2 += rows.add_norm2(i, examples[i].signed_weight * change, delta)
                change *= dual.weight_of(i)
                zeta += max(examples[i].norm2, dual.least_norm2) * change * change
        for _ in range(rounds):
            rho = min(max(norm2 / zeta, 1.0), beta_b) if zeta > 0.0 else beta
            gain, zeta = 0.0, 0.0
            for k in range(b):
                i = sampler.order[start + k]
                alpha, a = examples[i].alpha, response[k]
                best = dual.step(i, a, rho)
                if best != new[k]:
                    norm2 += rows.add_norm2(i, examples[i].signed_weight * (best - new[k]), delta)
                    new[k] = best
                    moved[k] = True
                change = dual.weight_of(i) * (best - alpha)
                if change != 0.0:
                    zeta += max(examples[i].norm2, dual.least_norm2) * change * change
                    rise = loss.conjugate(alpha) - loss.conjugate(best) - (best - alpha) * a
                    gain += dual.weight_of(i) * rise
        # N (D(alpha + delta) - D(alpha)), by eq. (Ddelta)
        accepted = gain - 0.5 * dual.unit * norm2 > 0.0
        refused += zeta > 0.0 and not accepted
        beta = beta**gamma * rho ** (1.0 - gamma)
        for k in range(b):
            if not moved[k]:
                continue
            i = sampler.order[start + k]
            rows.flush(i, dual.unit if accepted else 0.0, delta, w)
            if accepted:
                averaging.note(i, new[k] - examples[i].alpha)
                examples[i].alpha = new[k]
        if sampler.epoch_is_over(watch.visited[0]) and watch.finish(sampler, target):
            return done + 1, True, beta, refused
    return iterations, False, beta, refused


@Kernel
def pegasos(
    rows,
    examples,
    loss,
    v,
    counts,
    chi,
    sampler,
    averaging,
    lam,
    share,
    radius,
    shrink,
    t,
    iterations,
):
    """Algorithm 1 from iteration t + 1 on; share = n/(N b)."""
    b = sampler.batch_size
    projects = radius < inf
    norm2 = 0.0
    if projects:
        for j in range(v.size):
            norm2 += v[j] * v[j]
    for _ in range(iterations):
        scale = shrink / (lam * max(t, 1))
        start = sampler.draw()
        averaging.observe(scale)
        if projects:
            averaging.observe_primal(scale, v)
        for k in range(b):
            i = sampler.order[start + k]
            rows.expect(sampler.order, start + k)
            if start + k + ROWS_AHEAD < sampler.order.size:
                prefetch(examples, sampler.order[start + k + ROWS_AHEAD])
            sign = np.copysign(1.0, examples[i].signed_weight)
            chi[k] = -loss.subgradient(sign * scale * rows.dot(i, v) - examples[i].offset)
        for k in range(b):
            if chi[k] != 0.0:
                i = sampler.order[start + k]
                c = share * examples[i].signed_weight * chi[k]
                if projects:
                    counts[i] += chi[k]
                    norm2 += rows.add_norm2(i, c / shrink, v)
                else:
                    examples[i].alpha += chi[k]
                    averaging.note(i, chi[k])
                    rows.add(i, c, v)
        t += 1
        if projects and shrink * np.sqrt(norm2) > radius * lam * t:
            shrink = radius * lam * t / np.sqrt(norm2)
            if shrink < 1e-100:  # before it underflows
                for j in range(v.size):
                    v[j] *= shrink
                norm2 *= shrink * shrink
                shrink = 1.0
    return shrink


def run(
    problem: Problem, method: Method, state: State, sampler: Sampler, stop: int, target: float
) -> float:
    """Advance `state` to iteration `stop`, or to the end of an epoch whose estimated gap
    is at most `target`.  Returns the last estimate of the gap (infinity: none)."""
    per_iteration = 1 + sampler.batch_size * problem.rows.nonzeros // problem.n
    per_iteration += state.averaging.primal.size  # a projected run that averages
    at_once = max(1, NONZEROS_A_CALL // per_iteration)
    goal = target * problem.total_weight  # the kernels sum the gap, and do not divide by N
    while True:  # once at least: with nothing to do, a kernel is compiled and does nothing
        count = min(stop - state.iteration, at_once)
        if isinstance(state, PegasosState):
            _run_pegasos(problem, state, sampler, count)
            reached, estimate = False, inf
        else:
            reached = _run_sdca(problem, method, state, sampler, count, goal)
            estimate = state.watch.estimate / problem.total_weight
        if reached or state.iteration >= stop:
            return estimate


def _run_pegasos(problem: Problem, state: PegasosState, sampler: Sampler, count: int) -> None:
    share = problem.n / (problem.total_weight * sampler.batch_size)
    state.shrink = pegasos(
        problem.rows, problem.examples, problem.loss, state.v, state.counts,
        np.empty(sampler.batch_size), sampler, state.averaging, problem.lam, share,
        problem.radius, state.shrink, state.iteration, count,
    )  # fmt: skip
    state.iteration += count


def _run_sdca(
    problem: Problem, method: Method, state: DualState, sampler: Sampler, count: int, goal: float
) -> bool:
    """Up to `count` iterations; whether the estimated gap has reached the goal."""
    unit = 1.0 / (problem.lam * problem.total_weight)
    dual = Dual(problem.rows, problem.examples, problem.loss, unit, state.least_norm2)
    response, new = np.empty(sampler.batch_size), np.empty(sampler.batch_size)
    if isinstance(method, Aggressive) and sampler.batch_size > 1:
        done, reached, state.beta, refused = sdca_aggressive(
            dual, state.w, np.zeros(problem.d), response, new, np.empty(response.size, np.bool_),
            sampler, state.watch, state.averaging, method.gamma, method.rounds, state.beta_b,
            state.beta, count, goal,
        )  # fmt: skip
        state.refused += refused
    else:
        done, reached = sdca_fixed_beta(
            dual, state.w, response, new, sampler, state.watch, state.averaging, state.beta,
            count, goal,
        )  # fmt: skip
    state.iteration += done
    return reached
