"""What an epoch shows while it runs: an estimate of the gap, and rows not worth a visit.

Each visit gives a term c_i [phi(a_i) + phi*(-alpha_i) + alpha_i a_i] of the duality gap at
no extra cost.  Summed over all rows it is the gap, though each term was seen at another w:
an estimate that says when a certificate is worth its price, and never replaces one.

Dual methods also skip rows: one whose alpha sits at a corner (a bound, or a kink of the
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
_GAP, _VIOLATION, _RISE, _VISITED = 0, 1, 2, 3
_SLACK, _RECHECK, _ESTIMATE = 0, 1, 2


@struct_method
def tally(self, worker, visited, gap, violation, rise): ...


@struct_method
def slack(self): ...


@struct_method
def judge(self, target): ...


class Watch(NamedTuple):
    """Sums over the epoch under way, and the levels that follow from the last one."""

    sums: np.ndarray  # for each worker: gap, violation, by how much N D rose, rows visited
    levels: np.ndarray  # slack, gap to recheck at, gap of the last full epoch
    verdict: np.ndarray  # of the last epoch: target reached, D fell, all rows to be seen again
    full: int  # rows of an epoch that leaves none out
    skips: bool

    def tally(self, worker, visited, gap, violation, rise):
        """What a worker saw: so many rows, their terms of the gap, how far responses were
        from where they belong, and what its steps did to N D."""
        self.sums[worker, _GAP] += gap
        self.sums[worker, _VIOLATION] += violation
        self.sums[worker, _RISE] += rise
        self.sums[worker, _VISITED] += visited

    def slack(self):
        """How much a response may be off before a skipped row would have to move."""
        return self.levels[_SLACK]

    def judge(self, target):
        """End an epoch.  The target was reached if all rows took part and their gap is at
        most that."""
        gap, violation, rise, visited = 0.0, 0.0, 0.0, 0.0
        for worker in range(self.sums.shape[0]):
            gap += self.sums[worker, _GAP]
            violation += self.sums[worker, _VIOLATION]
            rise += self.sums[worker, _RISE]
            visited += self.sums[worker, _VISITED]
        self.sums[:] = 0.0
        full = visited >= self.full
        if self.skips:
            self.levels[_SLACK] = violation / max(visited, 1.0)
        self.verdict[0] = full and gap <= target
        self.verdict[1] = rise < 0.0
        self.verdict[2] = not full and gap <= self.levels[_RECHECK]
        if full:
            self.levels[_ESTIMATE] = gap
            self.levels[_RECHECK] = max(RECHECK * gap, target)

    @property
    def estimate(self) -> float:
        """The gap over the last epoch that left no row out, times N."""
        return float(self.levels[_ESTIMATE])


def make_watch(n: int, batch_size: int, skips: bool, workers: int = 1) -> Watch:
    return Watch(
        np.zeros((workers, 16)),  # a cache line and more for each
        np.array([np.inf, -np.inf, np.inf]),
        np.zeros(3, np.bool_),
        (n // batch_size) * batch_size,
        skips,
    )
