"""What can go wrong with workers."""

from __future__ import annotations

from collections.abc import Collection

from batchsvm.core.loop import DataLostError


class WorkersLostError(DataLostError):
    """Workers are gone, and others cannot take their place."""


class WorkerLost(Exception):
    """Some workers have died or do not answer; they can be replaced, and the call repeated."""

    def __init__(self, lost: Collection[tuple[int, int]]) -> None:
        super().__init__(lost)
        self.lost = lost  # number and generation of each


class UnknownTrainingError(Exception):
    """A worker that has taken the place of another does not know of a training yet."""
