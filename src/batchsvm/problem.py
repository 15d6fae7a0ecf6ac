"""The training problem, stated once.

    P(w)     = (1/N) sum_i c_i phi(a_i) + lam/2 ||w||^2,      N = sum_i c_i
    a_i      = s_i <w, x_i> - o_i
    D(alpha) = (1/N) sum_i [ -c_i phi*(-alpha_i/c_i) + alpha_i o_i ] - lam/2 ||w(alpha)||^2
    w(alpha) = 1/(lam N) sum_i alpha_i s_i x_i                            eq. (walpha)

Classification: s_i = y_i (-1 or +1) and o_i = 0.  Regression: s_i = 1 and o_i = y_i.
Without weights c_i = 1 and N = n, and for the hinge P and D are eqs. (regSVM) and
(dualSVM) of the paper.  A weight makes the loss of an example c_i phi, the
"example-specific loss" of the appendix: its box is c_i times the box of phi.

With a `radius` B, w is confined to ||w|| <= B (Section 6 of the paper), and lam/2 ||w||^2
in D becomes the conjugate of lam/2 ||.||^2 on that ball.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.losses import Loss
from batchsvm.matrix import CHUNK, Matrix
from batchsvm.rows import Rows, some_norms2

# What a kernel reads of an example, side by side in memory: half a cache line.
EXAMPLE = np.dtype(
    [
        ("alpha", np.float64),  # of the method at work, relative to the weight: alpha_i / c_i
        ("norm2", np.float64),  # ||x_i||^2
        ("signed_weight", np.float64),  # s_i c_i
        ("offset", np.float64),  # o_i
    ]
)


@Kernel
def example_facts(examples, loss, start, stop):
    """Over some examples: the sum of c_i phi(-o_i), the largest c_i, and the largest ||x_i||^2,
    infinite if one of them is NaN."""
    losses, weight, norm2 = 0.0, 0.0, 0.0
    for begin in range(start, stop, CHUNK):
        total = 0.0
        for i in range(begin, min(begin + CHUNK, stop)):
            c = abs(examples[i].signed_weight)
            total += c * loss.value(-examples[i].offset)
            weight = max(weight, c)
            norm2 = max(norm2, examples[i].norm2) if examples[i].norm2 < np.inf else np.inf
        losses += total
    return losses, weight, norm2


@dataclass(frozen=True)
class Problem:
    """Rows, targets, weights, loss and lam: all that P and D are made of."""

    matrix: Matrix = field(repr=False)
    examples: np.ndarray = field(repr=False)
    loss: Loss
    lam: float
    total_weight: float
    weighted: bool = True  # whether any weight is not 1
    radius: float = np.inf

    @property
    def rows(self) -> Rows:
        return self.matrix.rows

    @property
    def n(self) -> int:
        return self.matrix.n

    @property
    def d(self) -> int:
        return self.matrix.d

    def weights(self, start: int, stop: int) -> np.ndarray:
        return np.abs(self.examples["signed_weight"][start:stop])

    def signs(self, start: int, stop: int) -> np.ndarray:
        return np.copysign(1.0, self.examples["signed_weight"][start:stop])

    def blocks(self) -> list[tuple[int, int]]:
        """The rows in blocks of bounded size, as (start, stop)."""
        return self.matrix.blocks()

    @cached_property
    def _facts(self) -> tuple[float, float, float]:
        """The sum of the losses at w = 0, the largest weight, the largest ||x_i||^2."""
        losses, weights, norms2 = zip(
            *self.matrix.over_blocks(
                lambda start, stop: example_facts(self.examples, self.loss, start, stop)
            ),
            strict=True,
        )
        return fsum(losses), max(weights), max(norms2)

    @property
    def primal_at_zero(self) -> float:
        """P(0), the scale that `tol` is relative to: 1 for the hinge."""
        return self._facts[0] / self.total_weight

    def set_alpha(self, alpha: np.ndarray) -> None:
        """Start from this alpha."""
        for start, stop in self.blocks():
            weight = self.weights(start, stop)
            self.examples["alpha"][start:stop] = self.relative(alpha[start:stop], weight)

    def in_box(self, alpha: np.ndarray) -> np.ndarray:
        """The nearest point of the dual's box, weight times that of the loss."""
        inside = np.empty(self.n)
        for start, stop in self.blocks():
            weight = self.weights(start, stop)
            inside[start:stop] = self.relative(alpha[start:stop], weight) * weight
        return inside

    def relative(self, alpha: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """alpha / c, in the box of the loss to the last bit, and 0 where c is 0."""
        quotient = np.divide(alpha, weight, out=np.zeros_like(weight), where=weight > 0)
        return np.clip(quotient, self.loss.lower, self.loss.upper)

    @cached_property
    def longest_row(self) -> int:
        """The number of non-zeros in the longest row."""
        return self.rows.longest

    @property
    def largest_norm2(self) -> float:
        """max ||x_i||^2; infinite if X is not finite."""
        return self._facts[2]

    @property
    def radius2(self) -> float:
        """R^2 of the theorems: max ||x_i||^2, times what a weight multiplies the loss by."""
        _, weight, norm2 = self._facts
        return norm2 * (weight * self.n / self.total_weight) ** 2

    def confine(self, w: np.ndarray) -> np.ndarray:
        """The point of the ball ||w|| <= radius that is nearest to w."""
        norm = np.linalg.norm(w) if np.isfinite(self.radius) else 0.0
        return w * (self.radius / norm) if norm > self.radius else w

    def combination(self, alpha_of: Any) -> np.ndarray:
        """sum_i alpha_i s_i x_i, from scratch; `alpha_of(start, stop)` gives a block of alpha."""
        return self.matrix.combination(
            lambda start, stop: alpha_of(start, stop) * self.signs(start, stop)
        )

    def w_of_alpha(self, alpha_of: Any) -> np.ndarray:
        """w(alpha), from scratch."""
        w = self.combination(alpha_of)
        w /= self.lam * self.total_weight
        return w


def make_problem(
    matrix: Matrix,
    y: np.ndarray,
    loss: Loss,
    lam: float,
    weights: np.ndarray | None = None,
    radius: float = np.inf,
) -> Problem:
    """A problem from checked input; y is -1 or +1 for a classification loss."""
    examples = np.empty(matrix.n, EXAMPLE)
    classification = loss.task == "classification"

    def fill(start: int, stop: int) -> None:
        part = examples[start:stop]
        signs = y[start:stop] if classification else 1.0
        part["alpha"] = 0.0
        part["signed_weight"] = (
            signs if weights is None else np.copysign(weights[start:stop], signs)
        )
        part["offset"] = 0.0 if classification else y[start:stop]
        some_norms2(matrix.rows, start, part["norm2"])

    matrix.over_blocks(fill)
    total = float(matrix.n if weights is None else weights.sum())
    return Problem(matrix, examples, loss, lam, total, weights is not None, radius)
