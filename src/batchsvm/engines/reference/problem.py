"""One problem bound to rows, with passes in plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.problem import Facts, Problem, relative
from batchsvm.core.vectors import norm
from batchsvm.engines.host_problem import AlphaOf, HostProblem, OnResponses
from batchsvm.losses import TINY

if TYPE_CHECKING:
    from batchsvm.engines.reference.dataset import ReferenceDataset

SUMMATION_DEPTH = 64.0  # NumPy sums pairwise, in runs of up to 128 in eight strands


class ReferenceProblem(HostProblem):
    """One problem (K = 1) over dense or CSR rows in float64."""

    def __init__(self, data: ReferenceDataset, problem: Problem) -> None:
        super().__init__(problem, data.n, data.d)
        self.data, self.X = data, data.X
        self.dense_block_rows = data.tuning.dense_block_rows
        self.fill(0, self.n)
        extra = 0.0 if self.bias is None else self.bias**2
        self.examples["norm2"] = data.norms2 + extra
        weight = self.weights(0, self.n)
        with np.errstate(over="ignore"):  # whoever uses it looks whether it is finite
            at_zero = float(np.sum(weight * self.loss.value(-self.examples["offset"])))
        self.facts = Facts(
            self.n,
            data.longest_row + (self.bias is not None),
            SUMMATION_DEPTH,
            np.array([self.total_weight]),
            np.array([at_zero]),
            np.array([float(weight.max())]),
            np.array([float(self.examples["norm2"].max())]),
        )

    def rows_of(self, A: Any) -> np.ndarray:
        """The rows numbered by A as a dense array."""
        part = self.X[A]
        part = part if isinstance(part, np.ndarray) else part.toarray()
        return part if self.bias is None else np.column_stack([part, np.full(len(part), self.bias)])

    def parts(self, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sign, weight and offset of the rows numbered by A."""
        signed = self.examples["signed_weight"][A]
        return np.copysign(1.0, signed), np.abs(signed), self.examples["offset"][A]

    def curvature(self, A: np.ndarray, beta: float, least_norm2: float) -> np.ndarray:
        """q of the losses: beta ||x_i||^2 c_i / (lam N), or without ||x_i||^2 (literal step)."""
        norm2 = np.maximum(self.examples["norm2"][A], least_norm2)
        weight = np.abs(self.examples["signed_weight"][A])
        return np.maximum(beta * weight * norm2 / (self.lam * self.total_weight), TINY)

    def dense(self, start: int, stop: int) -> np.ndarray:
        return self.rows_of(np.arange(start, stop))

    def over_blocks(self, work: Callable[[int, int], Any]) -> list[Any]:
        return [work(0, self.n)]

    def products(self, w: np.ndarray) -> np.ndarray:
        if self.bias is None:
            return self.X @ w
        return self.X @ w[:-1] + self.bias * w[-1]

    def combine(self, coefficients: AlphaOf) -> np.ndarray:
        return self.data.combine(coefficients, self.bias)

    def sums(self, w: np.ndarray, alpha_of: AlphaOf, show: OnResponses | None = None) -> Sums:
        loss, alpha, offset = self.loss, alpha_of(0, self.n), self.examples["offset"]
        weight, length = self.weights(0, self.n), np.sqrt(self.examples["norm2"])
        a = self.responses(w)
        if show is not None:
            show(0, a)
        size = norm(w)
        error = self.response_error(w, size)
        e = error.per_length * length + error.relative * (np.abs(a) + np.abs(offset))
        e += error.constant
        slope = np.maximum(np.abs(loss.subgradient(a - e)), np.abs(loss.subgradient(a + e)))
        value, linear = weight * loss.value(a), alpha * offset
        conjugate = weight * loss.conjugate(relative(loss, alpha, weight))
        values = np.array(
            [
                np.sum(value),
                np.sum(linear - conjugate),
                np.sum(weight * e * slope),
                np.sum(np.abs(conjugate) + np.abs(linear)),
                np.sum(np.abs(alpha) * length),
                np.sum(np.abs(alpha)),
                np.count_nonzero(alpha),
            ]
        )
        return Sums(values[:, np.newaxis], np.array([size]), self.facts)
