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
LARGEST_RESIDUAL = 0.1  # of the gradient, that conjugate gradients may leave


def is_smooth(loss: object) -> bool:
    """Whether the slope of a loss is continuous, so that it has second derivatives to speak of."""
    return bool(getattr(loss, "smooth", False))


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
