"""Losses of a margin a = y <w, x>."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.losses.elementary import exp, log
from batchsvm.losses.protocol import POSITIVE

SMALL_CURVATURE = 1.0  # q of the dual step of the logistic loss
SMALL_MOVE = 0.02  # of its root from -a
LEAST_SLOPE = float(np.exp(-80.0))  # of the logistic loss: what exp takes to 0 would be too little


class Hinge(NamedTuple):
    """max(0, margin - a): the support vector machine; margin 1 is the loss of the paper.

    >>> float(Hinge().value(0.25))
    0.75
    """

    margin: float = 1.0

    allowed = {"margin": POSITIVE}
    task = "classification"
    lower = 0.0
    upper = 1.0
    lipschitz = 1.0

    def value(self, a):
        return np.maximum(self.margin - a, 0.0)

    def subgradient(self, a):
        return -1.0 * (a < self.margin)

    def second_derivative(self, a):
        return 0.0 * a

    @property
    def scale(self) -> float:
        return self.margin

    def conjugate(self, alpha):
        return -self.margin * alpha

    def dual_step(self, alpha, a, q):
        return np.minimum(np.maximum(alpha + (self.margin - a) / q, 0.0), 1.0)

    cuda = {
        "value": "return max(margin - a, T(0));",
        "subgradient": "return a < margin ? T(-1) : T(0);",
        "conjugate": "return -margin * alpha;",
        "dual_step": "return min(max(alpha + (margin - a) / q, T(0)), T(1));",
    }


class SmoothedHinge(NamedTuple):
    """The hinge with its kink rounded off by a parabola of width `smoothing`.

    >>> float(SmoothedHinge(smoothing=0.5).value(0.75))
    0.0625
    """

    smoothing: float = 1.0

    allowed = {"smoothing": POSITIVE}
    task = "classification"
    smooth = True
    lower = 0.0
    upper = 1.0
    lipschitz = 1.0

    def value(self, a):
        slope = np.minimum(np.maximum((1.0 - a) / self.smoothing, 0.0), 1.0)
        return slope * (1.0 - a - 0.5 * self.smoothing * slope)

    def subgradient(self, a):
        return -np.minimum(np.maximum((1.0 - a) / self.smoothing, 0.0), 1.0)

    def second_derivative(self, a):
        return ((a < 1.0) & (a > 1.0 - self.smoothing)) / self.smoothing

    @property
    def scale(self) -> float:
        return max(1.0, self.smoothing)

    @property
    def conjugate_curvature(self) -> float:
        return self.smoothing

    def conjugate(self, alpha):
        return alpha * (0.5 * self.smoothing * alpha - 1.0)

    def dual_step(self, alpha, a, q):
        best = alpha + (1.0 - a - self.smoothing * alpha) / (q + self.smoothing)
        return np.minimum(np.maximum(best, 0.0), 1.0)

    cuda = {
        "value": """
            T slope = min(max((1 - a) / smoothing, T(0)), T(1));
            return slope * (1 - a - T(0.5) * smoothing * slope);""",
        "subgradient": "return -min(max((1 - a) / smoothing, T(0)), T(1));",
        "conjugate": "return alpha * (T(0.5) * smoothing * alpha - 1);",
        "dual_step": """
            T best = alpha + (1 - a - smoothing * alpha) / (q + smoothing);
            return min(max(best, T(0)), T(1));""",
    }


class SquaredHinge(NamedTuple):
    """max(0, margin - a)^2, the default of scikit-learn's LinearSVC.  Not Lipschitz.

    >>> float(SquaredHinge().value(-1.0))
    4.0
    """

    margin: float = 1.0

    allowed = {"margin": POSITIVE}
    task = "classification"
    smooth = True
    lower = 0.0
    upper = np.inf
    lipschitz = np.inf
    conjugate_curvature = 0.5

    def value(self, a):
        return np.maximum(self.margin - a, 0.0) ** 2

    def subgradient(self, a):
        return -2.0 * np.maximum(self.margin - a, 0.0)

    def second_derivative(self, a):
        return 2.0 * (a < self.margin)

    @property
    def scale(self) -> float:
        return self.margin

    def conjugate(self, alpha):
        return alpha * (0.25 * alpha - self.margin)

    def dual_step(self, alpha, a, q):
        return np.maximum(alpha + (self.margin - a - 0.5 * alpha) / (q + 0.5), 0.0)

    cuda = {
        "value": "T below = max(margin - a, T(0)); return below * below;",
        "subgradient": "return -2 * max(margin - a, T(0));",
        "conjugate": "return alpha * (T(0.25) * alpha - margin);",
        "dual_step": """
            return max(alpha + (margin - a - T(0.5) * alpha) / (q + T(0.5)), T(0));""",
    }


class Logistic(NamedTuple):
    """log(1 + exp(-a)): logistic regression.

    The dual step has no closed form.  With alpha + delta = 1/(1 + exp(-u)) it is the root
    of the increasing function g(u) = u + a + q (1/(1 + exp(-u)) - alpha).  `newton_steps` is
    fixed, so that a step costs the same everywhere; three leave an error of alpha below 3e-8.
    Where q is small, fewer exponentials suffice, and the error is below 2e-9: on text, epochs take
    0.6 of the time.  The cut-off of exponents, 80, is such that float32 holds the result, and
    changes no float64 result.

    >>> float(Logistic().value(0.0).round(6))
    0.693147
    """

    newton_steps: int = 3

    allowed = {"newton_steps": (0, 1000, "between 1 and 999")}
    task = "classification"
    smooth = True
    corners = False
    lower = 0.0
    upper = 1.0
    lipschitz = 1.0

    def value(self, a):
        return log_of_one_plus(exp(-np.abs(a))) + np.maximum(-a, 0.0)

    def subgradient(self, a):
        small = exp(-np.abs(a))  # as in `value`, so that a kernel computes it once for both
        return -np.maximum(np.maximum(1.0 * (a <= 0.0), small), LEAST_SLOPE) / (1.0 + small)

    def second_derivative(self, a):
        small = exp(-np.abs(a))
        return small / (1.0 + small) ** 2

    def conjugate(self, alpha):
        # 1 - alpha loses what a small alpha has; 0 log 0 is 0 log 1 here.
        rest = (1.0 - alpha) * log_of_one_plus(1.0 * (alpha >= 1.0) - alpha)
        return alpha * log(alpha + 1.0 * (alpha <= 0.0)) + rest

    def dual_step(self, alpha, a, q):
        short = 1.0 * (q <= SMALL_CURVATURE)  # a number: Numba 0.61 has no np.all of a truth value
        if np.all(short):
            return short_logistic_step(alpha, a, q)
        new = long_logistic_step(alpha, a, q, self.newton_steps)
        if np.any(short):  # of an array
            new = short * short_logistic_step(alpha, a, q) + (1.0 - short) * new
        return new

    cuda = {
        "value": "return log1p(exp(-abs(a))) + max(-a, T(0));",
        "subgradient": "return -1 / (1 + exp(min(a, T(80))));",
        "conjugate": """
            T rest = alpha < 1 ? (1 - alpha) * log1p(-alpha) : T(0);
            return (alpha > 0 ? alpha * log(alpha) : T(0)) + rest;""",
        "dual_step": """
            bool mirrored = a + q * (T(0.5) - alpha) > 0;
            T sign = mirrored ? T(-1) : T(1);
            T offset = sign * a + q * ((mirrored ? T(0) : T(1)) - sign * alpha);
            T floor = max(-offset, T(0)), u = floor;
            if (q > 1) {  // else the root is within q / 2 of the floor: few steps lead there
                u = log(max(q / max(abs(offset), T(1)), T(1)));
                u = max(log(max(q / max(offset + u, T(1)), T(1))), floor);
            }
            T rest, change, slope;
            for (int step = 0; step <= int(newton_steps); step++) {
                rest = 1 / (1 + exp(min(u, T(80)))), slope = rest * (1 - rest);
                change = max((q * rest - u - offset) / (1 + q * slope), floor - u), u += change;
                if (abs(change) < T(HALF_OF_THE_DIGITS)) break;  // the error is its square
            }
            rest = min(max(rest - slope * change, T(0)), T(0.5));  // of 1 / (1 + exp(u)) too
            return (mirrored ? T(1) : T(0)) + sign * (1 - rest);""",
    }


def log_of_one_plus(x):
    """log(1 + x) for x above -1 and up to 1, as exact as log1p of NumPy, which takes twice as long:
    what rounding takes from 1 + x is given back.  No compiler may reorder these sums."""
    rounded = 1.0 + x
    return log(rounded) + (x - (rounded - 1.0)) / rounded


def short_logistic_step(alpha, a, q):
    """The dual step of the logistic loss for q up to `SMALL_CURVATURE`: the root u is near -a, from
    where Newton's method starts.  The last step takes the sigmoid from a Taylor series; if the
    first one is small, it is the last but one."""
    share = 1.0 / (1.0 + exp(np.minimum(a, 80.0)))
    moved = q * (alpha - share) / (1.0 + q * share * (1.0 - share))  # u + a
    more = moved
    far = 1.0 * (np.abs(moved) > SMALL_MOVE)
    if np.any(far):
        there = 1.0 / (1.0 + exp(np.minimum(a - moved, 80.0)))
        share = share + far * (there - share)
        more = (q * (alpha - there) - moved) / (1.0 + q * there * (1.0 - there))
        more, moved = moved + far * (more - moved), moved + far * more
    slope = share * (1.0 - share)
    share = share + slope * more * (1.0 + more * (0.5 - share + more * (1 / 6 - slope)))
    slope = share * (1.0 - share)
    share = share + slope * (q * (alpha - share) - moved) / (1.0 + q * slope)
    return np.minimum(np.maximum(share, 0.0), 1.0)


def long_logistic_step(alpha, a, q, newton_steps):
    """The dual step of the logistic loss for any q.  A reflection puts the root at u >= 0, where g
    is concave: there Newton's iterates never pass the root from below, and a start above it costs
    one step."""
    mirrored = 1.0 * (a + q * (0.5 - alpha) > 0.0)
    sign = 1.0 - 2.0 * mirrored
    # The root solves u + offset = q / (1 + exp(u)).
    offset = sign * a + q * (1.0 - mirrored - sign * alpha)
    floor = np.maximum(-offset, 0.0)
    u = log(np.maximum(q / np.maximum(np.abs(offset), 1.0), 1.0))
    u = np.maximum(log(np.maximum(q / np.maximum(offset + u, 1.0), 1.0)), floor)
    for _ in range(newton_steps):
        rest = 1.0 / (1.0 + exp(np.minimum(u, 80.0)))
        u = np.maximum(u - (u + offset - q * rest) / (1.0 + q * rest * (1.0 - rest)), floor)
    rest = 1.0 / (1.0 + exp(np.minimum(u, 80.0)))
    return mirrored + sign * (1.0 - rest)
