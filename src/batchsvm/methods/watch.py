"""What an epoch shows while it runs: an estimate of the gap, and rows not worth a visit.

Each visit gives a term c_i [phi(a_i) + phi*(-alpha_i) + alpha_i a_i] of the duality gap at
no extra cost.  Summed over all rows it is the gap, though each term was seen at another w:
an estimate that says when a certificate is worth its price, and never replaces one.

Dual methods also skip rows: one whose alpha sits at a corner (a bound, or a kink of the
conjugate) would not move even if its response were off by some slack, twice the mean
violation of the last epoch, and is left out of the next epochs.  All rows are looked at again
when the gap of the others is small, then when it has fallen to a tenth, and after every
certificate.  This spares two visits in three, and changes nothing that is certified.

A batch of serial steps is watched for steps that undo each other: D should rise by about as
much as the steps would raise it one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import struct_method

# Look at all rows again when the gap of the others is this part of P(0), and from then on when
# it is this part of what it was.
FIRST_CHECK = 3e-4
RECHECK = 0.1
# Slack, in mean violations; in the first epoch, when w is still far off, it is more.
SLACK = 2.0
FIRST_SLACK = 8.0
# Where D rises by less than this part of what the steps promise one by one, the rows are so
# much alike that steps half as long do better.
LEAST_KEPT = 0.5
SEEN, GAP, VIOLATION, RISE, PROMISE = 0, 1, 2, 3, 4  # what a worker sums up
_SLACK, _RECHECK, _KEPT = 0, 1, 2


@struct_method
def save(self, worker, seen, gap, violation): ...


@struct_method
def next_beta(self, beta, most): ...


@struct_method
def slack(self, seen, violation): ...


@struct_method
def judge(self, target): ...


class Watch(NamedTuple):
    """Sums over the epoch under way, and the levels that follow from the last one."""

    sums: np.ndarray  # for each worker: rows seen, gap, violation, rise and promised rise of N D
    levels: np.ndarray  # slack, gap to recheck at, part of the promise that was kept
    verdict: np.ndarray  # of the last epoch: target reached, all rows to be seen again
    first_check: float  # FIRST_CHECK, times N
    full: int  # rows of an epoch that leaves none out
    skips: bool

    def save(self, worker, seen, gap, violation):
        """What a worker has summed up in this epoch over the rows it saw: their terms of the
        gap, and how far responses were from where they belong."""
        self.sums[worker, SEEN] = seen
        self.sums[worker, GAP] = gap
        self.sums[worker, VIOLATION] = violation

    def slack(self, seen, violation):
        """How much a response may be off before a skipped row would have to move: by the
        mean violation of the last epoch, or in the first one of the rows seen so far."""
        if self.levels[_SLACK] < np.inf:
            return self.levels[_SLACK]
        return FIRST_SLACK * violation / max(seen, 1.0)

    def next_beta(self, beta, most):
        """beta of the next epoch, by how the last one kept its promise."""
        return min(2.0 * beta, most) if self.levels[_KEPT] < LEAST_KEPT else beta

    def judge(self, target):
        """End an epoch.  The target is reached if the gap over the rows that took part is at
        most that: rows left out had none when they were seen last."""
        seen, gap, violation, rise, promise = 0.0, 0.0, 0.0, 0.0, 0.0
        for worker in range(self.sums.shape[0]):
            seen += self.sums[worker, SEEN]
            gap += self.sums[worker, GAP]
            violation += self.sums[worker, VIOLATION]
            rise += self.sums[worker, RISE]
            promise += self.sums[worker, PROMISE]
        self.sums[:] = 0.0
        self.levels[_SLACK] = SLACK * violation / max(seen, 1.0)
        self.levels[_KEPT] = rise / promise if promise > 0.0 else 1.0
        self.verdict[0] = gap <= target
        if seen >= self.full:
            self.levels[_RECHECK] = min(RECHECK * gap, self.first_check)
            self.verdict[1] = False
        else:
            self.verdict[1] = gap <= max(self.levels[_RECHECK], target)


def make_watch(n: int, batch_size: int, skips: bool, gap_at_zero: float, workers: int = 1) -> Watch:
    """`gap_at_zero` is N P(0), in the units that kernels sum the gap in."""
    return Watch(
        np.zeros((workers, 16)),  # a cache line and more for each
        np.array([np.inf, -np.inf, 1.0]),
        np.zeros(2, np.bool_),
        FIRST_CHECK * gap_at_zero,
        (n // batch_size) * batch_size,
        skips,
    )
