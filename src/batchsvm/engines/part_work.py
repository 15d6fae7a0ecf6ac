"""What is asked of one part of a data set: functions with plain arguments, so that they can be sent
to another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.problem import Facts, OutsideBoxError, Problem
from batchsvm.engines.base_dataset import targets_of
from batchsvm.engines.part_handles import Place
from batchsvm.engines.protocol import ConstantSums, Dataset, Dual, GradientSums, Targets


def targets(part: Dataset, y: Any, weights: Any, offset: Any, classes: int) -> Targets:
    return part.targets(y, weights, offset, classes)


def dual(
    part: Dataset, problem: Problem, alpha: np.ndarray | None, project: bool, place: Place
) -> Dual:
    try:
        return part.dual(problem, alpha, project)
    except OutsideBoxError as error:  # by its number in the whole
        row = range(place.stop)[place][error.row] if isinstance(place, slice) else place[error.row]
        raise OutsideBoxError(error.loss, int(row), error.alpha) from None


def joined_dual(part: Dataset, duals: Sequence[Dual]) -> Dual:
    return part.joined_dual(duals)


def dual_at(part: Dataset, problem: Problem, W: np.ndarray, step: np.ndarray | None) -> Dual:
    return part.dual_at(problem, W, step)


def signs(part: Dataset, problem: Problem) -> np.ndarray:
    columns = [targets_of(problem, k).signs(problem.loss, 0, part.n) for k in range(problem.k)]
    return np.column_stack(columns).astype(np.float64)


def class_totals(part: Dataset, problem: Problem) -> np.ndarray:
    found: Any = problem.targets
    return np.bincount(found.y, found.sample_weight, found.classes).astype(np.float64)


def row_weights(part: Dataset, problem: Problem) -> np.ndarray:
    found = targets_of(problem, 0).weights(0, part.n)
    return np.ones(part.n) if found is None else found.astype(np.float64)


def facts(part: Dataset, problem: Problem) -> Facts:
    return part.facts(problem)


def constant_sums(part: Dataset, problem: Problem, b: np.ndarray) -> ConstantSums:
    return part.constant_sums(problem, b)


def offset_range(part: Dataset, problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return *part.offset_range(problem), part.facts(problem).total_weight


def sums(part: Dataset, problem: Problem, W: np.ndarray, dual: Dual) -> Sums:
    return part.sums(problem, W, dual)


def combination(part: Dataset, problem: Problem, dual: Dual) -> np.ndarray:
    return part.combination(problem, dual)


def point_sums(
    part: Dataset, problem: Problem, W: np.ndarray, dual: Dual
) -> tuple[Sums, np.ndarray]:
    return part.point_sums(problem, W, dual)


def settled(part: Dataset, problem: Problem, W: np.ndarray, distance: np.ndarray) -> np.ndarray:
    return part.settled(problem, W, distance)


def gradient_sums(part: Dataset, problem: Problem, W: np.ndarray) -> GradientSums:
    return part.gradient_sums(problem, W)


def losses_along(
    part: Dataset, problem: Problem, W: np.ndarray, step: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    return part.losses_along(problem, W, step, lengths)


def hessian(part: Dataset, problem: Problem, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return _weighed(part, problem, lambda: part.hessian(problem, W))


def hessian_times(
    part: Dataset, problem: Problem, W: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return _weighed(part, problem, lambda: part.hessian_times(problem, W, V))


def _weighed(
    part: Dataset, problem: Problem, mean: Callable[[], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """N times this mean, and N; rows that weigh nothing have no mean."""
    weight = part.facts(problem).total_weight
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weight > 0, mean() * weight, 0.0), weight


def gram_times(part: Dataset, V: np.ndarray, normalize: bool, bias: float | None) -> np.ndarray:
    return part.gram_times(V, normalize, bias)


def absolute_sums(part: Dataset, normalize: bool, bias: float | None) -> tuple[np.ndarray, float]:
    return part.absolute_sums(normalize, bias)


def column_norms2(part: Dataset) -> np.ndarray:
    return part.column_norms2()


def scores(part: Dataset, W: np.ndarray) -> np.ndarray:
    return part.scores(W)


def sample(part: Dataset, rows: np.ndarray) -> Any:
    return part.sample(rows) if rows.size else None
