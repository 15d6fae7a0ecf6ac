"""The losses: each one a small class of formulas, for arrays and for compiled kernels alike.

A loss is a function phi of one number, the *response* a of an example:

    classification   a = y <w, x>       (the margin; y is -1 or +1)
    regression       a = <w, x> - y     (the residual)

and a training problem is  min_w  mean_i phi(a_i) + lam/2 ||w||^2.  Its dual has one
variable alpha_i per example, which ranges over [lower, upper] and stands for minus a
derivative of phi.  The methods of a loss are

    value(a)                phi(a)
    subgradient(a)          an element of the subdifferential of phi at a
    conjugate(alpha)        phi*(-alpha) = max_a (-alpha a - phi(a)), for alpha in the box
    second_derivative(a)    phi''(a), and where phi' has a kink, that of one side
    dual_step(alpha, a, q)  the new alpha: alpha + delta for the delta that maximises, with
                            alpha + delta in the box,
                            -phi*(-(alpha + delta)) - a delta - (q/2) delta^2

where q = beta ||x_i||^2 / (lam n), so that `dual_step` is eq. (alphai) of the paper for
beta = 1 and eq. (MBalphai) for any other beta.  q is positive, and may be tiny.  It is
the new alpha that is returned, not delta, so that it lies in the box to the last bit.

Bodies use NumPy's functions of one element only (no `if`, no `np.where`), because the
same text is run on whole arrays here and on single numbers in compiled kernels.  Every
loss has at least one field: Numba cannot pass an empty struct to a compiled method.
`allowed` says which parameters a loss can have: an open interval and its words.
A value and a subgradient are rounded by at most 16 units in the last place, a conjugate by at most
128 of |conjugate| + scale |alpha|, where `scale` (1 if a loss has none) is the largest slope of its
conjugate, or the size of responses at which its terms cancel.  Certificates rely on that
(`core/rounding.py`), and on phi not being negative.
`cuda` holds the bodies of the first three and of `dual_step` in CUDA C, for the gpu engine: T is
the type of numbers there, and the field of the loss is known by its name.  A loss without it trains
on the other engines.
`corners = False` says that no alpha is a bound or a kink at which rows come to rest, so that it
is no use to look for rows to leave out (`engines/screening.py`).
`conjugate_curvature` (0 if a loss has none) is the second derivative of the conjugate within the
box, where it is constant: it makes a step length exact that is a lower bound otherwise
(`methods/gram.py`).
`smooth = True` says that phi' is continuous, so that Newton's method takes the loss as it is
(`methods/newton.py`); any other one is smoothed for it (`losses/smoothing.py`).
`docs/add_a_loss.md` shows how to add one.
"""

from __future__ import annotations

from batchsvm.losses.classification import Hinge, Logistic, SmoothedHinge, SquaredHinge
from batchsvm.losses.protocol import TINY, Loss
from batchsvm.losses.regression import (
    Absolute,
    EpsilonInsensitive,
    Huber,
    Quantile,
    SquaredEpsilonInsensitive,
    SquaredError,
)

__all__ = [
    "LOSSES",
    "TINY",
    "Absolute",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Quantile",
    "SmoothedHinge",
    "SquaredEpsilonInsensitive",
    "SquaredError",
    "SquaredHinge",
]

LOSSES: dict[str, type] = {
    "hinge": Hinge,
    "smoothed_hinge": SmoothedHinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
    "absolute": Absolute,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "squared_error": SquaredError,
    "quantile": Quantile,
    "huber": Huber,
}
