"""Sums in integers, whose additions round nothing: the same bits in whatever order they come.

An iteration adds up c_i x_ij over the rows of a batch, in units of 1/scale_j.  No sum can overflow:
there are at most b terms, the largest |x_ij| of each column is known, and so is the largest |c_i|,
that is the largest weight times the longest step.  A loss whose dual variables have no upper end
has no longest step, and gets one that is far beyond those which training makes.
"""

from __future__ import annotations

from math import frexp, isfinite, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.problem import Problem
from batchsvm.engines.base_dataset import targets_of
from batchsvm.methods import Method, Pegasos

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

BITS = 62  # of 63, since float32 rounds what is added up
LARGEST_EXPONENT = 1000  # of a scale
LONGEST_STEP = 256  # in slopes at w = 0, where the loss sets no limit


def longest_step(data: GpuDataset, problem: Problem, method: Method) -> float:
    """By how much alpha_i / c_i moves in one step, at the most; of Pegasos, the steepest slope."""
    loss, is_primal = problem.loss, isinstance(method, Pegasos)
    if isfinite(loss.upper - loss.lower):
        ends = abs(float(loss.lower)), abs(float(loss.upper))
        return max(ends) if is_primal else float(loss.upper - loss.lower)
    signs, offsets = targets_of(problem, 0).signs_and_offsets(loss)
    a = signs * float(problem.offset[0]) - offsets
    if not is_primal:
        slopes = loss.subgradient(np.array([a.min(), a.max()]))
        return LONGEST_STEP * max(1.0, float(np.abs(slopes).max()))
    if not isfinite(problem.radius):
        raise ValueError(
            'radius must be finite for method "pegasos" with deterministic=True and the loss'
            f" {type(loss).__name__}, whose slopes have no limit, not {problem.radius}"
        )
    bias = 0.0 if problem.bias is None else float(problem.bias[0])
    furthest = 1.001 * problem.radius * sqrt(data.largest_norm2 + bias**2)  # rounding is less
    slopes = loss.subgradient(np.array([a.min() - furthest, a.max() + furthest]))
    return float(np.abs(slopes).max())


def column_scales(data: GpuDataset, coefficient: float, rows: int) -> Any:
    """The powers of two by which c_i x_ij of up to so many rows are multiplied, (d,), on the
    device; `coefficient` is the largest |c_i|."""
    peaks = data.device.to_host(data.column_peaks)
    exponents = BITS - frexp(coefficient * rows)[1] - np.frexp(peaks)[1]
    found = np.ldexp(1.0, np.clip(exponents, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    return data.device.upload(found)
