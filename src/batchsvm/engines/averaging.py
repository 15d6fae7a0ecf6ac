"""Averages of the iterates, kept in the dual at O(1) per changed coordinate.

Both kinds of method move a vector g with one entry per example, and their iterate is
scale_t g_t (scale 1 in the dual).  An average sum_t p_t scale_t g_t is linear in the changes of
g.  With

    weight   S_t = sum of the p's times scales of the iterates seen so far
    discount D_t = what an old p has shrunk to (always 1 in a tail average)
    moment   M   = sum over changes of change * S_t / D_t, S_t at the time of the change

it equals  S_T g_T - D_T M.  Only entries in the batch are touched.  The averaged w is
w(averaged alpha), and is computed from it when a certificate is made.

Projections break this: they shrink the scale so fast that S_T g_T - D_T M cancels to
nothing.  A projected run averages w itself, at O(d) per iteration.

`RecentMean` is no average that anybody asks for, but a second candidate beside the last iterate
on data with many rows and few columns.  There every row moves all of w, and w jumps about its
goal: on cov, P of the mean of the last epochs is five to ten times closer to the optimum than P
of the last iterate is.  The dual point stays the last one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_SMALLEST_DISCOUNT = 1e-280
REMEMBERED = 16  # every so many iterates, one is added to the mean of recent ones
FADING = 0.5  # what an epoch leaves of the weight of earlier ones
_WEIGHT, _DISCOUNT, _COUNT = 0, 1, 2


class LastIterate(NamedTuple):
    """No average: kernels that are given this one have nothing to do for it."""

    primal: np.ndarray  # empty

    @property
    def on(self) -> bool:
        return False

    @property
    def has_mean(self) -> bool:
        return False

    @property
    def is_tail(self) -> bool:
        return False

    @property
    def recent(self) -> np.ndarray | None:
        return None

    def observe(self, scale):
        pass

    def observe_primal(self, scale, v):
        pass

    def note(self, i, change):
        pass

    def fade(self):
        pass

    def restart(self) -> None:
        pass


class RecentMean(NamedTuple):
    """No average, but the mean of recent iterates beside it."""

    primal: np.ndarray  # the sum of those remembered
    sums: np.ndarray  # how many these are, and iterates seen since the last of them

    @property
    def on(self) -> bool:
        return False

    @property
    def has_mean(self) -> bool:
        return False

    @property
    def is_tail(self) -> bool:
        return False

    @property
    def recent(self) -> np.ndarray | None:
        return self.primal / self.sums[0] if self.sums[0] > 0 else None

    def observe_primal(self, scale, v):
        self.sums[1] += 1.0
        if self.sums[1] >= REMEMBERED:
            self.sums[0] += 1.0
            self.sums[1] = 0.0
            for j in range(self.primal.size):
                self.primal[j] += v[j]

    def observe(self, scale):
        pass

    def note(self, i, change):
        pass

    def restart(self) -> None:
        pass

    def fade(self):
        """An epoch is over."""
        self.sums[0] *= FADING
        for j in range(self.primal.size):
            self.primal[j] *= FADING


class Averaging(NamedTuple):
    """A running average.

    "tail"   plain mean since the last restart: the output of Algorithm 1, and the
             averaged alpha of Theorem 2
    "decay"  mean <- 0.9 mean + 0.1 iterate, as in the caption of Figure 2
    """

    moment: np.ndarray
    primal: np.ndarray  # sum or mean of the w's themselves, in a projected run
    sums: np.ndarray  # weight, discount, number of iterates seen
    keep: float
    share: float

    @property
    def on(self) -> bool:
        return True

    @property
    def has_mean(self) -> bool:
        """Whether an iterate has been seen: before that, the iterate itself is the answer."""
        return self.sums[_COUNT] > 0

    @property
    def is_tail(self) -> bool:
        return self.keep == 1.0

    def observe(self, scale):
        """See the iterate scale * g, before the step that changes it."""
        self.sums[_WEIGHT] = self.keep * self.sums[_WEIGHT] + self.share * scale
        self.sums[_DISCOUNT] *= self.keep
        self.sums[_COUNT] += 1.0
        if self.sums[_DISCOUNT] < _SMALLEST_DISCOUNT:
            for i in range(self.moment.size):
                self.moment[i] *= self.sums[_DISCOUNT]
            self.sums[_DISCOUNT] = 1.0

    def observe_primal(self, scale, v):
        """See the iterate w = scale * v itself."""
        for j in range(self.primal.size):
            self.primal[j] = self.keep * self.primal[j] + self.share * scale * v[j]

    @property
    def recent(self) -> np.ndarray | None:
        return None

    def fade(self):
        pass

    def note(self, i, change):
        """Entry i of g changes by this much."""
        if self.moment.size > 0:
            self.moment[i] += change * self.sums[_WEIGHT] / self.sums[_DISCOUNT]

    def restart(self) -> None:
        """Forget a tail's iterates; a decaying average forgets by itself."""
        if self.is_tail:
            self.moment[:] = 0.0
            self.primal[:] = 0.0
            self.sums[:] = 0.0, 1.0, 0.0

    def mean(self, g: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Rows start to stop of the average, g being those rows of the current vector."""
        total = self.sums[_WEIGHT] * g - self.sums[_DISCOUNT] * self.moment[start:stop]
        return total / self.sums[_COUNT] if self.is_tail else total

    def primal_mean(self) -> np.ndarray:
        """The average w of a projected run."""
        return self.primal / self.sums[_COUNT] if self.is_tail else self.primal.copy()


def make_averaging(
    averaging: str | None, n: int, scale: float, w: np.ndarray | None = None
) -> Averaging | LastIterate:
    """An average over n examples whose first iterate has this scale.

    With w, the first iterate of a projected run, it is w itself that is averaged.
    """
    moment, primal = np.zeros(0), np.zeros(0)
    if averaging is None:
        return LastIterate(primal)
    tail = averaging == "tail"
    if w is None:
        moment = np.zeros(n)
    else:
        primal = np.zeros(w.size) if tail else w.copy()
    if tail:
        return Averaging(moment, primal, np.array([0.0, 1.0, 0.0]), keep=1.0, share=1.0)
    return Averaging(moment, primal, np.array([scale, 1.0, 0.0]), keep=0.9, share=0.1)
