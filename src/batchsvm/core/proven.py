"""What a certificate proves of single rows: which are no support vectors of the optimum.

P is strongly convex: ||w - w*||^2 <= 2 (P(w) - P*)/lam, which is at most 2 bound/lam.  So the
optimum's response to row i lies within a known distance of w's, and where the loss has one slope
in all of that interval, alpha_i of the optimum is known: -c_i times the slope.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from batchsvm.core.certificate import Certificate
from batchsvm.core.rounding import FEW, INFLATION, UNIT, ResponseError, least_length
from batchsvm.losses import Loss

OPEN, NO_SUPPORT_VECTOR, AT_UPPER_BOUND = -1, 0, 1


def distance_to_optimum(certificate: Certificate, lam: float) -> float:
    """No less than ||w - w*||."""
    return sqrt(2 * certificate.bound / lam) * (1 + FEW * UNIT)


def uncertainty(
    error: ResponseError,
    distance: float,
    responses: np.ndarray,
    offsets: np.ndarray,
    norms2: np.ndarray,
    longest_row: int,
) -> np.ndarray:
    """How far the optimum's response to each row may be from the computed one, for an optimum
    within `distance` of w."""
    lengths = np.sqrt(norms2) * INFLATION + least_length(longest_row)
    off = (error.per_length + distance) * lengths + error.constant
    off += error.relative * (np.abs(responses) + np.abs(offsets))
    return off


def settled(loss: Loss, responses: np.ndarray, off: np.ndarray) -> np.ndarray:
    """1, 0 or -1 for each row whose response at the optimum is within `off` of this one."""
    found = np.full(responses.shape, OPEN, np.int8)
    if not getattr(loss, "corners", True):  # no slope is 0 or the upper bound, but after rounding
        return found
    # At a kink, formulas round in units of the response and of the kink's place.
    off = off + FEW * UNIT * (np.abs(responses) + _scale(loss))
    low, high = -loss.subgradient(responses - off), -loss.subgradient(responses + off)
    for slope, name in ((0.0, NO_SUPPORT_VECTOR), (loss.upper, AT_UPPER_BOUND)):
        found[(low == slope) & (high == slope) & np.isfinite(off)] = name
    return found


def _scale(loss: Any) -> float:
    return max(1.0, float(getattr(loss, "scale", 1.0)))
