"""Any loss with its kinks rounded off, for the proximal point method (`methods/newton.py`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.losses.protocol import Loss

NEAR = 1e-6  # of the smoothing: how far apart slopes are compared for a second derivative
ROUNDING = 1e-14  # of a response, which has to move by more than its rounding error for that


class Smoothed(NamedTuple):
    """max over alpha in the box of -alpha a - phi*(-alpha) - smoothing/2 alpha^2: the loss phi with
    a parabola of width `smoothing` in the place of each kink.

    >>> from batchsvm.losses import Hinge
    >>> float(Smoothed(Hinge(), 0.5).value(0.75))
    0.0625
    """

    base: Loss
    smoothing: float

    @property
    def smooth(self) -> bool:
        return True

    @property
    def task(self) -> str:
        return self.base.task

    @property
    def lower(self) -> float:
        return self.base.lower

    @property
    def upper(self) -> float:
        return self.base.upper

    @property
    def lipschitz(self) -> float:
        return self.base.lipschitz

    def value(self, a):
        alpha = self.base.dual_step(0.0, a, self.smoothing)
        return -alpha * (a + 0.5 * self.smoothing * alpha) - self.base.conjugate(alpha)

    def subgradient(self, a):
        return -self.base.dual_step(0.0, a, self.smoothing)

    def second_derivative(self, a):
        near = NEAR * self.smoothing + ROUNDING * np.abs(a)
        below = self.base.dual_step(0.0, a - near, self.smoothing)
        above = self.base.dual_step(0.0, a + near, self.smoothing)
        return (below - above) / (2.0 * near)

    def conjugate(self, alpha):
        return self.base.conjugate(alpha) + 0.5 * self.smoothing * alpha * alpha

    def dual_step(self, alpha, a, q):
        total = q + self.smoothing
        return self.base.dual_step(alpha * q / total, a, total)
