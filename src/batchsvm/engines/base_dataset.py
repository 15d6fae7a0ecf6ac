"""What all data sets have in common: everything that needs the targets alone, and not the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.data_checks import NO_LABELS
from batchsvm.core.problem import Problem, in_box
from batchsvm.core.tuning import Tuning
from batchsvm.engines.balance import balanced
from batchsvm.engines.newton import NewtonTrainer
from batchsvm.engines.protocol import ConstantSums, Dual, Trainer
from batchsvm.engines.row_gram import gram_product
from batchsvm.engines.targets import HostTargets, make_targets


class PlacedData:
    """What placed data do on every engine: they are open until they are closed, stay where they
    are, and have views."""

    labels: Any = None  # that came with the rows
    is_open = True
    cheap_passes = False

    def require_open(self) -> None:
        if not self.is_open:
            raise ValueError("this data set is closed: place X again to use it")

    def own_targets(
        self, how: str, sample_weight: Any = None, offset: Any = None, class_weights: Any = None
    ) -> Any:
        self.require_open()
        raise ValueError(NO_LABELS)

    def class_totals(self, sample_weight: Any = None) -> np.ndarray:
        self.require_open()
        raise ValueError(NO_LABELS)

    def newton_trainer(self: Any, problem: Problem, trainer: Trainer) -> NewtonTrainer:
        self.require_open()
        return NewtonTrainer(self, problem, trainer)

    def rough_hessian(self, problem: Problem, W: np.ndarray) -> np.ndarray | None:
        self.require_open()
        return None

    def row_gram(
        self: Any, rows: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        self.require_open()
        return gram_product(self.sample(rows), normalize, bias)

    def _view(self) -> Self:
        """Another data set over the same rows, which shares everything with this one."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        return view

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refused on every engine: another process has neither the threads nor the device, and
        would get a copy of rows that are placed so as not to be copied."""
        raise TypeError(
            "placed data cannot be pickled or copied: pickle X instead, and place it again where it"
            " is used, by batchsvm.place(X)"
        )

    def close(self) -> None:
        self.is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BaseDataset(PlacedData):
    """A part of a `Dataset` (see `engines/protocol.py`) whose targets are on this host."""

    engine: str
    deterministic = True
    keeps_all_alphas = True
    duals_outlive = True
    n: int
    d: int
    nonzeros: int
    jobs: int
    sliceable: bool
    tuning: Tuning
    memo: dict[Any, Any]

    def over_blocks(self, work: Callable[[int, int], Any]) -> list[Any]:
        self.require_open()
        return [work(0, self.n)]

    def targets(
        self, y: Any = None, sample_weight: Any = None, offset: Any = None, classes: int = 0
    ) -> HostTargets:
        self.require_open()
        return make_targets(self.n, y, sample_weight, offset, classes)

    def constant_sums(self, problem: Problem, b: np.ndarray) -> ConstantSums:
        self.require_open()
        found = np.empty((3, problem.k))
        for k in range(problem.k):
            found[:, k] = targets_of(problem, k).constant_sums(problem.loss, float(b[k]))
        return ConstantSums(*found)

    def offset_range(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        self.require_open()
        low, high = np.zeros(problem.k), np.zeros(problem.k)
        for k in range(problem.k):
            targets = targets_of(problem, k)
            _, offsets = targets.signs_and_offsets(problem.loss)
            weights = targets.weights(0, self.n)
            if weights is not None and weights.any():
                offsets = offsets[weights > 0.0]
            low[k], high[k] = offsets.min(), offsets.max()
        return low, high

    def host_dual(
        self, problem: Problem, alpha: np.ndarray | None = None, project: bool = True
    ) -> np.ndarray:
        """What `dual` is to be made of, (n, K)."""
        self.require_open()
        if alpha is not None and not project:
            return alpha
        inside = np.zeros((self.n, problem.k), order="F")
        for k in range(problem.k) if alpha is not None else ():
            assert alpha is not None
            weight = targets_of(problem, k).weights(0, self.n)
            weight = np.ones(self.n) if weight is None else weight
            inside[:, k] = in_box(problem.loss, alpha[:, k], weight)
        return inside

    def host_balanced(self, problem: Problem, dual: Dual) -> np.ndarray:
        """What `balanced` is to be made of, (n, K)."""
        self.require_open()
        alpha = dual.fetch()
        found = np.empty(alpha.shape, order="F")
        for k in range(problem.k):
            signs = targets_of(problem, k).signs(problem.loss, 0, self.n)
            found[:, k] = balanced(signs, alpha[:, k])
        return found

    def sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> Sums:
        raise NotImplementedError  # an engine brings it

    def combination(self, problem: Problem, dual: Dual) -> np.ndarray:
        raise NotImplementedError  # an engine brings it

    def point_sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> tuple[Sums, np.ndarray]:
        return self.sums(problem, W, dual), self.combination(problem, dual)


def targets_of(problem: Problem, k: int) -> HostTargets:
    """The targets of problem k alone."""
    targets = problem.only(k).targets
    assert isinstance(targets, HostTargets)
    return targets
