"""What an epoch shows while it runs: an estimate of the gap, and rows not worth a visit.

Each visit gives a term c_i [phi(a_i) + phi*(-alpha_i) + alpha_i a_i] of the duality gap at
no extra cost.  Summed over all rows it is the gap, though each term was seen at another w:
an estimate that says when a certificate is worth its price, and never replaces one.

Dual methods also skip rows: one whose alpha sits at a corner (a bound, or a kink of the
conjugate) would not move even if its response were off by some slack, the mean violation
of the last epoch, and is left out of the next epochs.  All rows are looked at again when
the gap of the others has fallen to a tenth, and after every certificate.  This spares two
visits in three, and changes nothing that is certified.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import struct_method

# Look at all rows again when the gap of the others is this part of what it was.
RECHECK = 0.1
# In the first epoch, when w is still far off, so much more caution.
CAUTION = 2.0
# An epoch of sound steps raises N D by a fair part of the gap; steps that undo each other by
# none, or less than none.
LEAST_RISE = 1e-2
SEEN, GAP, VIOLATION, RISE = 0, 1, 2, 3  # what a worker sums up
_SLACK, _RECHECK = 0, 1


@struct_method
def save(self, worker, seen, gap, violation, rise): ...


@struct_method
def slack(self, seen, violation): ...


@struct_method
def judge(self, target): ...


class Watch(NamedTuple):
    """Sums over the epoch under way, and the levels that follow from the last one."""

    sums: np.ndarray  # for each worker: rows seen, gap, violation, by how much N D rose
    levels: np.ndarray  # slack, gap to recheck at
    verdict: (
        np.ndarray
    )  # of the last epoch: target reached, D hardly rose, all rows to be seen again
    full: int  # rows of an epoch that leaves none out
    skips: bool

    def save(self, worker, seen, gap, violation, rise):
        """What a worker has summed up in this epoch: over the rows it saw, their terms of the
        gap and how far responses were from where they belong; and what it did to N D."""
        self.sums[worker, SEEN] = seen
        self.sums[worker, GAP] = gap
        self.sums[worker, VIOLATION] = violation
        self.sums[worker, RISE] = rise

    def slack(self, seen, violation):
        """How much a response may be off before a skipped row would have to move: the mean
        violation of the last epoch, or in the first one of the rows seen so far."""
        if self.levels[_SLACK] < np.inf:
            return self.levels[_SLACK]
        return CAUTION * violation / max(seen, 1.0)

    def judge(self, target):
        """End an epoch.  The target is reached if the gap over the rows that took part is at
        most that: rows left out had none when they were seen last."""
        seen, gap, violation, rise = 0.0, 0.0, 0.0, 0.0
        for worker in range(self.sums.shape[0]):
            seen += self.sums[worker, SEEN]
            gap += self.sums[worker, GAP]
            violation += self.sums[worker, VIOLATION]
            rise += self.sums[worker, RISE]
        self.sums[:] = 0.0
        self.levels[_SLACK] = violation / max(seen, 1.0)
        self.verdict[0] = gap <= target
        self.verdict[1] = rise < LEAST_RISE * gap
        if seen >= self.full:
            self.levels[_RECHECK] = RECHECK * gap
            self.verdict[2] = False
        else:
            self.verdict[2] = gap <= max(self.levels[_RECHECK], target)


def make_watch(n: int, batch_size: int, skips: bool, workers: int = 1) -> Watch:
    return Watch(
        np.zeros((workers, 16)),  # a cache line and more for each
        np.array([np.inf, -np.inf]),
        np.zeros(3, np.bool_),
        (n // batch_size) * batch_size,
        skips,
    )
