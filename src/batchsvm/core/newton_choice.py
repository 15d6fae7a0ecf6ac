"""Whether Newton's method is faster than SDCA: what "auto" decides from the shape, the loss, lam N,
the weights and the tolerance, before training.

SDCA needs about 1.7 + log(1/tol)/4 + q log(1/tol)/2 epochs, where q = phi'' ||x_i||^2 c_i / (lam N)
is how far a step on a mean row moves its response.  With tol 1e-3 and the logistic loss, it was 3.1
to 3.9 times 1 + q in trials with 20 and 100 columns and lam from 1e-2 to 1e-5; with columns that
depend on each other it is more.  Newton's method needs a few iterations whatever q is, and each
costs the Hessian: pairs of columns in every row, and a Cholesky factor.

A loss with kinks has no phi''.  There a step moves alpha_i by up to the width of its box, and its
response by up to ||x_i||^2 c_i / (lam N).  In units of P(0), the mean loss at w = 0, that is q:
SDCA takes nearly as many epochs as for a smooth loss with this q, and Newton's method one to three
dozens of iterations.

These are many epochs where few rows are close to the margin: `change_over.py` says when SDCA is
tried all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, log10
from typing import NamedTuple

import numpy as np

from batchsvm.core.layout import Workload
from batchsvm.core.problem import Facts, Problem
from batchsvm.losses import Logistic, Loss
from batchsvm.losses.classification import SMALL_CURVATURE
from batchsvm.methods import Newton, is_smooth

# Nanoseconds on one thread, and counts, as they were seen in trials on two cores.
NEWTON_ITERATIONS, NEWTON_HESSIANS = 4.5, 2.0  # the first Hessians are of few rows
PROXIMAL_ITERATIONS, PROXIMAL_HESSIANS = 16.0, 5.0  # where the loss has kinks
ITERATION_NS = 2.5e5  # of an iteration, whatever the rows
ROW_NS = 40.0  # of a Newton iteration, beside what its entries take
DENSE_ENTRY_NS, SPARSE_ENTRY_NS = 0.6, 1.2
PAIR_NS = 0.07  # of two columns in a dense row, if the Hessian stays in a core's own cache
FAR_PAIR_NS = 0.14  # else
SPARSE_PAIR_NS = 1.0
CG_STEPS, CG_ROW_NS = 20.0, 20.0  # of conjugate gradients, where the Hessian is not formed
FAR_CG = 5.0  # times as many, where lam is so small that SDCA may need many epochs
FACTOR_NS = 0.024  # of the p^3 of a Cholesky factor
VISIT_NS = 35.0  # of a row in SDCA, with a closed form for its step
LONG_VISIT_NS = 250.0  # without one
SHORT_VISIT_NS = 75.0  # of the logistic loss, up to `SMALL_CURVATURE`
VISIT_ENTRY_NS = 1.3  # of an entry of a row, in SDCA
FEWEST_EPOCHS = 1.7  # of SDCA, beside what each digit takes
KINKS = 1.5  # times fewer epochs where the loss has kinks
ADVANTAGE = 1.3  # of Newton's method, before it is taken: it is foreseen less well than SDCA
LEAST_TOL = 1e-12
MAX_STEEPNESS = 100.0  # of phi'': a loss with a sharper bend is nearly one with a corner
MAX_PULL = 1e30  # of a row: beyond, the Hessian has no digits left for the other rows


class Alternative(NamedTuple):
    """Newton's method, where it may be faster than SDCA."""

    reason: str
    epochs: float  # epochs of SDCA that take as long as Newton's method
    forms_hessian: bool
    is_likely: bool  # to be faster


def newton_alternative(
    work: Workload, problem: Problem, facts: Facts, tol: float, mean_norm2: Callable[[], float]
) -> Alternative | None:
    """Newton's method; None where it is not offered, or where epochs of SDCA are always cheaper.
    The mean of ||x_i||^2 is asked for if the largest one speaks for Newton's method."""
    if problem.k != 1 or problem.radius < inf:
        return None
    smooth = is_smooth(problem.loss)
    forms = forms_hessian(work)
    if not forms and (work.rests or not smooth):  # epochs of the few rows that move are cheap
        return None
    newton = newton_ns(work, smooth, tol, is_hard=True)
    if smooth:
        steepness = largest_second_derivative(problem.loss)
        if not steepness <= MAX_STEEPNESS:
            return None
    else:
        at_zero = float(facts.primal_at_zero[0])
        steepness = 1.0 / at_zero if at_zero > 0.0 else 0.0
    lam_n = float(problem.lam[0]) * float(facts.total_weight[0])
    bias2 = 0.0 if problem.bias is None else float(problem.bias[0]) ** 2
    for norm2 in (lambda: float(facts.largest_norm2[0]), lambda: mean_norm2() + bias2):
        curvature = norm2() * float(facts.largest_weight[0]) / lam_n
        pull = steepness * curvature
        if not pull <= MAX_PULL:
            return None
        digits = log(1.0 / max(tol, LEAST_TOL))
        epochs = FEWEST_EPOCHS + digits / 4 + pull * digits / 2
        if not smooth:
            epochs /= KINKS
        newton_epochs = newton / (work.n * visit_ns(work, problem.loss, curvature))
        is_likely = ADVANTAGE * newton_epochs < epochs
        if not is_likely:
            break
    how = "" if smooth else ", rounding off the kinks of the loss less and less"
    cost = (
        f"so few columns ({work.columns}) make Newton's method cheap{how}"
        if forms
        else f"Newton's method takes as long as some {newton_epochs:.2g} epochs"
    )
    words = (
        f"{cost}; SDCA may need some {epochs:.2g} epochs, since one of its steps moves the response"
        f" of its row about {pull:.2g} times as far as the loss asks for"
    )
    return Alternative(words, newton_epochs, forms, is_likely)


def forms_hessian(work: Workload) -> bool:
    """Whether Newton's method forms the Hessian, if it is left the choice."""
    return Newton().forms_hessian(work.columns, work.tuning.max_hessian_columns)


def newton_ns(work: Workload, smooth: bool, tol: float, is_hard: bool = False) -> float:
    """What Newton's method takes, for a smooth loss or for one with kinks; a problem is hard if
    SDCA may need many epochs."""
    more = max(log10(1.0 / max(tol, LEAST_TOL)) / 3 - 1.0, 0.0)  # steps over all rows
    p, n, mean = work.columns, work.n, work.nonzeros / work.n
    is_dense = work.nonzeros == n * p
    entry = DENSE_ENTRY_NS if is_dense else SPARSE_ENTRY_NS
    iterations = more + (NEWTON_ITERATIONS if smooth else PROXIMAL_ITERATIONS)
    alone = ITERATION_NS + n * (ROW_NS + entry * mean)
    if not forms_hessian(work):
        steps = CG_STEPS * (FAR_CG if is_hard else 1.0)
        return iterations * (alone + n * steps * (CG_ROW_NS + 2 * entry * mean))
    dense_pair = PAIR_NS if p <= work.tuning.max_outer_columns else FAR_PAIR_NS
    pairs = min(dense_pair * p * p / 2, SPARSE_PAIR_NS * mean * mean / 2)
    hessians = more + (NEWTON_HESSIANS if smooth else PROXIMAL_HESSIANS)
    return iterations * (alone + FACTOR_NS * p**3) + hessians * n * pairs


def visit_ns(work: Workload, loss: Loss, curvature: float) -> float:
    """What a visit of SDCA takes, if a step has this curvature, ||x_i||^2 c_i / (lam N)."""
    step = SHORT_VISIT_NS if has_short_steps(loss, curvature) else LONG_VISIT_NS
    return (VISIT_NS if has_closed_form(loss) else step) + VISIT_ENTRY_NS * work.nonzeros / work.n


def has_short_steps(loss: Loss, curvature: float) -> bool:
    """Whether the steps of SDCA on all rows are short ones of the logistic loss."""
    return isinstance(loss, Logistic) and curvature <= SMALL_CURVATURE


def has_closed_form(loss: Loss) -> bool:
    """Whether the step of SDCA on a row needs no iterations of its own."""
    return not is_smooth(loss) or getattr(loss, "conjugate_curvature", 0.0) > 0.0


def largest_second_derivative(loss: Loss) -> float:
    """max phi''."""
    constant = float(getattr(loss, "conjugate_curvature", 0.0))
    if constant > 0.0:
        return 1.0 / constant
    return float(np.max(loss.second_derivative(np.linspace(-8.0, 8.0, 1025))))
