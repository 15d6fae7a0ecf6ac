"""The state of a training in a file: when it is written, and what the loop has in it.

A trainer that can be continued is `Resumable`.  It says when it is at the end of a pass, where
little has to be saved, and owns the form of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.warning import warn_user

if TYPE_CHECKING:
    from batchsvm.core.layout import Schedule

# Of the time of a training, at most, that is spent on writing; the first file is written at once.
SHARE = 0.1


class Note(NamedTuple):
    """What the loop has to find again."""

    records: list[np.ndarray]  # the history of each problem, a line per entry
    seconds: float
    certify_seconds: float


class Resumed(NamedTuple):
    """What a trainer has found in a file."""

    note: Note
    sums: Sums  # of the best point, from scratch: no certificate comes from a file
    combination: np.ndarray


@dataclass(frozen=True, eq=False)
class Saving:
    """Where the state of a training is saved, and what was there already.

    Attributes
    ----------
    path : Path
    asked : dict
        The parameters of the call that may not change, as JSON has them.
    saved : object or None
        The file that was there, open; what it is only the engine knows.
    """

    path: Path
    asked: dict[str, Any]
    saved: Any = None


@runtime_checkable
class Resumable(Protocol):
    """What a `Trainer` offers beside, if its state can be saved.

    Attributes
    ----------
    on_pass : callable or None
        Called at the end of each pass, in `run`.
    unsaved : bool
        Whether it is at the end of a pass that was not saved yet.
    """

    on_pass: Callable[[], None] | None
    unsaved: bool

    def save(self, saving: Saving, note: Note) -> None:
        """Write the state, at the end of a pass, in the place of the file before."""
        ...

    def resume(self, schedule: Schedule, saving: Saving) -> Resumed:
        """In the place of `start`: go on from what was saved.  A file that is of another training,
        or is not what it should be, is refused."""
        ...


def refuse_engine(engine: str) -> None:
    raise ValueError(
        f'checkpoint must be None for engine="{engine}", whose training is not saved: it is for'
        ' engine="streamed"'
    )


class Saver:
    """Saves a training at the ends of passes, as often as takes a small share of its time."""

    def __init__(self, trainer: Resumable, saving: Saving, note: Callable[[], Note]) -> None:
        self._trainer, self._saving, self._note = trainer, saving, note
        self._due, self._failed = 0.0, False
        trainer.on_pass = self.save_if_due

    def save_if_due(self) -> None:
        if perf_counter() >= self._due:
            self.save()

    def save(self) -> None:
        """Save what is not saved yet.  Training does not end because a disk is full."""
        if not self._trainer.unsaved:
            return
        began = perf_counter()
        try:
            self._trainer.save(self._saving, self._note())
        except OSError as error:
            if not self._failed:
                words = "the checkpoint cannot be written, and training goes on without it"
                warn_user(f"{words}: {error}", RuntimeWarning)
            self._failed = True
        ended = perf_counter()
        self._due = ended + (1 / SHARE - 1) * (ended - began)
