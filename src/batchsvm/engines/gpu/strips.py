"""Columns of X in strips, so that neighbours are far apart: see `cuda/strips.cuh`."""

from __future__ import annotations

from typing import Any

STRIPS = 256


def strip_columns(count: int) -> int:
    """The columns per strip: odd, so that strips begin at all places of a line of memory."""
    return -(-count // STRIPS) | 1


def padded_columns(count: int) -> int:
    """The places in all strips."""
    return STRIPS * strip_columns(count)


def in_strips(array: Any) -> Any:
    """An array (places, K) with column j at place j // STRIPS of strip j % STRIPS."""
    return array.reshape(-1, STRIPS, array.shape[1]).swapaxes(0, 1).reshape(array.shape)
