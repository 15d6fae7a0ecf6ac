"""When a fit that began with SDCA goes on with Newton's method.

How many epochs SDCA needs is foreseen badly from the shape of the data (`newton_choice.py`): where
few rows are close to the margin it is done in some epochs, whatever lam is.  So where Newton's
method is likely to be faster, but takes as long as many epochs, "auto" begins with SDCA, and checks
the gap after some epochs, after twice as many, and so on.  The gaps of the last two checks say how
many more epochs SDCA needs, if the gap goes on falling at this rate.

Where SDCA is likely to be faster, the gap is checked too, but not before SDCA has taken as long as
Newton's method would have, and 16 epochs: most fits end before.
"""

from __future__ import annotations

from math import ceil, inf, isfinite, log
from typing import NamedTuple

TRIAL_PART = 0.25  # of the time of Newton's method, for which SDCA is tried
MIN_TRIAL_EPOCHS = 4.0  # with fewer, SDCA cannot show what it needs
MIN_LATE_EPOCHS = 16.0  # of a late trial
MOST_EPOCHS = 1e9  # no run gets there; max_epochs may be 1e308
LEAST_GOAL = 1e-12  # of the gap: tol may be 0
ROUNDING = 1e-9  # of a number of epochs


class Trial(NamedTuple):
    """Checks of SDCA, after which Newton's method may go on."""

    first: float  # epochs until the gap is checked
    last: float  # epochs after which it is not checked any more
    limit: float  # the most further epochs that SDCA may need
    is_late: bool = False  # whether SDCA is likely to be faster

    @property
    def epochs(self) -> list[float]:
        """After how many epochs the gap is checked."""
        found = [self.first]
        while 2 * found[-1] <= min(self.last, MOST_EPOCHS):
            found.append(2 * found[-1])
        return found

    def iterations(self, per_epoch: float) -> list[int]:
        """The same in iterations, of which an epoch has so many."""
        return [ceil((1 - ROUNDING) * epochs * per_epoch) for epochs in self.epochs]

    def __str__(self) -> str:
        shown = ", ".join(f"{epochs:.0f}" for epochs in self.epochs[:3])
        return f"{shown}{', ...' if len(self.epochs) > 3 else ''} epochs"


def trial_of(newton_epochs: float, max_epochs: float) -> Trial | None:
    """The trial, if Newton's method takes as long as so many epochs; None where that is too short
    for a trial.  Half of all epochs are left to Newton's method."""
    limit = min(newton_epochs, max_epochs / 2)
    first = TRIAL_PART * limit
    return Trial(first, max_epochs / 2, limit) if first >= MIN_TRIAL_EPOCHS else None


def late_trial_of(newton_epochs: float, max_epochs: float) -> Trial | None:
    """The trial where SDCA is likely to be faster than Newton's method."""
    first, last = max(newton_epochs, MIN_LATE_EPOCHS), max_epochs / 2
    return Trial(first, last, newton_epochs, is_late=True) if first <= last else None


class ChangeOver:
    """The checks of one fit."""

    def __init__(self, trial: Trial, gap: float) -> None:
        """`gap` is that at the start, infinite if it is not known."""
        self.trial, self._next = trial, trial.first
        self._epoch, self._gap = 0.0, gap

    def is_due(self, epoch: float, gap: float, goal: float) -> bool:
        """Whether SDCA, which has a gap above the goal after so many epochs, is likely to need too
        many more to get there; False between two checks."""
        reached = (1 + ROUNDING) * epoch
        if reached < self._next or self._next > self.trial.last:
            return False
        needed = self._epochs_to(goal, epoch, gap)
        self._epoch, self._gap = epoch, gap
        while self._next <= reached:
            self._next *= 2
        return needed > self.trial.limit

    def _epochs_to(self, goal: float, epoch: float, gap: float) -> float:
        if not isfinite(self._gap):  # there is no rate yet
            return 0.0
        if not gap < self._gap:
            return inf
        rate = log(self._gap / gap) / (epoch - self._epoch)
        return log(gap / max(goal, LEAST_GOAL * gap)) / rate
