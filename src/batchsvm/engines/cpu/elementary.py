"""exp and log in kernels, by arithmetic alone.

The C library's take 5 ns each and are calls, which LLVM neither inlines nor vectorises.  These take
as long where rows are visited one by one, and 0.5 ns in a loop over the responses of some rows.
They are within 3 units in the last place, which a test holds them to; the certificate reckons with
more (`core/rounding.py`).

Both reduce the argument by a power of two, which is read from or put into the bits of a float64.
The sums are made in the order that is written here: LLVM may fuse a product and a sum, and no more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from batchsvm.compiled import IN_ORDER
from batchsvm.losses import elementary

# ln 2 in two parts; products of the first one with whole numbers up to 2^20 are exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
PER_LN2 = 1.4426950408889634
# Adding this rounds to a whole number, which the lowest bits of the sum then hold.
TO_WHOLE = 1.5 * 2.0**52
TO_WHOLE_BITS = int(np.float64(TO_WHOLE).view(np.int64))
# e^x of what is below or above would not be a normal number, and is 0 or infinite.
LEAST_EXPONENT, LARGEST_EXPONENT = -708.0, 709.0
ONE_BITS = 1023  # the exponent of 1.0 as it is stored
MANTISSA_BITS = 52
ROOT_HALF_BITS = int(np.float64(0.5**0.5).view(np.int64))
LEAST_NORMAL, TO_NORMAL_BITS = 2.0**-1022, 54


@intrinsic
def bits_of(typing_context, x):
    """The bits of a float64 as an integer."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), code


@intrinsic
def from_bits(typing_context, bits):
    """The float64 of these bits."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), code


def _exp(x: Any) -> Any:
    # x = k ln 2 + r with |r| <= ln 2 / 2, and e^r by its series, whose next term is 4e-18.
    rounded = x * PER_LN2 + TO_WHOLE
    k = rounded - TO_WHOLE
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    first = (1.0 + r) + r2 * (1 / 2 + r * (1 / 6))
    second = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
    third = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    fourth = 1 / 479001600 + r * (1 / 6227020800)
    series = first + r4 * (second + r4 * (third + r4 * fourth))
    found = series * from_bits((bits_of(rounded) + ONE_BITS) << MANTISSA_BITS)
    found = 0.0 if x < LEAST_EXPONENT else found
    return found if x <= LARGEST_EXPONENT else x * np.inf  # NaN stays NaN


def _log(x: Any) -> Any:
    # x = 2^k m with m between the roots of 1/2 and 2, and log m = 2 atanh(s), s = (m - 1)/(m + 1),
    # by its series, whose next term is 6e-19 of it.
    is_tiny = x < LEAST_NORMAL
    bits = bits_of(x * 2.0**TO_NORMAL_BITS if is_tiny else x)
    power = (bits - ROOT_HALF_BITS) >> MANTISSA_BITS
    k = from_bits(power + TO_WHOLE_BITS) - TO_WHOLE
    k -= TO_NORMAL_BITS if is_tiny else 0.0
    f = from_bits(bits - (power << MANTISSA_BITS)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    z2 = z * z
    first = (1 / 3 + z * (1 / 5)) + z2 * (1 / 7 + z * (1 / 9))
    second = (1 / 11 + z * (1 / 13)) + z2 * (1 / 15 + z * (1 / 17))
    series = first + (z2 * z2) * (second + (z2 * z2) * (1 / 19 + z * (1 / 21)))
    found = k * LN2_HIGH + (2.0 * s + (2.0 * s * z * series + k * LN2_LOW))
    zero_or_less = -np.inf if x == 0.0 else np.nan
    outside = x if x > 0.0 else zero_or_less
    return found if (x > 0.0) & (x < np.inf) else outside


@overload(elementary.exp, jit_options=IN_ORDER)
def _choose_exp(x: Any) -> Any:
    return _exp


@overload(elementary.log, jit_options=IN_ORDER)
def _choose_log(x: Any) -> Any:
    return _log
