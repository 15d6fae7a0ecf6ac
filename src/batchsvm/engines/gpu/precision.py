"""In which numbers a trainer on a device makes its steps, and when it goes on to more exact ones.

Certificates are in float64 whatever the steps are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batchsvm.core.problem import Facts, Problem

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

REFRESH_EPOCHS = 6  # after so many, w is computed anew from alpha: float32 steps drift
STALLED = 0.7  # of the gap left since the last full pass: then steps are made more exact
FLOAT32_LIMIT = 1e15  # products of two such numbers are far from overflow and underflow


def real_of(precision: str) -> str:
    """The type of the numbers of steps whose products have this precision."""
    return "float64" if precision == "float64" else "float32"


def first_real(data: GpuDataset, problem: Problem, facts: Facts, precision: str) -> str:
    """The type of the numbers of the first steps: those of "auto" are float32 where they fit."""
    if precision == "auto" and not fits_float32(data, problem, facts):
        return "float64"
    return real_of(precision)


def fits_float32(data: GpuDataset, problem: Problem, facts: Facts) -> bool:
    """Whether norms, weights, offsets and step lengths are far from where float32 ends."""
    offsets = np.zeros(1)
    if problem.has_offset or problem.loss.task == "regression":
        offsets = np.maximum(*np.abs(data.offset_range(problem)))
    sizes = [
        facts.largest_norm2, facts.largest_weight, facts.largest_norm2 * facts.largest_weight,
        1.0 / (problem.lam * facts.total_weight), offsets, problem.offset,
    ]  # fmt: skip
    largest = max(float(np.abs(size).max()) for size in sizes)
    smallest = min(float(facts.largest_norm2.min()) or 1.0, float(facts.largest_weight.min()))
    return largest < FLOAT32_LIMIT and smallest > 1 / FLOAT32_LIMIT
