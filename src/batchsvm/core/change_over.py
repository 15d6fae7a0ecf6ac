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
LATE_PART = 0.25  # of all epochs, after which a late trial begins at the latest
# So many iterations are left to Newton's method, or half of all epochs if there are fewer.
MOST_LEFT = 200.0
MIN_TRIAL_EPOCHS = 4.0  # with fewer, SDCA cannot show what it needs
MIN_LATE_EPOCHS = 16.0  # of a late trial
MOST_EPOCHS = 1e9  # no run gets there; max_epochs may be 1e308
LEAST_GOAL = 1e-12  # of the gap: tol may be 0
ROUNDING = 1e-9  # of a number of epochs


class Trial(NamedTuple):
    """Checks of SDCA, after which Newton's method may go on."""

    first: float  # epochs until the gap is checked
    end: float  # the most epochs
    limit: float  # the most further epochs that SDCA may need
    is_late: bool = False  # whether SDCA is likely to be faster

    @property
    def last(self) -> float:
        """Epochs after which the gap is not checked any more."""
        return max(self.end / 2, self.end - MOST_LEFT)

    @property
    def epochs(self) -> list[float]:
        """After how many epochs the gap is checked."""
        found, last = [self.first], min(self.last, MOST_EPOCHS)
        while 2 * found[-1] < last:
            found.append(2 * found[-1])
        return [*found, last] if found[-1] < last else found

    def iterations(self, per_epoch: float) -> list[int]:
        """The same in iterations, of which an epoch has so many."""
        return [ceil((1 - ROUNDING) * epochs * per_epoch) for epochs in self.epochs]

    def __str__(self) -> str:
        shown = ", ".join(f"{epochs:.0f}" for epochs in self.epochs[:3])
        return f"{shown}{', ...' if len(self.epochs) > 3 else ''} epochs"


def trial_of(newton_epochs: float, max_epochs: float) -> Trial | None:
    """The trial, if Newton's method takes as long as so many epochs; None where that is too short
    for a trial."""
    limit = min(newton_epochs, max_epochs / 2)
    first = TRIAL_PART * limit
    return Trial(first, max_epochs, limit) if first >= MIN_TRIAL_EPOCHS else None


def late_trial_of(newton_epochs: float, max_epochs: float) -> Trial | None:
    """The trial where SDCA is likely to be faster than Newton's method."""
    limit = min(newton_epochs, LATE_PART * max_epochs)
    trial = Trial(max(limit, MIN_LATE_EPOCHS), max_epochs, limit, is_late=True)
    return trial if trial.first <= trial.last else None


class ChangeOver:
    """The checks of one fit."""

    def __init__(self, trial: Trial, gap: float) -> None:
        """`gap` is that at the start, infinite if it is not known."""
        self.trial, self._checks = trial, trial.epochs
        self._epoch, self._gap = 0.0, gap

    def is_due(self, epoch: float, gap: float, goal: float) -> bool:
        """Whether SDCA, which has a gap above the goal after so many epochs, is likely to need too
        many more to get there; False between two checks."""
        reached = (1 + ROUNDING) * epoch
        left = [check for check in self._checks if check > reached]
        if left == self._checks or epoch > self.trial.last + 1.0:  # by more than an iteration
            return False
        needed = self._epochs_to(goal, epoch, gap)
        self._epoch, self._gap, self._checks = epoch, gap, left
        return needed > min(self.trial.limit, self.trial.end - epoch)

    def _epochs_to(self, goal: float, epoch: float, gap: float) -> float:
        if not isfinite(self._gap):  # there is no rate yet
            return 0.0
        if not gap < self._gap:
            return inf
        rate = log(self._gap / gap) / (epoch - self._epoch)
        return log(gap / max(goal, LEAST_GOAL * gap)) / rate
