"""One problem bound to the rows of a placed data set, with compiled passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import chain
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.certificate import SUM_COUNT, Sums
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.vectors import CHUNK, chunks_of
from batchsvm.engines.cpu.column_slices import ColumnSlice
from batchsvm.engines.cpu.curvature import (
    ROWS_AT_ONCE,
    add_absolute_rows,
    add_dense_products,
    add_outer_products,
    gradient_sums,
    mirror_lower_half,
)
from batchsvm.engines.cpu.passes import example_facts, point_sums, share_squares
from batchsvm.engines.cpu.rows import Biased, Rows, add_rows, densify, products, some_norms2
from batchsvm.engines.cpu.structs import DualProblem, FoundSums, PrimalPoint
from batchsvm.engines.cpu.workers import ALONE, Worker
from batchsvm.engines.host_problem import AlphaOf, HostProblem, OnResponses

if TYPE_CHECKING:
    from batchsvm.engines.cpu.dataset import CpuDataset


class CpuProblem(HostProblem):
    """One problem (K = 1) and the rows, with the constant column if it has a bias."""

    rows: Rows

    def __init__(self, data: CpuDataset, problem: Problem) -> None:
        super().__init__(problem, data.n, data.d)
        self.data, self.rows = data, data.rows
        self.dense_block_rows = data.tuning.dense_block_rows
        if self.bias is not None:
            self.rows = Biased(data.rows, data.d, self.bias)
        self.over_blocks(self.fill)
        norms2 = self.examples["norm2"]
        if data.keeps_norms:
            known, bias2 = data.norms2, 0.0 if self.bias is None else self.bias * self.bias
            self.over_blocks(lambda i, j: np.add(known[i:j], bias2, out=norms2[i:j]))
        else:
            data.pass_over_blocks(lambda i, j: some_norms2(self.rows, i, norms2[i:j]))
        self.facts = self._find_facts()

    def _find_facts(self) -> Facts:
        losses, weights, norms2 = zip(
            *self.over_blocks(
                lambda start, stop: example_facts(self.examples, self.loss, start, stop)
            ),
            strict=True,
        )
        if not max(norms2) < np.inf:
            self.data.refuse_infinite(self.examples["norm2"])
        longest = self.data.longest_row + (self.bias is not None)
        depth = min(self.n, CHUNK + self.data.tuning.max_block_rows // CHUNK + len(losses))
        return Facts(
            self.n, longest, depth, np.array([self.total_weight]), np.array([sum(losses)]),
            np.array([max(weights)]), np.array([max(norms2)]),
        )  # fmt: skip

    def as_struct(self, least_norm2: float = 0.0) -> DualProblem:
        """The problem as kernels see it."""
        loss = self.loss
        weight = self.lam * self.total_weight
        unit = 1.0 / weight if weight > 0.0 else 0.0  # part of the rows may weigh nothing
        bounds = float(loss.lower), float(loss.upper)
        return DualProblem(self.examples, loss, *bounds, unit, least_norm2)

    def over_blocks(self, work: Callable[[int, int], Any]) -> list[Any]:
        return self.data.over_blocks(work)

    def column_slices(self, size: int) -> list[ColumnSlice]:
        """The rows in a slice for each of so many workers."""
        return self.data.column_slices(size, self.bias)

    def combine(self, coefficients: AlphaOf) -> np.ndarray:
        return self.data.combine(coefficients, self.bias)

    def products(self, w: np.ndarray) -> np.ndarray:
        out = np.empty(self.n)
        self.data.pass_over_blocks(
            lambda start, stop: products(self.rows, start, w, out[start:stop])
        )
        return out

    def dense(self, start: int, stop: int) -> np.ndarray:
        out = np.zeros((stop - start, self.d))
        densify(self.rows, start, out)
        return out

    def gradient_sums(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        dual, responses, p = self.as_struct(), np.empty(self.n), self.d
        at = w if w.any() else w[:0]  # w is 0 where training begins
        few = self.data.adds_up_vectors(p)  # each worker adds to its own vector
        slopes = np.empty(self.n)

        def own(worker: Worker) -> tuple[float, np.ndarray]:
            v, losses = np.zeros(p if few else 0), 0.0
            for start, stop in self.data.blocks_for(worker):
                here, out = responses[start:stop], slopes[start:stop]
                losses += gradient_sums(dual, self.rows, start, at, here, out, v)
            return losses, v

        found = self.data.pass_pool.run(own)
        self.keep_responses(w, responses)
        losses = sum(losses for losses, _ in found)
        if few:
            return losses, self.data.add_up([v for _, v in found])
        return losses, self.combine(lambda start, stop: slopes[start:stop])

    def weighted_gram(self, coefficients: np.ndarray) -> np.ndarray:
        p, tuning = self.d, self.data.tuning
        mean = self.rows.nonzeros / self.n
        sparse = self.data.is_sparse and mean * mean * tuning.outer_entry_cost <= p * p
        if not sparse and p > tuning.max_outer_columns:
            return super().weighted_gram(coefficients)

        def own(worker: Worker) -> np.ndarray:
            total, room = np.zeros((p, p)), np.zeros((ROWS_AT_ONCE, p))
            for start, stop in self.data.blocks_for(worker):
                if sparse:
                    add_outer_products(self.rows, start, coefficients[start:stop], total)
                else:
                    add_dense_products(self.rows, start, coefficients[start:stop], room, total)
            return total

        total = reduce(np.add, self.data.pass_pool.run(own))
        if not self.rows.increasing:  # pairs of columns are on either side of the diagonal
            total += np.triu(total, 1).T
        mirror_lower_half(total)
        return total

    def absolute_sums(self, coefficients: np.ndarray) -> np.ndarray:
        total = np.zeros(self.d)
        add_absolute_rows(self.rows, coefficients, total)
        return total

    def sums(self, w: np.ndarray, alpha_of: AlphaOf, show: OnResponses | None = None) -> Sums:
        return self._pass_at(w, alpha_of, show, combines=False)[0]

    def point_sums(
        self, w: np.ndarray, alpha_of: AlphaOf, show: OnResponses | None = None
    ) -> tuple[Sums, np.ndarray]:
        data = self.data
        alone = data.pass_pool.size == 1
        if self.d > data.tuning.max_fused_columns or not (alone or data.adds_up_vectors(self.d)):
            return super().point_sums(w, alpha_of, show)
        return self._pass_at(w, alpha_of, show, combines=True)

    def _pass_at(
        self, w: np.ndarray, alpha_of: AlphaOf, show: OnResponses | None, combines: bool
    ) -> tuple[Sums, np.ndarray]:
        self.data.require_open()
        dual, squares = self.as_struct(), np.zeros(chunks_of(w))

        def own(worker: Worker) -> tuple[list[np.ndarray], np.ndarray]:
            share_squares(worker, w, squares)
            point = PrimalPoint(w, *self.response_error(w, sqrt(squares.sum())))
            v = np.zeros(self.d if combines else 0)
            blocks = self.data.blocks_for(worker)
            return [self._block_sums(dual, block, point, alpha_of, show, v) for block in blocks], v

        found = self.data.pass_pool.run(own)
        values = reduce(np.add, chain.from_iterable(sums for sums, _ in found))
        combination = self.data.add_up([v for _, v in found])
        size = np.sqrt(squares.sum(keepdims=True))
        return Sums(values[:, np.newaxis], size, self.facts), combination

    def _block_sums(
        self,
        dual: DualProblem,
        block: tuple[int, int],
        point: PrimalPoint,
        alpha_of: AlphaOf,
        show: OnResponses | None,
        v: np.ndarray,
    ) -> np.ndarray:
        start, stop = block
        alpha = np.ascontiguousarray(alpha_of(start, stop))
        found = FoundSums(np.zeros(SUM_COUNT), np.empty(stop - start), v)
        point_sums(dual, self.rows, start, alpha, point, found)
        if show is not None:
            show(start, found.responses)
        return found.sums

    def compile(self, alpha_of: AlphaOf, show: OnResponses | None) -> None:
        """Have the passes compiled: pass over no rows, and no columns."""
        w = np.zeros(0)
        share_squares(ALONE, w, np.zeros(0))
        point = PrimalPoint(w, 0.0, 0.0, 0.0)
        self._block_sums(self.as_struct(), (0, 0), point, alpha_of, show, w)
        data, workers = self.data, self.data.pass_pool.size
        cut = workers > 1 and data.sliceable and not data.adds_up_vectors(self.d)
        rows = self.column_slices(workers)[0] if cut else self.rows
        add_rows(rows, 0, np.empty(0), w)
