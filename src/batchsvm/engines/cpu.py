"""The compiled engine: a whole chunk of iterations in one call.

Nothing in an iteration costs O(d) on sparse data, and nothing is allocated: kernels are
given the room they need.  What an iteration does is said in `methods/`; `reference.py`
does the same in plain NumPy.
"""

from __future__ import annotations

from math import inf

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.losses import TINY
from batchsvm.methods import Aggressive, DualState, Method, PegasosState, State
from batchsvm.prefetch import ROWS_AHEAD, prefetch
from batchsvm.problem import Problem
from batchsvm.sampling import Sampler

# Non-zeros visited by one call at the most: Python sees Ctrl-C only between calls.
NONZEROS_A_CALL = 2**25


@Kernel
def sdca_fixed_beta(
    rows, examples, loss, w, response, new, sampler, watch, averaging, beta, unit, iterations,
    target,
):  # fmt: skip
    """Naive and safe SDCA, and serial SDCA for b = 1; unit = 1/(lam N)."""
    b = sampler.batch_size
    for done in range(iterations):
        start = sampler.draw()
        averaging.observe(1.0)
        for k in range(b):
            i = sampler.order[start + k]
            rows.expect(sampler.order, start + k)
            if start + k + ROWS_AHEAD < sampler.order.size:
                prefetch(examples, sampler.order[start + k + ROWS_AHEAD])
            alpha, signed_weight = examples[i].alpha, examples[i].signed_weight
            weight = abs(signed_weight)
            a = np.copysign(1.0, signed_weight) * rows.dot(i, w) - examples[i].offset
            q = max(beta * unit * weight * examples[i].norm2, TINY)
            response[k] = a
            new[k] = loss.dual_step(alpha, a, q)
            gap = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
            watch.see(gap, abs(new[k] - alpha) * q)
        for k in range(b):
            i = sampler.order[start + k]
            alpha, signed_weight = examples[i].alpha, examples[i].signed_weight
            change = new[k] - alpha
            if change != 0.0:
                examples[i].alpha = new[k]
                averaging.note(i, change)
                rows.add(i, unit * signed_weight * change, w)
            if watch.skips:
                a, slack = response[k], watch.slack()
                q = max(beta * unit * abs(signed_weight) * examples[i].norm2, TINY)
                if (
                    change != 0.0
                    or loss.dual_step(alpha, a - slack, q) != alpha
                    or loss.dual_step(alpha, a + slack, q) != alpha
                ):
                    sampler.keep_row(start + k)
        if sampler.epoch_is_over(watch.visited[0]) and watch.finish(sampler, target):
            return done + 1
    return iterations


@Kernel
def sdca_aggressive(
    rows, examples, loss, w, delta, response, tentative, sampler, watch, averaging, gamma, beta_b,
    beta, unit, iterations, target,
):  # fmt: skip
    """Algorithm 2; `delta` is a zero vector of length d, and is left zero."""
    b = sampler.batch_size
    refused = 0
    for done in range(iterations):
        start = sampler.draw()
        averaging.observe(1.0)
        zeta, norm2 = 0.0, 0.0  # zeta; ||Delta~||^2, later ||Delta||^2
        for k in range(b):
            i = sampler.order[start + k]
            alpha, signed_weight = examples[i].alpha, examples[i].signed_weight
            weight = abs(signed_weight)
            a = np.copysign(1.0, signed_weight) * rows.dot(i, w) - examples[i].offset
            q = max(beta * unit * weight * examples[i].norm2, TINY)
            response[k] = a
            tentative[k] = loss.dual_step(alpha, a, q)
            change = tentative[k] - alpha
            gap = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
            watch.see(gap, abs(change) * q)
            if change != 0.0:
                zeta += examples[i].norm2 * (weight * change) ** 2
                norm2 += rows.add_norm2(i, signed_weight * change, delta)
        rho = min(max(norm2 / zeta, 1.0), beta_b) if zeta > 0.0 else beta
        gain, moved = 0.0, False
        for k in range(b):
            i = sampler.order[start + k]
            alpha, signed_weight = examples[i].alpha, examples[i].signed_weight
            weight = abs(signed_weight)
            q = max(rho * unit * weight * examples[i].norm2, TINY)
            new = loss.dual_step(alpha, response[k], q)
            if new != tentative[k]:
                norm2 += rows.add_norm2(i, signed_weight * (new - tentative[k]), delta)
                tentative[k] = new
            if new != alpha:
                moved = True
                gain += weight * (
                    loss.conjugate(alpha) - loss.conjugate(new) - (new - alpha) * response[k]
                )
        accepted = gain - 0.5 * unit * norm2 > 0.0
        refused += moved and not accepted
        beta = beta**gamma * rho ** (1.0 - gamma)
        for k in range(b):
            i = sampler.order[start + k]
            change = tentative[k] - examples[i].alpha
            rows.flush(i, unit if accepted else 0.0, delta, w)
            if accepted and change != 0.0:
                examples[i].alpha = tentative[k]
                averaging.note(i, change)
        if sampler.epoch_is_over(watch.visited[0]) and watch.finish(sampler, target):
            return done + 1, beta, refused
    return iterations, beta, refused


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
            sign = np.copysign(1.0, examples[i].signed_weight)
            chi[k] = -loss.subgradient(sign * scale * rows.dot(i, v) - examples[i].offset)
        for k in range(b):
            if chi[k] != 0.0:
                i = sampler.order[start + k]
                change = chi[k] / shrink
                examples[i].alpha += change
                averaging.note(i, change)
                c = share * examples[i].signed_weight * change
                if projects:
                    counts[i] += chi[k]
                    norm2 += rows.add_norm2(i, c, v)
                else:
                    rows.add(i, c, v)
        t += 1
        if projects and shrink * np.sqrt(norm2) > radius * lam * t:
            shrink = radius * lam * t / np.sqrt(norm2)
    return shrink


def run(
    problem: Problem, method: Method, state: State, sampler: Sampler, stop: int, target: float
) -> float:
    """Advance `state` to iteration `stop`, or to the end of an epoch whose estimated gap
    is at most `target`.  Returns the last estimate of the gap (infinity: none)."""
    per_iteration = max(1, sampler.batch_size * problem.rows.nonzeros // problem.n)
    at_once = max(1, NONZEROS_A_CALL // per_iteration)
    if isinstance(state, PegasosState):
        while state.iteration < stop:
            _run_pegasos(problem, state, sampler, min(stop - state.iteration, at_once))
        return inf
    goal = target * problem.total_weight  # the kernels sum the gap, and do not divide by N
    while state.iteration < stop:
        count = min(stop - state.iteration, at_once)
        if _run_sdca(problem, method, state, sampler, count, goal) < count:
            break
    return state.watch.estimate / problem.total_weight


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
) -> int:
    """Up to `count` iterations; fewer if the estimated gap has reached the goal."""
    unit = 1.0 / (problem.lam * problem.total_weight)
    b = sampler.batch_size
    if isinstance(method, Aggressive) and b > 1:
        done, state.beta, refused = sdca_aggressive(
            problem.rows, problem.examples, problem.loss, state.w, np.zeros(problem.d),
            np.empty(b), np.empty(b), sampler, state.watch, state.averaging, method.gamma,
            state.beta_b, state.beta, unit, count, goal,
        )  # fmt: skip
        state.refused += refused
    else:
        done = sdca_fixed_beta(
            problem.rows, problem.examples, problem.loss, state.w, np.empty(b), np.empty(b),
            sampler, state.watch, state.averaging, state.beta, unit, count, goal,
        )  # fmt: skip
    state.iteration += done
    return done
