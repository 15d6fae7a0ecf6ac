"""Targets of one part: in the object store, owned by the driver, so that they outlive a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchsvm.core.problem import Problem
from batchsvm.engines.labels import OwnTargets
from batchsvm.engines.ray.library import load_ray
from batchsvm.engines.targets import HostTargets


@dataclass(frozen=True, eq=False)
class SharedTargets:
    """`Targets` (see `engines/protocol.py`) of one part, as they lie in the object store."""

    stored: Any  # a reference to targets that the driver has put
    k: int
    has_offset: bool
    taken: tuple[tuple[str, Any], ...] = ()  # which of the problems, call after call

    def only(self, k: int) -> SharedTargets:
        return replace(self, k=1, taken=(*self.taken, ("only", k)))

    def some(self, which: Sequence[int]) -> SharedTargets:
        return replace(self, k=len(which), taken=(*self.taken, ("some", tuple(which))))


def share(targets: HostTargets | OwnTargets) -> SharedTargets:
    """Put the targets of a part into the object store."""
    return SharedTargets(load_ray().put(targets), targets.k, targets.has_offset)


def read(problem: Problem, labels: Any, weights: Any, timeout: float) -> Problem:
    """The problem over a part with its targets in memory; `labels` and `weights` came with the
    rows of the part."""
    shared = problem.targets
    if not isinstance(shared, SharedTargets):
        return problem
    targets = load_ray().get(shared.stored, timeout=timeout)
    for name, argument in shared.taken:
        targets = getattr(targets, name)(argument)
    if isinstance(targets, OwnTargets):
        targets = targets.read(labels, weights)
    return replace(problem, targets=targets)
