"""Whether Newton's method is faster than SDCA: what "auto" decides from the shape, the loss, lam N,
the weights and the tolerance, before training.

SDCA needs about (1 + q) log(1/tol) / 2 epochs, where q = phi'' ||x_i||^2 c_i / (lam N) is how far a
step on a mean row moves its response.  With tol 1e-3 and the logistic loss, it was 3.1 to
3.9 times 1 + q in trials with 20 and 100 columns and lam from 1e-2 to 1e-5.  Where rows come to
rest and are left out, the epochs are shorter.  Newton's method needs a few iterations whatever q
is, and each costs the Hessian: pairs of columns in every row, and a Cholesky factor.

A loss with kinks has no phi''.  There a step moves alpha_i by up to the width of its box, and its
response by up to ||x_i||^2 c_i / (lam N).  In units of P(0), the mean loss at w = 0, that is q:
SDCA takes at least as many epochs as for a smooth loss with this q, and Newton's method some dozens
of iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log

import numpy as np

from batchsvm.core.layout import Workload
from batchsvm.core.problem import Facts, Problem
from batchsvm.losses import Logistic, Loss
from batchsvm.losses.classification import SMALL_CURVATURE
from batchsvm.methods import is_smooth

# Nanoseconds on one thread, and counts, as they were seen in trials on two cores.
NEWTON_ITERATIONS = 6.0
PROXIMAL_ITERATIONS = 40.0  # where the loss has kinks
ITERATION_NS = 2.5e5  # of an iteration, whatever the rows
ROW_NS = 120.0  # of a Newton iteration, beside what its entries take
PAIR_NS = 0.3  # of two columns in a dense row
SPARSE_PAIR_NS = 1.5
CG_STEPS, CG_ROW_NS = 20.0, 20.0  # of conjugate gradients, where the Hessian is not formed
FACTOR_NS = 0.1  # of the p^3 of a Cholesky factor
VISIT_NS = 60.0  # of a row in SDCA, with a closed form for its step
LONG_VISIT_NS = 350.0  # without one
SHORT_VISIT_NS = 75.0  # of the logistic loss, up to `SMALL_CURVATURE`
ENTRY_NS = 2.0  # of an entry of a row, in either
SCREENING = 2.0  # times fewer rows are visited where some come to rest
LEAST_TOL = 1e-12
MAX_STEEPNESS = 100.0  # of phi'': a loss with a sharper bend is nearly one with a corner
MAX_PULL = 1e30  # of a row: beyond, the Hessian has no digits left for the other rows


def newton_reason(
    work: Workload, problem: Problem, facts: Facts, tol: float, mean_norm2: Callable[[], float]
) -> str | None:
    """Why Newton's method is to be taken, in words; None where SDCA is likely to be faster.  The
    mean of ||x_i||^2 is asked for if the largest one speaks for Newton's method."""
    if problem.k != 1 or problem.radius < inf or work.columns > work.tuning.max_hessian_columns:
        return None
    smooth = is_smooth(problem.loss)
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
        epochs = (1.0 + pull) * log(1.0 / max(tol, LEAST_TOL)) / 2
        if smooth and getattr(problem.loss, "corners", True):
            epochs /= SCREENING
        visit = visit_ns(work, problem.loss, curvature)
        if newton_ns(work, smooth) >= epochs * work.n * visit:
            return None
    how = "" if smooth else "; the kinks of the loss are rounded off, less and less"
    return (
        f"so few columns ({work.columns}) make a Hessian cheap, and SDCA may take some"
        f" {epochs:.2g} epochs, since a step on a mean row moves its response about {pull:.2g}"
        f" times as far as its loss asks for{how}"
    )


def newton_ns(work: Workload, smooth: bool) -> float:
    """What Newton's method takes, for a smooth loss or for one with kinks."""
    iterations = NEWTON_ITERATIONS if smooth else PROXIMAL_ITERATIONS
    return iterations * (ITERATION_NS + work.n * newton_row_ns(work))


def newton_row_ns(work: Workload) -> float:
    """What a Newton iteration takes, per row."""
    p, mean = work.columns, work.nonzeros / work.n
    if p > work.tuning.max_hessian_columns:
        return ROW_NS + CG_STEPS * (CG_ROW_NS + 2 * ENTRY_NS * mean)
    pairs = min(PAIR_NS * p * p / 2, SPARSE_PAIR_NS * mean * mean / 2)
    return ROW_NS + ENTRY_NS * mean + pairs + FACTOR_NS * p**3 / work.n


def visit_ns(work: Workload, loss: Loss, curvature: float) -> float:
    """What a visit of SDCA takes, if a step has this curvature, ||x_i||^2 c_i / (lam N)."""
    is_short = isinstance(loss, Logistic) and curvature <= SMALL_CURVATURE
    step = SHORT_VISIT_NS if is_short else LONG_VISIT_NS
    return (VISIT_NS if has_closed_form(loss) else step) + ENTRY_NS * work.nonzeros / work.n


def has_closed_form(loss: Loss) -> bool:
    """Whether the step of SDCA on a row needs no iterations of its own."""
    return not is_smooth(loss) or getattr(loss, "conjugate_curvature", 0.0) > 0.0


def largest_second_derivative(loss: Loss) -> float:
    """max phi''."""
    constant = float(getattr(loss, "conjugate_curvature", 0.0))
    if constant > 0.0:
        return 1.0 / constant
    return float(np.max(loss.second_derivative(np.linspace(-8.0, 8.0, 1025))))
