"""When a fit that began with SDCA goes on with Newton's method.

How many epochs SDCA needs is foreseen badly from the shape of the data (`newton_choice.py`): where
few rows are close to the margin it is done in some epochs, whatever lam is.  So where Newton's
method is likely to be faster, but takes as long as many epochs, "auto" begins with SDCA, and looks
after some epochs, and twice as many, and so on: the gap of the two last looks says how many more
epochs SDCA needs, if the gap goes on falling at this rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite, log
from typing import NamedTuple

TRIAL_PART = 0.25  # of the time of Newton's method, for which SDCA is tried
MIN_TRIAL_EPOCHS = 4.0  # with fewer, SDCA cannot show what it needs
LEAST_GOAL = 1e-12  # of the gap: tol may be 0


class Trial(NamedTuple):
    """SDCA tried first, where Newton's method is likely to be faster."""

    epochs: float  # until the first look
    limit: float  # the most further epochs that SDCA may need

    def looks(self, per_epoch: float) -> Iterator[int]:
        """The iterations after which to look, if an epoch has so many."""
        at = self.epochs
        while True:
            yield max(round(at * per_epoch), 1)
            at *= 2


def trial_of(newton_epochs: float, max_epochs: float) -> Trial | None:
    """The trial, if Newton's method takes as long as so many epochs; None where that is too short
    for a trial.  Half of all epochs are left to Newton's method."""
    limit = min(newton_epochs, max_epochs / 2)
    epochs = TRIAL_PART * limit
    return Trial(epochs, limit) if epochs >= MIN_TRIAL_EPOCHS else None


class ChangeOver:
    """The looks of one fit."""

    def __init__(self, trial: Trial, gap: float) -> None:
        """`gap` is that at the start, infinite if it is not known."""
        self.trial, self._next = trial, trial.epochs
        self._epoch, self._gap = 0.0, gap

    def is_due(self, epoch: float, gap: float, goal: float) -> bool:
        """Whether SDCA, which has a gap above the goal after so many epochs, is likely to need too
        many more to get there."""
        if epoch < (1 - 1e-9) * self._next:
            return False
        needed = self._epochs_to(goal, epoch, gap)
        self._next, self._epoch, self._gap = 2 * epoch, epoch, gap
        return needed > self.trial.limit

    def _epochs_to(self, goal: float, epoch: float, gap: float) -> float:
        if not isfinite(self._gap):  # there is no rate yet
            return 0.0
        if not gap < self._gap:
            return inf
        rate = log(self._gap / gap) / (epoch - self._epoch)
        return log(gap / max(goal, LEAST_GOAL * gap)) / rate
