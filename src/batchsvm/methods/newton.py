"""Newton's method on the primal.

With g the gradient of P at w and H the Hessian of the mean loss, the step p solves

    (H + lam I) p = -g

and w moves to w + t p, with t = 1 unless P would not fall by a part of what the slope promises.
Where the second derivative of a loss jumps (squared hinge, smoothed hinge, Huber), it is taken from
one side, which makes the method a semi-smooth one.

Every w has a dual point, alpha_i = -c_i phi'(a_i), with a gap of exactly ||g||^2 / (2 lam).  For a
small lam that is far too large on the way.  The linearised point,

    alpha_i = -c_i (phi'(a_i) + phi''(a_i) s_i <x_i, p>), put into the box,

has w(alpha) = w + p where nothing is outside of the box, and its gap at w + p is next to nothing as
soon as P is nearly quadratic along the step.  Both are known after a step, and the better one is
certified.

A loss with kinks (hinge, absolute, epsilon-insensitive, quantile) has no such steps.  It is trained
by the proximal point method on the dual.  With a centre, the dual point so far, and alpha_i
relative to the weight c_i,

    maximise D(alpha) - gamma/2 sum_i c_i (alpha_i - centre_i)^2 / N

Its primal is the problem with the smoothed loss of `losses/smoothing.py` at responses that are
shifted by -gamma centre_i, which Newton's method solves.  When that is nearly done, its dual point
becomes the next centre, and gamma shrinks; it grows again where steps get stuck.  Each dual point
lies in the box of the loss itself, so that it is certified as any other.  On the hinge this reaches
in 20 to 100 steps what SDCA does not reach in thousands of epochs, where columns are few and lam N
is far below ||x_i||^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

SOLVERS = ("auto", "cholesky", "cg")
MIN_DECREASE = 1e-4  # of what the slope promises, that P has to fall by
# That are tried where the whole step fails.  Where the loss is linear around w, the Hessian is
# lam I, and a step may be longer than it should be by many orders.
STEP_LENGTHS = tuple(0.5**k for k in range(1, 61))
LENGTHS_AT_ONCE = 4  # P is convex along a step: the first of them that are too short end the search
# Of the proximal point method: gamma shrinks by this factor from centre to centre; a smoothed
# problem is done when its gap is this part of what the distance from the centre costs.
SMOOTHING_FACTOR = 0.3
WIDENING_FACTOR = 10.0  # of gamma, where no step of any length lowers the smoothed objective
LEAST_SMOOTHING = 1e-9  # of the first gamma: with less, rounding hides which rows are on a parabola
NEAR_ENOUGH = 0.1
MOST_STEPS_PER_CENTRE = 50
# Far from the optimum, the Hessian may be that of a sample of the rows.
FAR = 0.01  # of P: where the quadratic model of P misses more, the next step is not the last one
MOST_ROUGH_STEPS = 8
LEAST_PART_OF_PROMISE = 0.1  # that P has to fall by, or no further Hessian is of a sample
SAMPLED_ROWS_PER_COLUMN = 8.0
MIN_SAMPLED_ENTRIES = 32.0  # of a column, of equal size: with fewer, its curvature is not known
LEAST_ROWS_PER_SAMPLED_ROW = 4  # with more sampled, too little time is saved for what may go wrong
MOST_ROWS_PER_SAMPLED_ROW = 8  # with fewer sampled, the gradients take most of the time
LARGEST_RESIDUAL = 0.1  # of the gradient, that conjugate gradients may leave


def is_smooth(loss: object) -> bool:
    """Whether the slope of a loss is continuous, so that it has second derivatives to speak of."""
    return bool(getattr(loss, "smooth", False))


def is_quadratic(loss: object) -> bool:
    """Whether the second derivative of a loss is one constant, so that one exact step suffices."""
    closed = float(getattr(loss, "conjugate_curvature", 0.0)) > 0.0
    return closed and not getattr(loss, "corners", True)


def rows_per_sampled_row(curvatures: np.ndarray, columns: int) -> int:
    """How many rows one row of a sample may stand for, such that the Hessian of the sample is close
    enough; 1 if all rows are needed.  Where few rows have most of the curvature, those count."""
    squares = float(np.square(curvatures).sum())  # without BLAS, whose threads go on spinning
    counting = float(curvatures.sum()) ** 2 / squares if squares > 0.0 else 0.0
    every = int(min(counting / (SAMPLED_ROWS_PER_COLUMN * columns), MOST_ROWS_PER_SAMPLED_ROW))
    return every if every >= LEAST_ROWS_PER_SAMPLED_ROW else 1


def is_column_seen(squares: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Whether a sample has enough entries of each column, from the sums of their squares and of
    their absolute values: k entries of one size have a sum whose square is k times that of the
    squares, and others a smaller one."""
    return (squares > 0.0) & (np.square(sums) >= MIN_SAMPLED_ENTRIES * squares)


def is_near_enough(gap: float, distance: float) -> bool:
    """Whether the gap of a smoothed problem is small beside what the distance from its centre
    costs."""
    return gap <= NEAR_ENOUGH * distance


def residual_goal(size: float, first: float) -> float:
    """The norm of the residual at which conjugate gradients end, for a gradient of norm `size`
    where the first one had the norm `first`: the closer to the optimum, the more exact."""
    return min(LARGEST_RESIDUAL, (size / first) ** 0.5 if first > 0.0 else 0.0) * size


@dataclass(frozen=True)
class Newton:
    """Newton's method on the primal; an iteration takes all rows.

    Parameters
    ----------
    solver : {"auto", "cholesky", "cg"}
        Form the Hessian and factor it, or multiply by it in conjugate gradients.  "auto" forms it
        up to a few thousand columns.
    """

    solver: str = "auto"

    name: ClassVar[str] = "newton"
    sigma2: ClassVar[None] = None

    def forms_hessian(self, columns: int, most: int) -> bool:
        """Whether the Hessian of so many columns is formed; `most` is where "auto" stops."""
        return columns <= most if self.solver == "auto" else self.solver == "cholesky"
