"""The best constant prediction: P at w = 0 with an intercept, the scale of a fit that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batchsvm.core.problem import Problem

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset

DOUBLINGS = 10  # of the interval in which to look for it
MAX_BISECTIONS = 100
PRECISION = 2.0**-30  # of the constant, relative to 1 or to itself


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
    if problem.loss.task == "classification":  # s_i b - o_i: the signs turn offsets around
        high = max(-low, high)
        low = -high

    def slope(b: float) -> float:
        return float(data.constant_sums(problem, np.array([b])).slopes[0])

    for _ in range(DOUBLINGS):
        if slope(low) <= 0 <= slope(high):
            break
        width = high - low
        low, high = (low - width, high) if slope(low) > 0 else (low, high + width)
    for _ in range(MAX_BISECTIONS):
        if high - low <= PRECISION * max(1.0, min(abs(low), abs(high))):
            break
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    candidates = (low, high, (low + high) / 2, float(smallest[0]), float(largest[0]))
    return min(candidates, key=lambda b: constant_value(data, problem, b))
