"""The ray engine's data set: parts that lie in the actors of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from batchsvm.core.dual import HostDual
from batchsvm.core.problem import Problem
from batchsvm.core.tuning import Tuning
from batchsvm.engines.labels import Labels, OwnTargets
from batchsvm.engines.part_handles import (
    Cut,
    PartsDual,
    PerPart,
    duals_of,
    local_rows,
)
from batchsvm.engines.parts import PartsDataset
from batchsvm.engines.protocol import Dual
from batchsvm.engines.ray import cluster
from batchsvm.engines.ray.handles import share
from batchsvm.engines.ray.library import load_ray
from batchsvm.engines.ray.trainer import RayTrainer
from batchsvm.engines.ray.worker import PartFacts, View
from batchsvm.engines.ray.workers import Workers
from batchsvm.engines.targets import HostTargets
from batchsvm.methods import Method, Newton

MIN_STORED_BYTES = 100_000  # larger arguments are put into the object store once, for all workers
# A problem in training takes about so many bytes per row of a worker, beside the rows.
BYTES_PER_ROW = 64
MAX_TRAINING_BYTES = 2**30


class RayDataset(PartsDataset):
    """A `Dataset`: see `engines/protocol.py`.

    Attributes
    ----------
    workers : Workers
    labels : Labels or None
        What a source said of its rows.
    """

    engine = "ray"
    keeps_all_alphas = False

    def __init__(
        self, workers: Workers, cut: Cut, columns: int, facts: Sequence[PartFacts],
        jobs: int, tuning: Tuning, deterministic: bool,
    ) -> None:  # fmt: skip
        self.workers, self.cut, self.d = workers, cut, columns
        self._parts: Sequence[int] = range(len(facts))  # the workers that have some of the rows
        self._views: Sequence[View | None] = [None] * len(facts)
        self._rows = [part.rows for part in facts]
        self.nonzeros = sum(part.nonzeros for part in facts)
        self.mean_norm2 = sum(part.norm2 for part in facts) / cut.n
        self.sliceable = all(part.sliceable for part in facts)
        self.jobs, self.tuning, self.memo = jobs, tuning, {}
        self.deterministic = deterministic
        self.labels: Labels | None = None
        self.own_labels: Sequence[Labels] = ()  # of each worker, with the codes of its own
        self._owner, self._owns_views = True, False

    # Where the parts are.

    def asks(self, work: Callable[..., Any], *arguments: Any) -> list[tuple[int, tuple[Any, ...]]]:
        """What each worker is asked; what all are given is sent once."""
        self.require_open()
        shared = [a if isinstance(a, PerPart) else _stored(a) for a in arguments]
        return [
            (p, (view, work, *(a[j] if isinstance(a, PerPart) else a for a in shared)))
            for j, (p, view) in enumerate(zip(self._parts, self._views, strict=True))
        ]

    def _each(self, work: Callable[..., Any], *arguments: Any, rows: bool = True) -> Iterable[Any]:
        return self.workers.ask(self.asks(work, *arguments))

    def _keep(self, work: Callable[..., Any], *arguments: Any, rows: bool = True) -> PerPart:
        """Dual points are kept by the driver, so that they outlive workers."""
        return PerPart(self._each(work, *arguments, rows=rows))

    def _sum(
        self, plus: Callable[[Any, Any], Any], work: Callable[..., Any], *arguments: Any,
        rows: bool = True,
    ) -> Any:  # fmt: skip
        nbytes = 8 * self.d * _width(arguments)
        return self.workers.sum_of(self.asks(work, *arguments), plus, nbytes)

    @property
    def members(self) -> Sequence[tuple[int, View | None]]:
        """The workers, and which of their rows these are."""
        return list(zip(self._parts, self._views, strict=True))

    # Targets and dual points.

    def _keep_targets(self, given: Sequence[PerPart], k: int, classes: int) -> PerPart:
        """The driver owns them, so that they outlive a worker."""
        return PerPart(
            share(HostTargets(labels, weights, fixed, k, classes))
            for labels, weights, fixed in zip(*given, strict=True)
        )

    def _keep_own(self, j: int, targets: OwnTargets) -> Any:
        """By the codes that the worker has given to words."""
        return share(replace(targets, labels=self.own_labels[self._parts[j]]))

    def joined_dual(self, duals: Sequence[Dual]) -> PartsDual:
        self.require_open()
        columns = zip(*(duals_of(dual) for dual in duals), strict=True)
        return self._dual_of(
            PerPart(
                HostDual(np.asfortranarray(np.hstack([dual.fetch() for dual in own])))
                for own in columns
            )
        )

    # Other data sets over the same rows.

    def subset(self, rows: np.ndarray) -> RayDataset:
        self.require_open()
        rows = np.asarray(rows)
        found = [local_rows(place, rows) for place in self.cut.places]
        used = [j for j, (here, _) in enumerate(found) if here.size]
        part = self._view()
        part._owner, part._owns_views = False, True
        part.memo = {}
        part._parts = [self._parts[j] for j in used]
        part._views = [
            View(self.workers.new_key(), load_ray().put(self._local(j, found[j][1]))) for j in used
        ]
        part._rows = [found[j][1].size for j in used]
        part.cut = Cut(rows.size, [found[j][0] for j in used])
        facts = list(part._each(_facts_of))
        part.nonzeros = sum(nonzeros for nonzeros, _ in facts)
        part.mean_norm2 = sum(norm2 for _, norm2 in facts) / part.n
        return part

    def _local(self, j: int, rows: np.ndarray) -> np.ndarray:
        """Numbers of rows of this data set, as numbers in the part of a worker."""
        view = self._views[j]
        if view is None:
            return rows
        return load_ray().get(view.stored, timeout=self.workers.timeout)[rows]

    def share(self, jobs: int) -> RayDataset:
        self.require_open()
        view = self._view()
        view._owner, view._owns_views, view.jobs = False, False, jobs
        return view

    # Training.

    def problems_at_once(self, method: Method | None = None) -> float:
        if isinstance(method, Newton):
            return 1
        return max(1, MAX_TRAINING_BYTES // (BYTES_PER_ROW * max(self._rows)))

    def trainer(self, problem: Problem) -> RayTrainer:
        self.require_open()
        return RayTrainer(self, problem)

    def close(self) -> None:
        if self.is_open and self._owner:
            self.workers.close()
            cluster.leave()
        elif self.is_open and self._owns_views and len(self.workers):
            for p, view in self.members:
                self.workers.call(p, "forget", view)
        super().close()


def _stored(argument: Any) -> Any:
    large = isinstance(argument, np.ndarray) and argument.nbytes >= MIN_STORED_BYTES
    return load_ray().put(argument) if large else argument


def _width(arguments: Sequence[Any]) -> int:
    """How many columns a sum over the workers has, at the most."""
    widths = [1]
    for argument in arguments:
        if isinstance(argument, np.ndarray) and argument.ndim == 2:
            widths.append(argument.shape[1])
        elif isinstance(argument, PerPart) and isinstance(argument[0], Problem):
            widths.append(argument[0].k)
    return max(widths)


def _facts_of(part: Any) -> tuple[int, float]:
    return part.nonzeros, part.mean_norm2 * part.n
