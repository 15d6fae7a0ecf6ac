"""One problem bound to rows on this host: what kernels read of an example, and passes over all.

It is shared by the engines whose rows are on this host; each brings its own norms and passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.problem import Facts, Problem, confine, relative
from batchsvm.core.rounding import ResponseError, response_error
from batchsvm.engines.cache_lines import empty_in_lines
from batchsvm.engines.targets import HostTargets

# What a kernel reads of an example, side by side in memory: half a cache line.
EXAMPLE = np.dtype(
    [
        ("alpha", np.float64),  # of the method at work, relative to the weight: alpha_i / c_i
        ("norm2", np.float64),  # ||x_i||^2
        ("signed_weight", np.float64),  # s_i c_i
        ("offset", np.float64),  # o_i
    ]
)

AlphaOf = Callable[[int, int], np.ndarray]  # a block of alpha, from start to stop
OnResponses = Callable[[int, np.ndarray], object]  # is given the responses of a block from start


class HostProblem(ABC):
    """One problem (K = 1), and one record per row."""

    facts: Facts
    examples: np.ndarray
    total_weight: float
    weighted: bool
    dense_block_rows: int  # made dense at a time, for Hessians

    def __init__(self, problem: Problem, n: int, d: int) -> None:
        self.problem, self.loss, self.radius = problem, problem.loss, problem.radius
        self.n, self.d = n, problem.columns(d)
        self.lam = float(problem.lam[0])
        self.bias = None if problem.bias is None else float(problem.bias[0])
        targets = problem.targets
        assert isinstance(targets, HostTargets)
        self.targets = targets
        self.weighted = targets.sample_weight is not None
        self.total_weight = targets.total_weight
        self.examples = empty_in_lines(n, EXAMPLE)
        self._known: list[tuple[np.ndarray, np.ndarray]] = []  # w, and the responses there

    @abstractmethod
    def over_blocks(self, work: Callable[[int, int], Any]) -> list[Any]:
        """work(start, stop) for each block of rows; the results in order."""

    @abstractmethod
    def combine(self, coefficients: AlphaOf) -> np.ndarray:
        """sum_i c_i x_i, with the bias entry."""

    @abstractmethod
    def products(self, w: np.ndarray) -> np.ndarray:
        """<x_i, w> of every row."""

    @abstractmethod
    def dense(self, start: int, stop: int) -> np.ndarray:
        """A block of rows as a dense float64 array."""

    @abstractmethod
    def sums(self, w: np.ndarray, alpha_of: AlphaOf, show: OnResponses | None = None) -> Sums:
        """A full pass at (w, alpha)."""

    def point_sums(
        self, w: np.ndarray, alpha_of: AlphaOf, show: OnResponses | None = None
    ) -> tuple[Sums, np.ndarray]:
        """A full pass at (w, alpha), and sum_i alpha_i s_i x_i."""
        return self.sums(w, alpha_of, show), self.combination(alpha_of)

    def fill(self, start: int, stop: int) -> None:
        """The records of a block of rows, but for their norms."""
        part, y = self.examples[start:stop], self.targets.values(start, stop)
        weights, offsets = self.targets.weights(start, stop), self.targets.offsets(start, stop)
        classification = self.loss.task == "classification"
        signs = y if classification else 1.0
        part["alpha"] = 0.0
        part["signed_weight"] = signs if weights is None else np.copysign(weights, signs)
        part["offset"] = 0.0 if classification else y
        constant = float(self.problem.offset[0])
        if offsets is not None:  # a_i = s_i (<w, x_i> + offset_i) - o_i
            part["offset"] -= self.signs(start, stop) * offsets
        if constant:
            part["offset"] -= self.signs(start, stop) * constant

    def weights(self, start: int, stop: int) -> np.ndarray:
        return np.abs(self.examples["signed_weight"][start:stop])

    def signs(self, start: int, stop: int) -> np.ndarray:
        return np.copysign(1.0, self.examples["signed_weight"][start:stop])

    def responses(self, w: np.ndarray) -> np.ndarray:
        """a_i of every row, read only; those of the last two w are kept, since Newton's method asks
        for them more than once."""
        for known, found in self._known:
            if np.array_equal(known, w):
                return found
        return self.keep_responses(
            w, self.signs(0, self.n) * self.products(w) - self.examples["offset"]
        )

    def keep_responses(self, w: np.ndarray, found: np.ndarray) -> np.ndarray:
        found.flags.writeable = False
        self._known = [(w.copy(), found), *self._known[:1]]
        return found

    def curvatures(self, w: np.ndarray) -> np.ndarray:
        """c_i phi''(a_i) of every row."""
        return self.weights(0, self.n) * self.loss.second_derivative(self.responses(w))

    def gradient_sums(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """sum_i c_i phi(a_i) and sum_i c_i phi'(a_i) s_i x_i."""
        a, signed = self.responses(w), self.examples["signed_weight"]
        slopes = signed * self.loss.subgradient(a)
        losses = float(np.sum(np.abs(signed) * self.loss.value(a)))
        return losses, self.combine(lambda start, stop: slopes[start:stop])

    def weighted_gram(self, coefficients: np.ndarray) -> np.ndarray:
        """sum_i c_i x_i x_i', (p, p), by blocks of rows that are made dense; no c_i is negative."""
        total = np.zeros((self.d, self.d))
        for start in range(0, self.n, self.dense_block_rows):
            stop = min(start + self.dense_block_rows, self.n)
            c, rows = coefficients[start:stop], self.dense(start, stop)
            if not c.all():  # a product takes as long for rows of zeros as for others
                c, rows = c[c != 0.0], rows[c != 0.0]
            rows *= np.sqrt(c[:, np.newaxis])
            total += rows.T @ rows
        return total

    def absolute_sums(self, coefficients: np.ndarray) -> np.ndarray:
        """sum_i c_i |x_i|, with the bias entry; no c_i is negative."""
        total = np.zeros(self.d)
        for start in range(0, self.n, self.dense_block_rows):
            stop = min(start + self.dense_block_rows, self.n)
            total += coefficients[start:stop] @ np.abs(self.dense(start, stop))
        return total

    def response_error(self, w: np.ndarray, norm_w: float) -> ResponseError:
        """How wrong computed responses may be, at a w of this computed norm."""
        if not (norm_w > 0.0 or w.any() or self.problem.has_offset):
            return ResponseError(0.0, 0.0, 0.0)
        offset = float(self.problem.offset[0])
        return response_error(norm_w, self.d, self.facts.longest_row, offset, self.radius)

    def set_alpha(self, alpha: np.ndarray) -> None:
        """Start from this alpha."""

        def fill(start: int, stop: int) -> None:
            weight = self.weights(start, stop)
            self.examples["alpha"][start:stop] = relative(self.loss, alpha[start:stop], weight)

        self.over_blocks(fill)

    def confine(self, w: np.ndarray) -> np.ndarray:
        return confine(w, self.radius)

    def combination(self, alpha_of: AlphaOf) -> np.ndarray:
        """sum_i alpha_i s_i x_i, from scratch."""
        return self.combine(lambda start, stop: alpha_of(start, stop) * self.signs(start, stop))

    def w_of_alpha(self, alpha_of: AlphaOf) -> np.ndarray:
        """w(alpha), from scratch."""
        w = self.combination(alpha_of)
        w /= self.lam * self.total_weight
        return w
