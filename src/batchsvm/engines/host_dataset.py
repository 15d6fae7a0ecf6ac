"""What data sets on this host have in common: everything that a bound problem can answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.dual import HostDual
from batchsvm.core.problem import Facts, Problem, join_facts, relative
from batchsvm.core.proven import settled, uncertainty
from batchsvm.core.vectors import inner, norm
from batchsvm.engines.base_dataset import BaseDataset, targets_of
from batchsvm.engines.host_problem import AlphaOf, HostProblem
from batchsvm.engines.newton import NewtonTrainer
from batchsvm.engines.protocol import Dual, GradientSums, Trainer
from batchsvm.engines.proximal_newton import ProximalNewtonTrainer
from batchsvm.methods import is_smooth
from batchsvm.methods.newton import is_column_seen, rows_per_sampled_row


class HostDataset(BaseDataset, ABC):
    """A `Dataset` (see `engines/protocol.py`) whose rows are on this host."""

    device_size = None
    cheap_passes = True
    _last: tuple[ref[HostProblem], ...] = ()  # that were bound

    @abstractmethod
    def bind(self, problem: Problem) -> HostProblem:
        """One problem (K = 1) over these rows."""

    @abstractmethod
    def combine(self, coefficients: AlphaOf, bias: float | None) -> np.ndarray:
        """sum_i c_i x_i, with the bias entry; `coefficients(start, stop)` gives a block of c."""

    def bound(self, problem: Problem) -> Iterator[tuple[int, HostProblem]]:
        """The problems one after another, each with its number."""
        self.require_open()
        for k in range(problem.k):
            yield k, self.bound_alone(problem.only(k))

    def bound_alone(self, problem: Problem) -> HostProblem:
        """One problem (K = 1) over these rows: one of the last two that were bound, if it is the
        same and somebody still holds it, such as the trainer under way.  Passes do not change
        it."""
        for last in self._last:
            found = last()
            if found is not None and found.problem is problem:
                return found
        return self.bound_anew(problem)

    def bound_anew(self, problem: Problem) -> HostProblem:
        """One problem (K = 1) over these rows, for a trainer that changes its alpha."""
        found = self.bind(problem)
        self._last = (ref(found), *self._last[:1])
        return found

    def facts(self, problem: Problem) -> Facts:
        return join_facts([bound.facts for _, bound in self.bound(problem)])

    def newton_trainer(self: Any, problem: Problem, trainer: Trainer) -> NewtonTrainer:
        self.require_open()
        kind = NewtonTrainer if is_smooth(problem.loss) else ProximalNewtonTrainer
        return kind(self, problem, trainer)

    def dual(
        self, problem: Problem, alpha: np.ndarray | None = None, project: bool = True
    ) -> HostDual:
        return HostDual(self.host_dual(problem, alpha, project))

    def owns(self, dual: Dual) -> bool:
        self.require_open()
        return isinstance(dual, HostDual) and len(dual.alpha) == self.n

    def joined_dual(self, duals: Sequence[Dual]) -> HostDual:
        self.require_open()
        return HostDual(np.asfortranarray(np.hstack([dual.fetch() for dual in duals])))

    def dual_at(self, problem: Problem, W: np.ndarray, step: np.ndarray | None = None) -> HostDual:
        found, loss = np.empty((self.n, problem.k), order="F"), problem.loss
        for k, bound in self.bound(problem):
            weight, responses = bound.weights(0, self.n), bound.responses(_contiguous(W, k))
            slopes = loss.subgradient(responses)
            if step is not None:
                # Not the difference of responses, though those at the end may be known: for long
                # rows and a small lam, its rounding errors are too large.
                along = bound.signs(0, self.n) * bound.products(_contiguous(step, k))
                slopes = slopes + loss.second_derivative(responses) * along
            found[:, k] = relative(loss, -weight * slopes, weight) * weight
        return HostDual(found)

    def balanced(self, problem: Problem, dual: Dual) -> HostDual:
        return HostDual(self.host_balanced(problem, dual))

    def sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> Sums:
        alpha = dual.fetch()
        return _joined(
            [
                bound.sums(_contiguous(W, k), _blocks_of(alpha[:, k]))
                for k, bound in self.bound(problem)
            ]
        )

    def point_sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> tuple[Sums, np.ndarray]:
        alpha, sums, combinations = dual.fetch(), [], []
        for k, bound in self.bound(problem):
            found = bound.point_sums(_contiguous(W, k), _blocks_of(alpha[:, k]))
            sums.append(found[0])
            combinations.append(found[1])
        return _joined(sums), np.column_stack(combinations)

    def combination(self, problem: Problem, dual: Dual) -> np.ndarray:
        self.require_open()
        alpha, found = dual.fetch(), []
        for k in range(problem.k):
            signs_of = partial(targets_of(problem, k).signs, problem.loss)
            bias = None if problem.bias is None else float(problem.bias[k])
            found.append(self.combine(_products_of(_blocks_of(alpha[:, k]), signs_of), bias))
        return np.column_stack(found)

    def settled(self, problem: Problem, W: np.ndarray, distance: np.ndarray) -> np.ndarray:
        found = np.empty((self.n, problem.k), np.int8)
        for k, bound in self.bound(problem):
            w = _contiguous(W, k)
            responses, error = bound.responses(w), bound.response_error(w, norm(w))
            off = uncertainty(
                error, float(distance[k]), responses, bound.examples["offset"],
                bound.examples["norm2"], bound.facts.longest_row,
            )  # fmt: skip
            found[:, k] = settled(problem.loss, responses, off)
        return found

    def gradient_sums(self, problem: Problem, W: np.ndarray) -> GradientSums:
        losses, slopes = np.empty(problem.k), np.empty(W.shape)
        for k, bound in self.bound(problem):
            losses[k], slopes[:, k] = bound.gradient_sums(_contiguous(W, k))
        return GradientSums(losses, slopes)

    def losses_along(
        self, problem: Problem, W: np.ndarray, step: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        found = np.empty((len(lengths), problem.k))
        for k, bound in self.bound(problem):
            along = bound.signs(0, self.n) * bound.products(_contiguous(step, k))
            responses, weight = bound.responses(_contiguous(W, k)), bound.weights(0, self.n)
            for j, t in enumerate(lengths):
                found[j, k] = inner(weight, problem.loss.value(responses + t * along))
        return found

    def hessian(self, problem: Problem, W: np.ndarray) -> np.ndarray:
        if problem.k != 1:
            raise ValueError(f"problem must be one problem for its Hessian, not {problem.k}")
        self.require_open()
        bound = self.bound_alone(problem.only(0))
        return bound.weighted_gram(bound.curvatures(_contiguous(W, 0))) / bound.total_weight

    def rough_hessian(self, problem: Problem, W: np.ndarray) -> np.ndarray | None:
        self.require_open()
        bound = self.bound_alone(problem.only(0))
        curvatures = bound.curvatures(_contiguous(W, 0))
        every = rows_per_sampled_row(curvatures, bound.d)
        if every == 1:
            return None
        sample = np.zeros_like(curvatures)
        sample[::every] = curvatures[::every]
        found = bound.weighted_gram(sample)
        if not is_column_seen(np.diag(found), bound.absolute_sums(np.sqrt(sample))).all():
            return None
        return found * (float(curvatures.sum()) / float(sample.sum()) / bound.total_weight)

    def hessian_times(self, problem: Problem, W: np.ndarray, V: np.ndarray) -> np.ndarray:
        found = []
        for k, bound in self.bound(problem):
            c = bound.curvatures(_contiguous(W, k)) * bound.products(_contiguous(V, k))
            found.append(self.combine(_blocks_of(c), bound.bias) / bound.total_weight)
        return np.column_stack(found)


def _joined(found: list[Sums]) -> Sums:
    """The sums of K problems, from those of each."""
    values = np.concatenate([sums.values for sums in found], axis=1)
    norms = np.concatenate([sums.norms for sums in found])
    return Sums(values, norms, join_facts([sums.facts for sums in found]))


def _blocks_of(vector: np.ndarray) -> AlphaOf:
    return lambda start, stop: vector[start:stop]


def _products_of(first: AlphaOf, second: AlphaOf) -> AlphaOf:
    return lambda start, stop: first(start, stop) * second(start, stop)


def _contiguous(W: np.ndarray, k: int) -> np.ndarray:
    return np.ascontiguousarray(W[:, k], dtype=np.float64)
