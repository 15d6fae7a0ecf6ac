"""Losses of a residual a = <w, x> - y."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.losses.protocol import POSITIVE, TINY


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

    allowed = {"delta": POSITIVE}
    task = "regression"
    smooth = True
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


class SquaredEpsilonInsensitive(NamedTuple):
    """``max(0, |a| - epsilon)^2``, the other loss of scikit-learn's LinearSVR.  Not Lipschitz.

    >>> float(SquaredEpsilonInsensitive(epsilon=0.5).value(-2.0))
    2.25
    """

    epsilon: float = 0.1

    allowed = {"epsilon": (-TINY, np.inf, "a number that is not negative")}
    task = "regression"
    smooth = True
    lower = -np.inf
    upper = np.inf
    lipschitz = np.inf
    conjugate_curvature = 0.5

    def value(self, a):
        return np.maximum(np.abs(a) - self.epsilon, 0.0) ** 2

    def subgradient(self, a):
        return 2.0 * np.sign(a) * np.maximum(np.abs(a) - self.epsilon, 0.0)

    def second_derivative(self, a):
        return 2.0 * (np.abs(a) > self.epsilon)

    @property
    def scale(self) -> float:
        return max(1.0, self.epsilon)

    def conjugate(self, alpha):
        return np.abs(alpha) * (0.25 * np.abs(alpha) + self.epsilon)

    def dual_step(self, alpha, a, q):
        pull = q * alpha - a
        return np.sign(pull) * np.maximum(np.abs(pull) - self.epsilon, 0.0) / (q + 0.5)

    cuda = {
        "value": "T beyond = max(abs(a) - epsilon, T(0)); return beyond * beyond;",
        "subgradient": "return 2 * copysign(max(abs(a) - epsilon, T(0)), a);",
        "conjugate": "return abs(alpha) * (T(0.25) * abs(alpha) + epsilon);",
        "dual_step": """
            T pull = q * alpha - a;
            return copysign(max(abs(pull) - epsilon, T(0)), pull) / (q + T(0.5));""",
    }


class SquaredError(NamedTuple):
    """``factor a^2``: least squares, with the 1/2 of scikit-learn's SGDRegressor.  Not Lipschitz.

    >>> float(SquaredError().value(-2.0))
    2.0
    """

    factor: float = 0.5

    allowed = {"factor": POSITIVE}
    task = "regression"
    smooth = True
    corners = False
    lower = -np.inf
    upper = np.inf
    lipschitz = np.inf

    @property
    def conjugate_curvature(self) -> float:
        return 0.5 / self.factor

    def value(self, a):
        return self.factor * a * a

    def subgradient(self, a):
        return 2.0 * self.factor * a

    def second_derivative(self, a):
        return 0.0 * a + 2.0 * self.factor

    def conjugate(self, alpha):
        return 0.25 * alpha * alpha / self.factor

    def dual_step(self, alpha, a, q):
        return (q * alpha - a) / (q + 0.5 / self.factor)

    cuda = {
        "value": "return factor * a * a;",
        "subgradient": "return 2 * factor * a;",
        "conjugate": "return T(0.25) * alpha * alpha / factor;",
        "dual_step": "return (q * alpha - a) / (q + T(0.5) / factor);",
    }
