"""What an epoch shows while it runs: an estimate of the gap, and rows not worth a visit.

Each visit gives a term c_i [phi(a_i) + phi*(-alpha_i) + alpha_i a_i] of the duality gap at
no extra cost.  Summed over all rows it is the gap, though each term was seen at another w:
an estimate that says when a certificate is worth its price, and never replaces one.

Serial SDCA also skips rows: one whose alpha sits at a corner (a bound, or a kink of the
conjugate) would not move even if its response were off by some slack, the mean violation
of the last epoch, and is left out of the next epochs.  All rows are looked at again when
the gap of the others has fallen to a tenth, and before every certificate that is meant to
be the last.  This spares two visits in three, and changes nothing that is certified.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import struct_method

# Look at all rows again when the gap of the others is this part of what it was.
RECHECK = 0.1
_GAP, _VIOLATION, _SLACK, _RECHECK, _ESTIMATE = 0, 1, 2, 3, 4


@struct_method
def see(self, gap, violation): ...


@struct_method
def slack(self): ...


@struct_method
def finish(self, sampler, target): ...


class Watch(NamedTuple):
    """Sums over the epoch under way, and the levels that follow from the last one."""

    sums: np.ndarray  # gap and violation so far; slack, gap to recheck at, last full gap
    visited: np.ndarray  # rows in this epoch: one integer
    full: int  # rows of an epoch that leaves none out
    skips: bool

    def see(self, gap, violation):
        """A row's term of the gap, and how far its response was from where it belongs."""
        self.sums[_GAP] += gap
        self.sums[_VIOLATION] += violation
        self.visited[0] += 1

    def slack(self):
        """How much a response may be off before a skipped row would have to move."""
        return self.sums[_SLACK]

    def finish(self, sampler, target):
        """End an epoch; whether all rows were in it and their gap is at most `target`."""
        gap, violation, visited = self.sums[_GAP], self.sums[_VIOLATION], self.visited[0]
        self.sums[_GAP] = 0.0
        self.sums[_VIOLATION] = 0.0
        self.visited[0] = 0
        if self.skips:
            self.sums[_SLACK] = violation / max(visited, 1)
            sampler.leave_out_the_others()
        if visited >= self.full:
            self.sums[_ESTIMATE] = gap
            self.sums[_RECHECK] = max(RECHECK * gap, target)
            return gap <= target
        if gap <= self.sums[_RECHECK] or sampler.active[0] == 0:
            sampler.restore()
        return False

    @property
    def estimate(self) -> float:
        """The gap over the last epoch that left no row out, times N."""
        return float(self.sums[_ESTIMATE])


def make_watch(n: int, batch_size: int, skips: bool) -> Watch:
    sums = np.array([0.0, 0.0, np.inf, -np.inf, np.inf])
    return Watch(sums, np.zeros(1, np.int64), (n // batch_size) * batch_size, skips)
