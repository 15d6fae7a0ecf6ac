"""exp and log as the formulas of losses call them.

In Python they are NumPy's.  In kernels they are the formulas of `engines/cpu/elementary.py`, which
LLVM inlines, and runs on several rows at once where a loop has nothing else in it.
"""

from __future__ import annotations

import numpy as np


def exp(x):
    """e^x; in kernels 0 below -708, and infinite above 709."""
    return np.exp(x)


def log(x):
    """The natural logarithm."""
    return np.log(x)
