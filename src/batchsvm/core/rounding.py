"""Bounds on what rounding does to a certificate; `docs/certificates.md` proves them.

Arithmetic is float64: fl(a op b) = (a op b)(1 + delta) + eta with |delta| <= UNIT, and with
|eta| <= 2^-1074, which is not zero only where a product or a quotient underflows.  Any order of
summation, and fused products, are covered.
"""

from __future__ import annotations

from math import inf, log2, nextafter, sqrt
from typing import NamedTuple

UNIT = 2.0**-53
# Products of errors, and the roundings of the bounds themselves; rows have up to 2^30 non-zeros.
INFLATION = 1 + 2.0**-20
UNDERFLOW = 2.0**-1000  # more than any sum of underflows of 2^70 products
SQRT_UNDERFLOW = 2.0**-536  # by so much sqrt(fl(x^2)) may be less than |x|

# Roundings, in units of UNIT, of what is computed for one row; the losses keep to it, and a test
# holds them to it.
VALUE_ROUNDINGS = 16  # phi(a), relative to phi(a)
CONJUGATE_ROUNDINGS = 128  # phi*(-alpha), relative to |phi*(-alpha)| + scale |alpha|
RESPONSE_ROUNDINGS = 4  # a_i, relative to |a_i| + |o_i| + |offset|, beside the inner product's
NORM_ROUNDINGS = 128  # ||v|| by `core/vectors.py`: chunks of 64, then pairwise
ALPHA_ROUNDINGS = 8  # alpha_i from its point of the box, and in terms alpha_i s_i x_i
FEW = 16  # the last few operations, on numbers that are there once


def gamma(count: int) -> float:
    """The relative error of a sum of so many products, in any order."""
    return count * UNIT / (1 - count * UNIT) if count < 2**52 else inf


class ResponseError(NamedTuple):
    """|computed a_i - a_i| <= per_length ||x_i|| + relative (|a_i| + |o_i|) + constant."""

    per_length: float
    relative: float
    constant: float


def norm_above(norm: float, size: int) -> float:
    """No less than ||v||, from its computed value, for v of this size."""
    return norm * (1 + NORM_ROUNDINGS * UNIT) + sqrt(size) * SQRT_UNDERFLOW


def response_error(
    norm_w: float, columns: int, longest_row: int, offset: float = 0.0, radius: float = inf
) -> ResponseError:
    """The error of responses at a w of this computed norm; with a radius, at the point of the ball
    that is nearest to w."""
    above = norm_above(norm_w, columns)
    outside = max(0.0, above - radius)
    per_length = INFLATION * (gamma(longest_row + 1) * above + outside)
    relative = RESPONSE_ROUNDINGS * UNIT
    constant = per_length * least_length(longest_row) + longest_row * UNDERFLOW
    return ResponseError(per_length, relative, constant + relative * abs(offset))


def least_length(longest_row: int) -> float:
    """By so much ||x_i|| may be more than the root of its computed square."""
    return sqrt(longest_row + 1) * SQRT_UNDERFLOW


def summation(rows: int, depth: float) -> float:
    """The relative error of a sum over the rows, divided by N; a term goes through `depth`
    additions, and N through those of NumPy's pairwise sum."""
    return INFLATION * UNIT * (depth + log2(max(rows, 2)) + 2 * FEW)


def above(value: float) -> float:
    """No less than a sum or difference of two numbers that was computed as `value`."""
    return nextafter(value, inf)
