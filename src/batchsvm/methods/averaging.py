"""Averages of the iterates, kept in the dual at O(1) a changed coordinate.

Both methods move a vector g with one entry an example, and their iterate is scale_t g_t
(see `State`).  An average sum_t p_t scale_t g_t is linear in the changes of g.  With

    weight   S_t = sum of the p's times scales of the iterates seen so far
    discount D_t = what an old p has shrunk to (always 1 in a tail average)
    moment   M   = sum over changes of change * S_t / D_t, S_t at the time of the change

it equals  S_T g_T - D_T M.  Only entries in the batch are touched.  The averaged w is
w(averaged alpha), and is computed from it when a certificate is made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import struct_method

AVERAGINGS = (None, "tail", "decay")

_SMALLEST_DISCOUNT = 1e-280
_WEIGHT, _DISCOUNT, _COUNT = 0, 1, 2


@struct_method
def observe(self, scale): ...


@struct_method
def note(self, i, change): ...


class Averaging(NamedTuple):
    """A running average; one with an empty `moment` is switched off.

    "tail"   plain mean since the last restart: the output of Algorithm 1, and the
             averaged alpha of Theorem 2
    "decay"  mean <- 0.9 mean + 0.1 iterate, as in the caption of Figure 2
    """

    moment: np.ndarray
    sums: np.ndarray  # weight, discount, number of iterates seen
    keep: float
    share: float

    @property
    def on(self) -> bool:
        return self.moment.size > 0

    @property
    def has_mean(self) -> bool:
        """Whether an iterate has been seen: before that, the iterate itself is the answer."""
        return self.on and self.sums[_COUNT] > 0

    @property
    def is_tail(self) -> bool:
        return self.keep == 1.0

    def observe(self, scale):
        """See the iterate scale * g, before the step that changes it."""
        if self.moment.size > 0:
            self.sums[_WEIGHT] = self.keep * self.sums[_WEIGHT] + self.share * scale
            self.sums[_DISCOUNT] *= self.keep
            self.sums[_COUNT] += 1.0
            if self.sums[_DISCOUNT] < _SMALLEST_DISCOUNT:
                for i in range(self.moment.size):
                    self.moment[i] *= self.sums[_DISCOUNT]
                self.sums[_DISCOUNT] = 1.0

    def note(self, i, change):
        """Entry i of g changes by this much."""
        if self.moment.size > 0:
            self.moment[i] += change * self.sums[_WEIGHT] / self.sums[_DISCOUNT]

    def restart(self) -> None:
        """Forget a tail's iterates; a decaying average forgets by itself."""
        if self.on and self.is_tail:
            self.moment[:] = 0.0
            self.sums[:] = 0.0, 1.0, 0.0

    def mean(self, g: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Rows start to stop of the average, g being those rows of the current vector."""
        total = self.sums[_WEIGHT] * g - self.sums[_DISCOUNT] * self.moment[start:stop]
        return total / self.sums[_COUNT] if self.is_tail else total


def make_averaging(averaging: str | None, n: int, scale: float) -> Averaging:
    """An average over n examples whose first iterate has this scale."""
    if averaging == "tail":
        return Averaging(np.zeros(n), np.array([0.0, 1.0, 0.0]), keep=1.0, share=1.0)
    size = n if averaging == "decay" else 0
    return Averaging(np.zeros(size), np.array([scale, 1.0, 0.0]), keep=0.9, share=0.1)
