"""P and D in exact arithmetic, and random problems that are hard to certify.

Numbers have so many bits that sums and products of float64 numbers of any size are exact.
Quotients and roots are wrong by a part of 2^-6000, logarithms by one of 2^-400 (120 digits).
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import mpmath
import numpy as np

from batchsvm.losses import LOSSES, Huber, Logistic, Loss

EXACT = mpmath.MPContext()
EXACT.prec = 6000
LOGARITHM_BITS = 400
HALF = EXACT.mpf(0.5)
ZERO = EXACT.mpf(0)


class Case(NamedTuple):
    """A point of a training problem, and a name for what makes it hard."""

    kind: str
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray
    alpha: np.ndarray
    loss: Loss
    lam: float
    sample_weight: np.ndarray | None
    bias: float | None
    offset: np.ndarray | None
    radius: float


def exact(value: Any) -> Any:
    return EXACT.mpf(float(value))


def exactly(array: Any) -> list[Any]:
    return [exact(value) for value in np.ravel(array)]


def root(value: Any) -> Any:
    return EXACT.sqrt(value)


def phi(loss: Any, a: Any) -> Any:
    """The loss of a response."""
    match type(loss).__name__:
        case "Hinge":
            return max(exact(loss.margin) - a, ZERO)
        case "SquaredHinge":
            return max(exact(loss.margin) - a, ZERO) ** 2
        case "SmoothedHinge":
            s = exact(loss.smoothing)
            if a >= 1:
                return ZERO
            return (1 - a) ** 2 / (2 * s) if a > 1 - s else 1 - a - s / 2
        case "Logistic":
            with EXACT.workprec(LOGARITHM_BITS):
                near = EXACT.log1p(EXACT.exp(-abs(a))) if abs(a) < 10**6 else ZERO
            return near + max(-a, ZERO)
        case "EpsilonInsensitive" | "Absolute":
            return max(abs(a) - exact(loss.epsilon), ZERO)
        case "SquaredEpsilonInsensitive":
            return max(abs(a) - exact(loss.epsilon), ZERO) ** 2
        case "SquaredError":
            return exact(loss.factor) * a * a
        case "Quantile":
            q = exact(loss.quantile)
            return max(-q * a, (1 - q) * a)
        case "Huber":
            delta = exact(loss.delta)
            return a * a / 2 if abs(a) <= delta else delta * (abs(a) - delta / 2)
    raise ValueError(f"no formula for {loss}")


def phi_slopes(loss: Any, a: Any) -> tuple[Any, Any]:
    """The smallest and the largest slope of the loss at a response: two at a kink, else one."""
    one = EXACT.mpf(1)
    match type(loss).__name__:
        case "Hinge":
            margin = exact(loss.margin)
            return (-one if a <= margin else ZERO), (-one if a < margin else ZERO)
        case "SquaredHinge":
            found = -2 * max(exact(loss.margin) - a, ZERO)
        case "SmoothedHinge":
            found = -min(max((1 - a) / exact(loss.smoothing), ZERO), one)
        case "Logistic":
            with EXACT.workprec(LOGARITHM_BITS):
                far = -one if a < 0 else ZERO
                found = -1 / (1 + EXACT.exp(a)) if abs(a) < 10**6 else far
        case "EpsilonInsensitive" | "Absolute":
            epsilon = exact(loss.epsilon)
            low = -one if a <= -epsilon else (ZERO if a <= epsilon else one)
            high = -one if a < -epsilon else (ZERO if a < epsilon else one)
            return low, high
        case "SquaredEpsilonInsensitive":
            found = 2 * max(abs(a) - exact(loss.epsilon), ZERO) * (1 if a > 0 else -1)
        case "SquaredError":
            found = 2 * exact(loss.factor) * a
        case "Quantile":
            q = exact(loss.quantile)
            return (-q if a <= 0 else 1 - q), (-q if a < 0 else 1 - q)
        case "Huber":
            delta = exact(loss.delta)
            found = min(max(a, -delta), delta)
        case _:
            raise ValueError(f"no formula for {loss}")
    return found, found


def phi_conjugate(loss: Any, alpha: Any) -> Any:
    """phi*(-alpha), for an alpha in the box."""
    match type(loss).__name__:
        case "Hinge":
            return -exact(loss.margin) * alpha
        case "SquaredHinge":
            return alpha * (alpha / 4 - exact(loss.margin))
        case "SmoothedHinge":
            return alpha * (exact(loss.smoothing) * alpha / 2 - 1)
        case "Logistic":
            return _entropy(alpha) + _entropy(1 - alpha)
        case "EpsilonInsensitive" | "Absolute":
            return exact(loss.epsilon) * abs(alpha)
        case "SquaredEpsilonInsensitive":
            return exact(loss.epsilon) * abs(alpha) + alpha * alpha / 4
        case "SquaredError":
            return alpha * alpha / (4 * exact(loss.factor))
        case "Quantile":
            return ZERO
        case "Huber":
            return alpha * alpha / 2
    raise ValueError(f"no formula for {loss}")


def _entropy(part: Any) -> Any:
    with EXACT.workprec(LOGARITHM_BITS):
        logarithm = EXACT.log(part) if part > 0 else ZERO
    return part * logarithm


def box(loss: Any) -> tuple[Any, Any]:
    if type(loss).__name__ == "Quantile":
        q = exact(loss.quantile)
        return q - 1, q
    if isinstance(loss, Huber):
        return -exact(loss.delta), exact(loss.delta)
    lower, upper = (end if abs(end) == inf else exact(end) for end in (loss.lower, loss.upper))
    return lower, upper


def _within(a: Any, c: Any, lower: Any, upper: Any) -> Any:
    """The number of [c lower, c upper] that is nearest to a; infinite ends are none."""
    a = a if upper == inf else min(a, c * upper)
    return a if lower == -inf else max(a, c * lower)


class Exact:
    """The problem of a case in exact arithmetic."""

    def __init__(self, case: Case, intercept: float = 0.0) -> None:
        self.loss, self.lam = case.loss, exact(case.lam)
        self.radius = None if case.radius == inf else exact(case.radius)
        n = len(case.y)
        extra = [] if case.bias is None else [exact(case.bias)]
        self.rows = [exactly(row) + extra for row in np.asarray(case.X)]
        ones = np.ones(n)
        self.weights = exactly(ones if case.sample_weight is None else case.sample_weight)
        self.total = sum(self.weights)
        fixed = exactly(np.zeros(n) if case.offset is None else case.offset)
        y = exactly(case.y)
        if case.loss.task == "classification":
            self.signs, targets = y, [ZERO] * n
        else:
            self.signs, targets = [EXACT.mpf(1)] * n, y
        self.offsets = [
            o - s * (f + exact(intercept))
            for o, s, f in zip(targets, self.signs, fixed, strict=True)
        ]

    def primal(self, w: Any) -> Any:
        w = w if isinstance(w, list) else exactly(w)
        loss = sum(
            c * phi(self.loss, s * sum(a * b for a, b in zip(row, w, strict=True)) - o)
            for c, s, o, row in zip(self.weights, self.signs, self.offsets, self.rows, strict=True)
        )
        return loss / self.total + self.lam / 2 * sum(value * value for value in w)

    def in_ball(self, w: Any) -> list[Any]:
        """The point of the ball that is nearest to w."""
        w = exactly(w)
        norm2 = sum(value * value for value in w)
        if self.radius is None or norm2 <= self.radius**2:
            return w
        return [value * self.radius / root(norm2) for value in w]

    def nearest(self, alpha: Any) -> list[Any]:
        """The point of the box that is nearest to alpha."""
        lower, upper = box(self.loss)
        return [
            _within(a, c, lower, upper) if c else ZERO
            for a, c in zip(exactly(alpha), self.weights, strict=True)
        ]

    def dual(self, alpha: list[Any]) -> Any:
        """D of a point of the box."""
        terms = sum(
            a * o - (c * phi_conjugate(self.loss, a / c) if c else 0)
            for a, o, c in zip(alpha, self.offsets, self.weights, strict=True)
        )
        v = [
            sum(a * s * row[j] for a, s, row in zip(alpha, self.signs, self.rows, strict=True))
            / self.total
            for j in range(len(self.rows[0]))
        ]
        norm2 = sum(value * value for value in v)
        if self.radius is None or norm2 <= (self.lam * self.radius) ** 2:
            regulariser = norm2 / (2 * self.lam)
        else:
            regulariser = self.radius * (root(norm2) - self.lam * self.radius / 2)
        return terms / self.total - regulariser


def random_loss(rng: np.random.Generator) -> Loss:
    kind = list(LOSSES.values())[rng.integers(len(LOSSES))]
    name, value = kind.__name__, float(10.0 ** rng.uniform(-3, 3))
    if name in ("Absolute", "Logistic"):
        return kind()
    if name == "Quantile":
        return kind(float(rng.uniform(0.01, 0.99)))
    return kind() if rng.random() < 0.5 else kind(value)


def kink_of(loss: Any, rng: np.random.Generator) -> float:
    places = {
        "Hinge": lambda: loss.margin, "SquaredHinge": lambda: loss.margin,
        "SmoothedHinge": lambda: 1.0 - loss.smoothing * float(rng.integers(2)),
        "EpsilonInsensitive": lambda: loss.epsilon * float(rng.choice([-1, 1])),
        "SquaredEpsilonInsensitive": lambda: loss.epsilon * float(rng.choice([-1, 1])),
        "Huber": lambda: loss.delta * float(rng.choice([-1, 1])),
    }  # fmt: skip
    return float(places.get(type(loss).__name__, lambda: 0.0)())


def _entries(rng: np.random.Generator, kind: str, n: int, d: int) -> np.ndarray:
    X = rng.standard_normal((n, d))
    if rng.random() < 0.3:
        X = np.round(X * 10.0 ** rng.integers(0, 4))
    if kind == "scales":
        X *= 10.0 ** rng.uniform(-150, 149)
    elif kind == "row scales":
        X *= 10.0 ** rng.uniform(-8, 8, (n, 1))
    elif kind == "kink":
        X *= 10.0 ** rng.uniform(0, 6)
    elif kind == "column scales":
        X *= 10.0 ** rng.uniform(-8, 8, (1, d))
    elif kind == "subnormal":
        X *= 10.0 ** rng.uniform(-323, -290, (n, d))
    elif kind == "cancelling":
        big = 10.0 ** rng.uniform(0, 17)
        X[: n // 2] = np.round(X[: n // 2] * big)
        X[n - n // 2 :] = -X[: n // 2]
    return X


KINDS = ("plain", "kink", "scales", "row scales", "column scales", "cancelling", "subnormal")


def random_case(rng: np.random.Generator) -> Case:
    """A point of a problem of one to six rows, in one of the ways in which rounding can hurt."""
    kind = KINDS[rng.integers(len(KINDS))]
    n, d = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    loss = random_loss(rng)
    X = _entries(rng, kind, n, d)
    regression = loss.task == "regression"
    y = (
        rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3)
        if regression
        else rng.choice([-1.0, 1.0], n)
    )
    weights = None
    if rng.random() < 0.4:
        weights = 10.0 ** rng.uniform(-3, 3, n) * (rng.random(n) < 0.9)
        weights[rng.integers(n)] = 1.0
    bias = float(10.0 ** rng.uniform(-3, 3)) if rng.random() < 0.3 else None
    offset = rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 4) if rng.random() < 0.3 else None
    lam = float(10.0 ** rng.uniform(-12, 2))
    if kind == "scales" and rng.random() < 0.5:
        lam = float(10.0 ** rng.uniform(-300, 300))
    w = _point(rng, kind, X, y, loss, bias)
    radius = inf
    if rng.random() < 0.2:
        norm = float(np.linalg.norm(w))
        radius = (
            norm if 0 < norm < inf and rng.random() < 0.5 else float(10.0 ** rng.uniform(-3, 3))
        )
        w = w * (radius / norm) if norm > radius else w
    c = np.ones(n) if weights is None else weights
    lower, upper = max(loss.lower, -3.0), min(loss.upper, 3.0)
    share = rng.uniform(lower, upper, n)
    ends = np.choose(rng.integers(0, 3, n), [np.full(n, lower), np.full(n, upper), np.zeros(n)])
    share = np.where(rng.random(n) < 0.4, ends, share)
    if kind == "cancelling" and rng.random() < 0.7:  # in w(alpha) too
        share[n - n // 2 :], y[n - n // 2 :] = share[: n // 2], y[: n // 2]
    if isinstance(loss, Logistic) and rng.random() < 0.3:
        share = 10.0 ** rng.uniform(-30, 0, n)
    return Case(kind, X, y, w, share * c, loss, lam, weights, bias, offset, radius)


def _point(
    rng: np.random.Generator,
    kind: str,
    X: np.ndarray,
    y: np.ndarray,
    loss: Loss,
    bias: float | None,
) -> np.ndarray:
    d = X.shape[1]
    w = rng.standard_normal(d + (bias is not None)) * 10.0 ** rng.uniform(-3, 3)
    if kind == "kink":  # one response at a kink, or next to it
        i = int(rng.integers(len(y)))
        row = np.append(X[i], bias) if bias is not None else X[i]
        sign, offset = (1.0, y[i]) if loss.task == "regression" else (y[i], 0.0)
        target = sign * (kink_of(loss, rng) + offset)
        if row[-1] and rng.random() < 0.7:  # by cancellation, whose rounding is large
            w[-1] = (target - float(row[:-1] @ w[:-1])) / row[-1]
        elif row @ w:
            w *= target / float(row @ w)
        w[-1] += np.spacing(w[-1]) * rng.integers(-2, 3)
    elif kind == "scales":  # such that responses are of the size of the kinks, most often
        size = float(np.abs(X).max()) or 1.0
        w = np.clip(w / size, -1e150, 1e150) if rng.random() < 0.8 else w
    return w * (rng.random() < 0.95)
