"""The iteration counts that Theorems 1 and 2 of the paper promise.

The paper takes ||x_i|| <= 1 and the hinge.  Here R^2 = max ||x_i||^2 and the constants of
the loss are put back in: L, its Lipschitz constant, and the width of its dual box, which
is 1 for the hinge and at most 2 L in general (the paper's G is R^2 width^2; its appendix
prints 4 L where the proof gives 4 L^2).  A loss that is not Lipschitz has no such counts.
"""

from __future__ import annotations

from math import ceil, inf, isinf, log
from typing import NamedTuple

from batchsvm.losses import Loss


class SDCAIterations(NamedTuple):
    """Theorem 2: average alpha over iterations T0 to T - 1."""

    t0: float
    T0: float
    T: float


class Constants(NamedTuple):
    """What the counts depend on beside the batch: the problem."""

    lam: float
    loss: Loss
    radius2: float = 1.0  # R^2
    first_error: float = 1.0  # a bound on D* - D(0): P(0), which is 1 for the hinge


def pegasos_iterations(beta_b: float, b: int, eps: float, of: Constants) -> float:
    """Theorem 1: the T after which E[P(tail average)] - P* <= eps.

    >>> from batchsvm.losses import Hinge
    >>> pegasos_iterations(beta_b=2.0, b=4, eps=0.1, of=Constants(lam=0.01, loss=Hinge()))
    15000
    """
    bound = _divide(30.0 * of.loss.lipschitz**2 * of.radius2 * beta_b, b * of.lam * eps)
    return ceil(bound) if bound < inf else inf


def sdca_iterations(beta_b: float, b: int, n: int, eps: float, of: Constants) -> SDCAIterations:
    """Theorem 2: t0, T0 and T for which E[gap(averaged alpha)] <= eps.

    >>> from batchsvm.losses import Hinge
    >>> sdca_iterations(beta_b=2.0, b=4, n=1000, eps=0.1, of=Constants(lam=0.01, loss=Hinge()))
    SDCAIterations(t0=576, T0=2076, T=2576)
    """
    lam, loss, radius2, first_error = of
    G = radius2 * (loss.upper - loss.lower) ** 2
    if isinf(G):
        return SDCAIterations(inf, inf, inf)
    ratio = _divide(2.0 * lam * n * first_error, G * beta_b)
    t0 = max(0, ceil(n / b * log(ratio))) if 0 < ratio < inf else 0
    wait = beta_b / b * max(0.0, _divide(4.0 * G, lam * eps) - 2.0 * n / beta_b)
    tail = max(float(ceil(n / b)), beta_b / b * _divide(G, lam * eps))
    if wait == inf:
        return SDCAIterations(t0, inf, inf)
    T0 = t0 + ceil(wait)
    return SDCAIterations(t0, T0, T0 + ceil(tail))


def _divide(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else (inf if numerator > 0 else 0.0)
