"""The training problem, stated once, for K problems over the same rows.

    P(w)     = (1/N) sum_i c_i phi(a_i) + lam/2 ||w||^2,      N = sum_i c_i
    a_i      = s_i <w, x_i> - o_i
    D(alpha) = (1/N) sum_i [ -c_i phi*(-alpha_i/c_i) + alpha_i o_i ] - lam/2 ||w(alpha)||^2
    w(alpha) = 1/(lam N) sum_i alpha_i s_i x_i                            eq. (walpha)

Classification: s_i = y_i (-1 or +1) and o_i = 0.  Regression: s_i = 1 and o_i = y_i.
Without weights c_i = 1 and N = n, and for the hinge P and D are eqs. (regSVM) and
(dualSVM) of the paper.  A weight makes the loss of an example c_i phi, the
"example-specific loss" of the appendix: its box is c_i times the box of phi.

With a `bias`, x_i has one more entry, which is this constant for every row; with an `offset`,
a fixed number is added to each prediction <w, x_i>, which moves o_i by -s_i times it.

With a `radius` B, w is confined to ||w|| <= B (Section 6 of the paper), and lam/2 ||w||^2
in D becomes the conjugate of lam/2 ||.||^2 on that ball.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batchsvm.core.vectors import norm
from batchsvm.losses import Loss

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Targets


@dataclass(frozen=True, eq=False)
class Problem:
    """K problems over the same rows: all that P and D are made of, but for X.

    Attributes
    ----------
    targets : Targets
        What a `Dataset` keeps of y and the weights, of K problems or of one for all K.
    loss : Loss
    lam : ndarray of shape (K,)
    bias : ndarray of shape (K,), or None
        The constant column of each problem.
    offset : ndarray of shape (K,)
        The fixed part of each prediction, beside that of the targets.
    radius : float
    """

    targets: Targets = field(repr=False)
    loss: Loss
    lam: np.ndarray
    bias: np.ndarray | None
    offset: np.ndarray
    radius: float = inf

    @property
    def has_offset(self) -> bool:
        """Whether something was added to predictions, so that o_i may be rounded."""
        return self.targets.has_offset or bool(self.offset.any())

    @property
    def has_exact_offsets(self) -> bool:
        """Whether no o_i was rounded: a constant alone makes it s_i times that constant."""
        alone = self.loss.task == "classification" and not self.targets.has_offset
        return alone or not self.has_offset

    @property
    def k(self) -> int:
        """How many problems these are."""
        return self.lam.size

    def columns(self, d: int) -> int:
        """The length of w, over data of d columns."""
        return d + (self.bias is not None)

    def only(self, k: int) -> Problem:
        """Problem k alone."""
        if self.k == 1 == self.targets.k:
            return self
        return self._part(self.targets if self.targets.k == 1 else self.targets.only(k), [k])

    def some(self, which: Any) -> Problem:
        """Some of the problems, in this order."""
        return self._part(self.targets if self.targets.k == 1 else self.targets.some(which), which)

    def _part(self, targets: Targets, which: Any) -> Problem:
        which = np.asarray(which)
        bias = None if self.bias is None else self.bias[which]
        return replace(
            self, targets=targets, lam=self.lam[which], bias=bias, offset=self.offset[which]
        )


def make_problem(
    targets: Targets,
    loss: Loss,
    lam: Any,
    bias: Any = None,
    offset: Any = 0.0,
    radius: float = inf,
) -> Problem:
    """Problems from checked input; numbers stand for all K of them."""
    k = max(targets.k, np.size(lam))

    def spread(value: Any) -> np.ndarray:
        return np.full(k, value, np.float64)

    return Problem(
        targets, loss, spread(lam), None if bias is None else spread(bias), spread(offset), radius
    )


class Facts(NamedTuple):
    """What plans and certificates need to know of K problems over some rows.

    Facts of parts of the rows add up to those of all rows.
    """

    rows: int
    longest_row: int  # non-zeros
    depth: float  # additions that a term of a sum over the rows goes through, at the most
    total_weight: np.ndarray  # (K,): N
    losses_at_zero: np.ndarray  # (K,): N P(0)
    largest_weight: np.ndarray  # (K,)
    largest_norm2: np.ndarray  # (K,): max ||x_i||^2

    @property
    def primal_at_zero(self) -> np.ndarray:
        """P(0): 1 for the hinge."""
        return self.losses_at_zero / self.total_weight

    @property
    def radius2(self) -> np.ndarray:
        """R^2 of the theorems: max ||x_i||^2, times what a weight multiplies the loss by."""
        return self.largest_norm2 * (self.largest_weight * self.rows / self.total_weight) ** 2

    def plus(self, other: Facts) -> Facts:
        """The facts of the rows of both."""
        return Facts(
            self.rows + other.rows,
            max(self.longest_row, other.longest_row),
            max(self.depth, other.depth) + 1,
            self.total_weight + other.total_weight,
            self.losses_at_zero + other.losses_at_zero,
            np.maximum(self.largest_weight, other.largest_weight),
            np.maximum(self.largest_norm2, other.largest_norm2),
        )


def join_facts(facts: list[Facts]) -> Facts:
    """The facts of K problems over the same rows, from those of each."""
    columns = zip(*(found[3:] for found in facts), strict=True)
    return Facts(*facts[0][:3], *map(np.concatenate, columns))


def confine(w: np.ndarray, radius: float) -> np.ndarray:
    """The point of the ball ||w|| <= radius that is nearest to w."""
    size = norm(w) if np.isfinite(radius) else 0.0
    return w * (radius / size) if size > radius else w


def relative(loss: Loss, alpha: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """alpha / c, in the box of the loss to the last bit, and 0 where c is 0."""
    quotient = np.divide(alpha, weight, out=np.zeros_like(weight), where=weight > 0)
    return np.clip(quotient, loss.lower, loss.upper)


class OutsideBoxError(ValueError):
    """alpha of a row lies far outside of the dual's box."""

    def __init__(self, loss: Loss, row: int, alpha: float) -> None:
        super().__init__(loss, row, alpha)  # so that it can be sent to another process
        self.loss, self.row, self.alpha = loss, row, alpha

    def __str__(self) -> str:
        return (
            f"alpha must lie in the dual's box, weight times [{self.loss.lower:g},"
            f" {self.loss.upper:g}], but alpha[{self.row}] is {self.alpha!r}"
        )


def in_box(loss: Loss, alpha: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The nearest point of the dual's box; refused if alpha is far outside."""
    inside = relative(loss, alpha, weight) * weight
    outside = np.abs(alpha - inside) > 1e-9 * (weight + np.abs(inside))
    if outside.any():
        bad = int(np.flatnonzero(outside)[0])
        raise OutsideBoxError(loss, bad, float(alpha[bad]))
    return inside
