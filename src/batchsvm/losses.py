"""The losses: each one a small class of formulas, for arrays and for compiled kernels alike.

A loss is a function phi of one number, the *response* a of an example:

    classification   a = y <w, x>       (the margin; y is -1 or +1)
    regression       a = <w, x> - y     (the residual)

and a training problem is  min_w  mean_i phi(a_i) + lam/2 ||w||^2.  Its dual has one
variable alpha_i per example, which ranges over [lower, upper] and stands for minus a
derivative of phi.  The methods of a loss are

    value(a)                phi(a)
    subgradient(a)          an element of the subdifferential of phi at a
    conjugate(alpha)        phi*(-alpha) = max_a (-alpha a - phi(a)), for alpha in the box
    second_derivative(a)    phi''(a) almost everywhere, for Newton steps
    dual_step(alpha, a, q)  the new alpha: alpha + delta for the delta that maximises, with
                            alpha + delta in the box,
                            -phi*(-(alpha + delta)) - a delta - (q/2) delta^2

where q = beta ||x_i||^2 / (lam n), so that `dual_step` is eq. (alphai) of the paper for
beta = 1 and eq. (MBalphai) for any other beta.  q is positive, and may be tiny.  It is
the new alpha that is returned, not delta, so that it lies in the box to the last bit.

Bodies use NumPy's functions of one element only (no `if`, no `np.where`), because the
same text is run on whole arrays here and on single numbers in compiled kernels.  Every
loss has at least one field: Numba cannot pass an empty struct to a compiled method.
`allowed` says which parameters a loss can have: an open interval and its words.
A value and a subgradient are rounded by at most 16 units in the last place, a conjugate by at most
128 of |conjugate| + scale |alpha|, where `scale` (1 if a loss has none) is the largest slope of its
conjugate, or the size of responses at which its terms cancel.  Certificates rely on that
(`core/rounding.py`), and on phi not being negative.
`cuda` holds the bodies of the first three and of `dual_step` in CUDA C, for the gpu engine: T is
the type of numbers there, and the field of the loss is known by its name.  A loss without it trains
on the other engines.
`corners = False` says that no alpha is a bound or a kink at which rows come to rest, so that it
is no use to look for rows to leave out (`engines/screening.py`).
`conjugate_curvature` (0 if a loss has none) is the second derivative of the conjugate within the
box, where it is constant: it makes a step length exact that is a lower bound otherwise
(`methods/gram.py`).
`docs/add_a_loss.md` shows how to add one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

TINY = 1e-300
_POSITIVE = (0.0, np.inf, "a positive number")


class Loss(Protocol):
    """What the package needs of a loss; see the head of this file for the meaning."""

    task: str  # "classification" or "regression"

    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def lipschitz(self) -> float: ...

    def value(self, a: Any) -> Any: ...
    def subgradient(self, a: Any) -> Any: ...
    def conjugate(self, alpha: Any) -> Any: ...
    def second_derivative(self, a: Any) -> Any: ...
    def dual_step(self, alpha: Any, a: Any, q: Any) -> Any: ...


class Hinge(NamedTuple):
    """max(0, margin - a): the support vector machine; margin 1 is the loss of the paper.

    >>> float(Hinge().value(0.25))
    0.75
    """

    margin: float = 1.0

    allowed = {"margin": _POSITIVE}
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

    allowed = {"smoothing": _POSITIVE}
    task = "classification"
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

    allowed = {"margin": _POSITIVE}
    task = "classification"
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
    of the increasing function g(u) = u + a + q (1/(1 + exp(-u)) - alpha).  A reflection
    puts the root at u >= 0, where g is concave: there Newton's iterates never pass the
    root from below, and a start above it costs one step.  `newton_steps` is fixed, so that
    a step costs the same everywhere.  The cut-off of exponents, 80, is such that float32 holds
    the result, and changes no float64 result.

    >>> float(Logistic().value(0.0).round(6))
    0.693147
    """

    newton_steps: int = 5

    allowed = {"newton_steps": (0, 1000, "between 1 and 999")}
    task = "classification"
    corners = False
    lower = 0.0
    upper = 1.0
    lipschitz = 1.0

    def value(self, a):
        return np.log1p(np.exp(-np.abs(a))) + np.maximum(-a, 0.0)

    def subgradient(self, a):
        return -1.0 / (1.0 + np.exp(np.minimum(a, 80.0)))

    def second_derivative(self, a):
        share = 1.0 / (1.0 + np.exp(np.minimum(np.abs(a), 80.0)))
        return share * (1.0 - share)

    def conjugate(self, alpha):
        # log1p, since 1 - alpha loses what a small alpha has; 0 log 0 is 0 log 1 here.
        rest = (1.0 - alpha) * np.log1p(1.0 * (alpha >= 1.0) - alpha)
        return alpha * np.log(alpha + 1.0 * (alpha <= 0.0)) + rest

    def dual_step(self, alpha, a, q):
        mirrored = 1.0 * (a + q * (0.5 - alpha) > 0.0)
        sign = 1.0 - 2.0 * mirrored
        # The root solves u + offset = q / (1 + exp(u)).
        offset = sign * a + q * (1.0 - mirrored - sign * alpha)
        floor = np.maximum(-offset, 0.0)
        u = np.log(np.maximum(q / np.maximum(np.abs(offset), 1.0), 1.0))
        u = np.maximum(np.log(np.maximum(q / np.maximum(offset + u, 1.0), 1.0)), floor)
        for _ in range(self.newton_steps):
            rest = 1.0 / (1.0 + np.exp(np.minimum(u, 80.0)))
            u = np.maximum(u - (u + offset - q * rest) / (1.0 + q * rest * (1.0 - rest)), floor)
        rest = 1.0 / (1.0 + np.exp(np.minimum(u, 80.0)))
        return mirrored + sign * (1.0 - rest)

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
            T floor = max(-offset, T(0));
            T u = log(max(q / max(abs(offset), T(1)), T(1)));
            u = max(log(max(q / max(offset + u, T(1)), T(1))), floor);
            for (int step = 0; step < int(newton_steps); step++) {
                T rest = 1 / (1 + exp(min(u, T(80)))), before = u;
                u = max(u - (u + offset - q * rest) / (1 + q * rest * (1 - rest)), floor);
                if (abs(u - before) < T(HALF_OF_THE_DIGITS)) break;  // the error is its square
            }
            T rest = 1 / (1 + exp(min(u, T(80))));
            return (mirrored ? T(1) : T(0)) + sign * (1 - rest);""",
    }


class EpsilonInsensitive(NamedTuple):
    """``max(0, |a| - epsilon)``: support vector regression.

    >>> float(EpsilonInsensitive(epsilon=0.5).value(-2.0))
    1.5
    """

    epsilon: float = 0.1

    allowed = {"epsilon": (-TINY, np.inf, "a number that is not negative")}
    task = "regression"
    lower = -1.0
    upper = 1.0
    lipschitz = 1.0

    def value(self, a):
        return np.maximum(np.abs(a) - self.epsilon, 0.0)

    def subgradient(self, a):
        return np.sign(a) * (np.abs(a) > self.epsilon)

    def second_derivative(self, a):
        return 0.0 * a

    @property
    def scale(self) -> float:
        return max(1.0, self.epsilon)

    def conjugate(self, alpha):
        return self.epsilon * np.abs(alpha)

    def dual_step(self, alpha, a, q):
        pull = q * alpha - a
        best = np.sign(pull) * np.maximum(np.abs(pull) - self.epsilon, 0.0) / q
        return np.minimum(np.maximum(best, -1.0), 1.0)

    cuda = {
        "value": "return max(abs(a) - epsilon, T(0));",
        "subgradient": "return abs(a) > epsilon ? copysign(T(1), a) : T(0);",
        "conjugate": "return epsilon * abs(alpha);",
        "dual_step": """
            T pull = q * alpha - a;
            T best = copysign(max(abs(pull) - epsilon, T(0)), pull) / q;
            return min(max(best, T(-1)), T(1));""",
    }


class Absolute(EpsilonInsensitive):
    """``|a|``: least absolute deviations, the epsilon-insensitive loss that is never insensitive.

    >>> float(Absolute().value(-2.0))
    2.0
    """

    __slots__ = ()
    allowed = {"epsilon": (-TINY, TINY, "0")}

    def __new__(cls, epsilon: float = 0.0) -> Absolute:
        return super().__new__(cls, epsilon)


class Quantile(NamedTuple):
    """The pinball loss, whose minimiser is the conditional `quantile` of y.

    >>> float(Quantile(quantile=0.75).value(-2.0))
    1.5
    """

    quantile: float = 0.5

    allowed = {"quantile": (0.0, 1.0, "strictly between 0 and 1")}
    task = "regression"

    @property
    def lower(self) -> float:
        return self.quantile - 1.0

    @property
    def upper(self) -> float:
        return self.quantile

    @property
    def lipschitz(self) -> float:
        return max(self.quantile, 1.0 - self.quantile)

    def value(self, a):
        return np.maximum(-self.quantile * a, (1.0 - self.quantile) * a)

    def subgradient(self, a):
        return (1.0 - self.quantile) * (a > 0.0) - self.quantile * (a < 0.0)

    def second_derivative(self, a):
        return 0.0 * a

    def conjugate(self, alpha):
        return 0.0 * alpha

    def dual_step(self, alpha, a, q):
        return np.minimum(np.maximum(alpha - a / q, self.quantile - 1.0), self.quantile)

    cuda = {
        "value": "return max(-quantile * a, (1 - quantile) * a);",
        "subgradient": "return a > 0 ? 1 - quantile : (a < 0 ? -quantile : T(0));",
        "conjugate": "return T(0);",
        "dual_step": "return min(max(alpha - a / q, quantile - 1), quantile);",
    }


class Huber(NamedTuple):
    """``a^2/2`` near zero and ``delta |a| - delta^2/2`` from ``|a| = delta`` on.

    >>> float(Huber(delta=1.0).value(-2.0))
    1.5
    """

    delta: float = 1.0

    allowed = {"delta": _POSITIVE}
    task = "regression"
    conjugate_curvature = 1.0

    @property
    def lower(self) -> float:
        return -self.delta

    @property
    def upper(self) -> float:
        return self.delta

    @property
    def lipschitz(self) -> float:
        return self.delta

    def value(self, a):
        near = np.minimum(np.abs(a), self.delta)
        return near * (np.abs(a) - 0.5 * near)

    def subgradient(self, a):
        return np.minimum(np.maximum(a, -self.delta), self.delta)

    def second_derivative(self, a):
        return 1.0 * (np.abs(a) < self.delta)

    @property
    def scale(self) -> float:
        return max(1.0, self.delta)

    def conjugate(self, alpha):
        return 0.5 * alpha * alpha

    def dual_step(self, alpha, a, q):
        best = (q * alpha - a) / (1.0 + q)
        return np.minimum(np.maximum(best, -self.delta), self.delta)

    cuda = {
        "value": "T near = min(abs(a), delta); return near * (abs(a) - T(0.5) * near);",
        "subgradient": "return min(max(a, -delta), delta);",
        "conjugate": "return T(0.5) * alpha * alpha;",
        "dual_step": "return min(max((q * alpha - a) / (1 + q), -delta), delta);",
    }


LOSSES: dict[str, type] = {
    "hinge": Hinge,
    "smoothed_hinge": SmoothedHinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
    "absolute": Absolute,
    "epsilon_insensitive": EpsilonInsensitive,
    "quantile": Quantile,
    "huber": Huber,
}
