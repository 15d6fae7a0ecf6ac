"""Decimal numbers to float64, exactly as Python's float() does, in compiled code.

The number w 10^q with an integer w < 2^64 is rounded by the method of Eisel and Lemire
(D. Lemire, *Number parsing at a gigabyte per second*, Software: Practice and Experience
51(8), 2021).  That its result is the nearest float64, ties to even, for every w and q, with
no case left to a slower method, is proved in N. Mushtak and D. Lemire, *Fast number parsing
without fallback*, Software: Practice and Experience 53(7), 2023.  It works on integers
alone, so that no setting of the compiler can change a bit of it.

Only a number with more than 19 significant digits may be left over: its digits are cut off
at 19, and where the cut matters the caller asks Python.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from batchsvm.compiled import JIT_OPTIONS

LEAST_POWER, GREATEST_POWER = -342, 308  # beyond them, w 10^q is 0 or infinite
MOST_DIGITS = 19
EXACT, UNDECIDED, MALFORMED = 0, 1, 2

_SIGN = np.uint64(1 << 63)
_INFINITE = np.uint64(0x7FF << 52)
_HIDDEN_BIT = np.uint64(1 << 52)
_LAST_NINE = np.uint64((1 << 9) - 1)  # of 64 bits, those below the 55 that rounding needs
_ZERO, _ONE, _TWO, _THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
_TEN, _FIFTY_TWO, _SIXTY_THREE = np.uint64(10), np.uint64(52), np.uint64(63)


def _powers_of_five() -> np.ndarray:
    """The 128 leading bits of 5^q for each q, rounded down (up for q < 0), as two words."""
    words = []
    for q in range(LEAST_POWER, GREATEST_POWER + 1):
        if q >= 0:
            power = 5**q
            shift = 128 - power.bit_length()
            leading = power << shift if shift >= 0 else power >> -shift
        else:
            power = 5**-q
            leading = (1 << (power.bit_length() + 127)) // power + 1
            leading >>= max(leading.bit_length() - 128, 0)
        words.append((leading >> 64, leading & (2**64 - 1)))
    return np.array(words, dtype=np.uint64)


_POWERS = _powers_of_five()


@intrinsic
def _product(context: Any, a: Any, b: Any) -> Any:
    """The high and the low word of a times b, which NumPy's types cannot hold."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        whole = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(whole, ir.Constant(wide, 64)), word)
        return cgutils.pack_array(builder, [high, builder.trunc(whole, word)])

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


@intrinsic
def _leading_zeros(context: Any, a: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


inlined = numba.njit(**{**JIT_OPTIONS, "forceinline": True})


@numba.njit(**JIT_OPTIONS)
def nearest(w, q):
    """The bits of the float64 nearest to w 10^q."""
    if w == _ZERO or q < LEAST_POWER:
        return _ZERO
    if q > GREATEST_POWER:
        return _INFINITE
    zeros = _leading_zeros(w)
    w = w << zeros
    high, low = _product(w, _POWERS[q - LEAST_POWER, 0])
    if high & _LAST_NINE == _LAST_NINE:  # the lower word of 5^q could carry into what counts
        more, _ = _product(w, _POWERS[q - LEAST_POWER, 1])
        low = low + more
        if more > low:
            high = high + _ONE
    upper = high >> _SIXTY_THREE
    shift = upper + np.uint64(9)
    mantissa = high >> shift  # 54 bits: those of the result and one to round by
    power = np.int64(((217706 * q) >> 16) + 63) + np.int64(upper) - np.int64(zeros) + 1023
    if power <= 0:  # below the normal numbers
        if power <= -63:
            return _ZERO
        mantissa = mantissa >> np.uint64(1 - power)
        # A carry into the hidden bit is the exponent of the least normal number.
        return (mantissa + (mantissa & _ONE)) >> _ONE
    if (
        low <= _ONE
        and -4 <= q <= 23
        and mantissa & _THREE == _ONE
        and (mantissa << shift) == high  # exactly half way: to even, which is down
    ):
        mantissa = mantissa - _ONE
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >= _TWO * _HIDDEN_BIT:
        mantissa = _HIDDEN_BIT
        power = power + 1
    if power >= 0x7FF:
        return _INFINITE
    return (mantissa - _HIDDEN_BIT) | (np.uint64(power) << _FIFTY_TWO)


@inlined
def is_space(c):
    """Blank, tab, or the \\r, \\v, \\f that Python's split() takes for blanks."""
    return c == 32 or c == 9 or c == 13 or c == 11 or c == 12


@inlined
def ends_token(c):
    return c == 32 or c == 10 or c == 9 or c == 35 or (11 <= c <= 13)


@inlined
def parse_decimal(text, p, stop):
    """The number that starts at p: its bits, where it ends, and EXACT, UNDECIDED, MALFORMED.

    Decides for  [sign] digits [. digits] [e [sign] digits]  up to the end of the token, with
    digits before or after the point.  Anything else is MALFORMED here, words like nan too.
    """
    sign = _ZERO
    if p < stop and (text[p] == 45 or text[p] == 43):
        if text[p] == 45:
            sign = _SIGN
        p += 1
    w = _ZERO
    seen = 0  # significant digits in w
    q = 0
    cut = False  # a digit other than 0 was left out of w
    first = p
    while p < stop:
        digit = np.uint64(text[p]) - np.uint64(48)
        if digit > np.uint64(9):
            break
        if seen < MOST_DIGITS:
            w = _TEN * w + digit
            seen += 1 if w != _ZERO else 0
        else:
            q += 1
            cut |= digit != _ZERO
        p += 1
    digits = p - first
    if p < stop and text[p] == 46:
        p += 1
        first = p
        while p < stop:
            digit = np.uint64(text[p]) - np.uint64(48)
            if digit > np.uint64(9):
                break
            if seen < MOST_DIGITS:
                w = _TEN * w + digit
                seen += 1 if w != _ZERO else 0
                q -= 1
            else:
                cut |= digit != _ZERO
            p += 1
        digits += p - first
    if digits == 0:
        return _ZERO, p, MALFORMED
    if p < stop and (text[p] == 101 or text[p] == 69):
        p += 1
        negative = False
        if p < stop and (text[p] == 45 or text[p] == 43):
            negative = text[p] == 45
            p += 1
        first = p
        exponent = 0
        while p < stop and 48 <= text[p] <= 57:
            exponent = min(10 * exponent + (np.int64(text[p]) - 48), 1 << 40)
            p += 1
        if p == first:
            return _ZERO, p, MALFORMED
        q += -exponent if negative else exponent
    if p < stop and not ends_token(text[p]):
        return _ZERO, p, MALFORMED
    bits = nearest(w, q)
    if cut and nearest(w + _ONE, q) != bits:
        return sign, p, UNDECIDED
    return sign | bits, p, EXACT
