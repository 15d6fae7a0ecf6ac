"""Newton's method on the primal, for losses whose slope does not jump.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

SOLVERS = ("auto", "cholesky", "cg")
MIN_DECREASE = 1e-4  # of what the slope promises, that P has to fall by
STEP_LENGTHS = tuple(0.5**k for k in range(1, 21))  # that are tried where the whole step fails
LARGEST_RESIDUAL = 0.1  # of the gradient, that conjugate gradients may leave


def is_smooth(loss: object) -> bool:
    """Whether the slope of a loss is continuous, so that it has second derivatives to speak of."""
    return bool(getattr(loss, "smooth", False))


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
