"""A data set that is a sum over parts, each of them an ordinary data set.

Everything that is additive over rows is a reduction over parts.  Where the parts are, and how they
are visited, is up to a subclass: one reads them from a disk one after another, another asks actors.
A subclass brings `_each` and `_keep`, and `subset`, `share`, `trainer` and `problems_at_once`.

What is asked of a part is a function of `part_work.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.core.certificate import Sums
from batchsvm.core.problem import Facts, Problem, make_problem
from batchsvm.core.tuning import Tuning
from batchsvm.engines import part_work
from batchsvm.engines.balance import balanced
from batchsvm.engines.base_dataset import PlacedData
from batchsvm.engines.labels import OwnTargets, wanted_labels
from batchsvm.engines.part_handles import (
    Cut,
    PartsDual,
    PartsTargets,
    PerPart,
    duals_of,
    local_rows,
    parts_of,
)
from batchsvm.engines.protocol import ConstantSums, Dual, GradientSums
from batchsvm.engines.targets import HostTargets, make_targets
from batchsvm.losses import LOSSES


class PartsDataset(PlacedData, ABC):
    """A part of a `Dataset` (see `engines/protocol.py`): what parts add up to."""

    engine: str
    device_size = None
    deterministic = True
    keeps_all_alphas = True
    duals_outlive = True
    cut: Cut
    d: int
    nonzeros: int
    mean_norm2: float
    jobs: int
    sliceable: bool
    tuning: Tuning
    memo: dict[Any, Any]

    # Where the parts are.

    @abstractmethod
    def _each(self, work: Callable[..., Any], *arguments: Any, rows: bool = True) -> Iterable[Any]:
        """work(part, ...) for each part, a `Dataset`; the results in the order of the parts, as
        they come: they are added up without all of them being in memory.

        Of an argument that is `PerPart`, a part is given its own entry, and of all others the
        whole.  A data set that is closed refuses it.  Without `rows`, only the targets, the norms
        and the number of the rows of a part are asked for: the entries need not be there.
        """

    @abstractmethod
    def _keep(self, work: Callable[..., Any], *arguments: Any, rows: bool = True) -> PerPart:
        """As `_each`, but the results, `Targets` or `Dual`, stay where the parts are; what comes
        back are handles that `_each` takes in their place."""

    def _sum(
        self, plus: Callable[[Any, Any], Any], work: Callable[..., Any], *arguments: Any,
        rows: bool = True,
    ) -> Any:  # fmt: skip
        """The sum of what `_each` returns."""
        return _total(self._each(work, *arguments, rows=rows), plus)

    @property
    def n(self) -> int:
        return self.cut.n

    def over_blocks(self, work: Callable[[int, int], Any]) -> list[Any]:
        self.require_open()
        return [work(0, self.n)]

    # Targets and dual points.

    def targets(
        self, y: Any = None, sample_weight: Any = None, offset: Any = None, classes: int = 0
    ) -> PartsTargets:
        """As the protocol says; without y, the labels that came with the rows: codes with
        `classes`, -1 and +1 for at most two of them, and else numbers."""
        self.require_open()
        if y is None and self.labels is not None:
            how = "codes" if classes else self.labels.usual
            return self.own_targets(how, sample_weight, offset)
        whole = make_targets(self.n, y, sample_weight, offset, classes)
        given = [self.cut.taken(a) for a in (whole.y, whole.sample_weight, whole.offset)]
        kept = self._keep_targets(given, whole.k, classes)
        return PartsTargets(kept, whole.k, whole.has_offset)

    def _keep_targets(self, given: Sequence[PerPart], k: int, classes: int) -> PerPart:
        """The targets of each part, from its y, weights and offsets."""
        return self._keep(part_work.targets, *given, classes, rows=False)

    def own_targets(
        self, how: str, sample_weight: Any = None, offset: Any = None, class_weights: Any = None
    ) -> PartsTargets:
        self.require_open()
        arrays = [None if a is None else np.asarray(a) for a in (sample_weight, offset)]
        labels, k, classes = wanted_labels(self.labels, how, arrays)
        given = zip(*(self.cut.taken(array) for array in arrays), strict=True)
        parts = PerPart()
        for j, (weights, fixed) in enumerate(given):
            shape = HostTargets(np.empty(0), weights, fixed, k, classes)
            parts.append(self._keep_own(j, OwnTargets(labels, how, shape, class_weights)))
        return PartsTargets(parts, k, offset is not None)

    def _keep_own(self, j: int, targets: OwnTargets) -> Any:
        """Targets of part j that its labels make, as they are kept."""
        return targets

    def dual(
        self, problem: Problem, alpha: np.ndarray | None = None, project: bool = True
    ) -> PartsDual:
        own, places = self.cut.taken(alpha), PerPart(self.cut.places)
        kept = self._keep(part_work.dual, _own(problem), own, project, places, rows=False)
        return self._dual_of(kept)

    def owns(self, dual: Dual) -> bool:
        self.require_open()
        return isinstance(dual, PartsDual) and dual.cut is self.cut

    def joined_dual(self, duals: Sequence[Dual]) -> PartsDual:
        own = PerPart(zip(*(duals_of(dual) for dual in duals), strict=True))
        return self._dual_of(self._keep(part_work.joined_dual, own, rows=False))

    def dual_at(self, problem: Problem, W: np.ndarray, step: np.ndarray | None = None) -> PartsDual:
        return self._dual_of(self._keep(part_work.dual_at, _own(problem), W, step))

    def balanced(self, problem: Problem, dual: Dual) -> PartsDual:
        """The rows of all parts have to be balanced together, which is done on this host."""
        signs = self.cut.whole(list(self._each(part_work.signs, _own(problem), rows=False)))
        alpha = dual.fetch()
        columns = [balanced(signs[:, k], alpha[:, k]) for k in range(problem.k)]
        return self.dual(problem, np.asfortranarray(np.column_stack(columns)), project=False)

    def class_totals(self, sample_weight: Any = None) -> np.ndarray:
        targets = self.own_targets("codes", sample_weight)
        problem = make_problem(targets, LOSSES["hinge"](), 1.0)
        return _total(self._each(part_work.class_totals, _own(problem), rows=False), np.add)

    def row_weights(self, problem: Problem) -> np.ndarray:
        """The weight of each row in the first problem, (n,)."""
        return self.cut.whole(list(self._each(part_work.row_weights, _own(problem), rows=False)))

    def _dual_of(self, parts: PerPart) -> PartsDual:
        return PartsDual(parts, self.cut)

    # Sums over the rows of problems.

    def facts(self, problem: Problem) -> Facts:
        return total_facts(self.part_facts(problem))

    def part_facts(self, problem: Problem) -> list[Facts]:
        """The facts of the problem over each part."""
        return list(self._each(part_work.facts, _own(problem), rows=False))

    def constant_sums(self, problem: Problem, b: np.ndarray) -> ConstantSums:
        return ConstantSums(*self._sum(_add, part_work.constant_sums, _own(problem), b, rows=False))

    def offset_range(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        found = list(self._each(part_work.offset_range, _own(problem), rows=False))
        # Rows without weight do not count, unless all are.
        heavy = np.array([weights > 0 for _, _, weights in found])
        counts = heavy | ~heavy.any(axis=0)
        low = np.where(counts, [low for low, _, _ in found], np.inf).min(axis=0)
        high = np.where(counts, [high for _, high, _ in found], -np.inf).max(axis=0)
        return low, high

    def sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> Sums:
        return self._sum(Sums.plus, part_work.sums, _own(problem), W, duals_of(dual))

    def combination(self, problem: Problem, dual: Dual) -> np.ndarray:
        return self._sum(np.add, part_work.combination, _own(problem), duals_of(dual))

    def point_sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> tuple[Sums, np.ndarray]:
        return self._sum(add_point_sums, part_work.point_sums, _own(problem), W, duals_of(dual))

    def settled(self, problem: Problem, W: np.ndarray, distance: np.ndarray) -> np.ndarray:
        return self.cut.whole(list(self._each(part_work.settled, _own(problem), W, distance)))

    def gradient_sums(self, problem: Problem, W: np.ndarray) -> GradientSums:
        return self._sum(GradientSums.plus, part_work.gradient_sums, _own(problem), W)

    def losses_along(
        self, problem: Problem, W: np.ndarray, step: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        return self._sum(np.add, part_work.losses_along, _own(problem), W, step, lengths)

    def hessian(self, problem: Problem, W: np.ndarray) -> np.ndarray:
        self.require_open()
        if problem.k != 1:
            raise ValueError(f"problem must be one problem for its Hessian, not {problem.k}")
        return _mean(self._sum(_add, part_work.hessian, _own(problem), W))

    def hessian_times(self, problem: Problem, W: np.ndarray, V: np.ndarray) -> np.ndarray:
        return _mean(self._sum(_add, part_work.hessian_times, _own(problem), W, V))

    # Passes that need no problem.

    def gram_times(
        self, V: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> np.ndarray:
        return self._sum(np.add, part_work.gram_times, V, normalize, bias)

    def absolute_sums(
        self, normalize: bool = True, bias: float | None = None
    ) -> tuple[np.ndarray, float]:
        return self._sum(_add_and_max, part_work.absolute_sums, normalize, bias)

    def column_norms2(self) -> np.ndarray:
        return self._sum(np.add, part_work.column_norms2)

    def scores(self, W: np.ndarray) -> np.ndarray:
        return self.cut.whole(list(self._each(part_work.scores, W)))

    def sample(self, rows: np.ndarray) -> Any:
        self.require_open()
        rows = np.asarray(rows)
        found = [local_rows(place, rows) for place in self.cut.places]
        taken = self._each(part_work.sample, PerPart(local for _, local in found))
        order = np.concatenate([here for here, _ in found])
        parts = [part for part in taken if part is not None]
        stacked = (
            scipy.sparse.vstack(parts, "csr")
            if scipy.sparse.issparse(parts[0])
            else np.concatenate(parts)
        )
        return stacked[np.argsort(order)]


def _own(problem: Problem) -> PerPart:
    """The problem over each part."""
    return PerPart(replace(problem, targets=own) for own in parts_of(problem.targets))


class PairwiseSum:
    """A sum in pairs: a term goes through few additions, and few sums are in memory."""

    def __init__(self, plus: Callable[[Any, Any], Any]) -> None:
        self._plus = plus
        self._sums: list[tuple[int, Any]] = []  # of how many terms; fewer and fewer

    def add(self, term: Any) -> None:
        count = 1
        while self._sums and self._sums[-1][0] == count:
            _, other = self._sums.pop()
            term, count = self._plus(other, term), 2 * count
        self._sums.append((count, term))

    def total(self) -> Any:
        _, total = self._sums[-1]
        for _, other in self._sums[-2::-1]:
            total = self._plus(other, total)
        return total


def _total(found: Iterable[Any], plus: Callable[[Any, Any], Any]) -> Any:
    """The sum of what the parts have found."""
    sums = PairwiseSum(plus)
    for term in found:
        sums.add(term)
    return sums.total()


def _add(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _add_and_max(
    one: tuple[np.ndarray, float], other: tuple[np.ndarray, float]
) -> tuple[np.ndarray, float]:
    return one[0] + other[0], max(one[1], other[1])


def _mean(found: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """From N times a mean, and N."""
    totals, weights = found
    return totals / weights


def add_point_sums(
    one: tuple[Sums, np.ndarray], other: tuple[Sums, np.ndarray]
) -> tuple[Sums, np.ndarray]:
    """What `point_sums` returns, of the rows of both."""
    return one[0].plus(other[0]), one[1] + other[1]


def total_facts(facts: Sequence[Facts]) -> Facts:
    """The facts over all parts."""
    return _total(facts, Facts.plus)
