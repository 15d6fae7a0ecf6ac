"""Dual points that certify a free intercept: sum_i s_i alpha_i = 0."""

from __future__ import annotations

from math import ceil, log2

import numpy as np


def balanced(signs: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """An alpha near this one with sum_i signs_i alpha_i = 0 in exact arithmetic.

    All terms are made smaller by some units in the last place, so that those that rounding had
    put outside of the exact box come back, and the terms of the heavier side are scaled down,
    which keeps them in any box that holds 0.
    They are whole multiples of a power of two, few enough for float64 to sum without error.

    >>> balanced(np.array([1.0, 1.0, -1.0]), np.array([0.5, 0.5, 0.5]))
    array([0.25, 0.25, 0.5 ])
    """
    terms = signs * alpha * (1.0 - 2.0**-50)
    weight = float(np.abs(terms).sum())
    if not 2.0**-1000 < weight < np.inf:
        return np.zeros_like(alpha)
    unit = 2.0 ** (ceil(log2(weight)) - 51)
    counts = np.trunc(terms / unit)
    excess = float(counts.sum())
    side = counts > 0 if excess > 0 else counts < 0
    heavy = np.abs(counts[side])
    goal = float(heavy.sum()) - abs(excess)
    scaled = np.floor(heavy * (goal / max(float(heavy.sum()), 1.0)))
    missing = goal - float(scaled.sum())
    room = heavy - scaled if missing > 0 else scaled
    before = np.cumsum(room) - room
    scaled += np.sign(missing) * np.clip(abs(missing) - before, 0.0, room)
    counts[side] = np.sign(counts[side]) * scaled
    return signs * counts * unit
