"""The best constant prediction: P at w = 0 with an intercept, the scale of a fit that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batchsvm.core.problem import Problem

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset

MAX_CONSTANT = 1e3  # how far to look for it
BISECTIONS = 30


def constant_value(data: Dataset, problem: Problem, b: float) -> float:
    """P(0, b) of one problem (K = 1)."""
    sums = data.constant_sums(problem, np.array([b]))
    return float(sums.losses[0]) / float(sums.weights[0])


def primal_at_zero(data: Dataset, problem: Problem, has_intercept: bool) -> float:
    """P0 of one problem: P at w = 0, with the best constant where there is an intercept."""
    b = best_constant(data, problem) if has_intercept else 0.0
    return constant_value(data, problem, b)


def best_constant(data: Dataset, problem: Problem) -> float:
    """A b near the minimum of P(0, b): good enough to start from, and as a scale.  If a constant
    fits all targets, it does."""
    smallest, largest = data.offset_range(problem)
    low, high = float(smallest[0]) - 1.0, float(largest[0]) + 1.0

    def slope(b: float) -> float:
        return float(data.constant_sums(problem, np.array([b])).slopes[0])

    while slope(low) > 0 and low > -MAX_CONSTANT:
        low *= 2.0
    while slope(high) < 0 and high < MAX_CONSTANT:
        high *= 2.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    candidates = (low, high, (low + high) / 2, float(smallest[0]), float(largest[0]))
    return min(candidates, key=lambda b: constant_value(data, problem, b))
