"""What an epoch shows while it runs: an estimate of the gap, and rows not worth a visit.

Each visit gives a term c_i [phi(a_i) + phi*(-alpha_i) + alpha_i a_i] of the duality gap at
no extra cost.  Summed over all rows it is the gap, though each term was seen at another w:
an estimate that says when a look at all rows is worth its price, and never replaces one.

Dual methods also skip rows: one whose alpha sits at a corner (a bound, or a kink of the
conjugate) and would not move even if its response were off by some slack, twice the mean
violation of the last epoch, is left out of the next epochs.  When the gap of the others has
become small, training pauses for a look at all rows (`train.py`): one pass in the order of
memory, far cheaper than an epoch, that says who takes part from there on, and is the first half
of a certificate where the gap is small enough for one.  This spares two visits in three, and
changes nothing that is certified.

A batch of serial steps is watched for steps that undo each other: D should rise by about as
much as the steps would raise it one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import struct_method

# Look at all rows when the gap of those that take part is this part of P(0), and from then on
# when it is this part of what all rows had at the last look; but not if the gap that is aimed
# at is nearly as large, which is then waited for.
FIRST_LOOK = 3e-3
NEXT_LOOK = 0.1
WORTH_A_LOOK = 4.0
# Visits between two looks, at the least, in rows and in number: where the last digits move, few
# rows take part, and of little data a look takes far longer than a hundred visits.
PATIENCE = 1 / 32
LEAST_PATIENCE = 100.0
# Slack, in mean violations; in the first epoch, when w is still far off, it is more.
SLACK = 2.0
FIRST_SLACK = 6.0
# Where D rises by less than this part of what the steps promise one by one, the rows are so
# much alike that steps half as long do better.
LEAST_KEPT = 0.5
# What a worker sums up.
SEEN, GAP, VIOLATION, RISE, PROMISE, STAYED = 0, 1, 2, 3, 4, 5
_SLACK, _LOOK, _KEPT, _ESTIMATE, _SEEN = 0, 1, 2, 3, 4


@struct_method
def save(self, worker, seen, gap, violation, stayed): ...


@struct_method
def next_beta(self, beta, most): ...


@struct_method
def slack(self, seen, violation): ...


@struct_method
def judge(self, target, waiting): ...


class Watch(NamedTuple):
    """Sums over the epoch under way, and the levels that follow from the last one."""

    # For each worker: rows seen, gap, violation, rise and promised rise of N D, rows that stay.
    sums: np.ndarray
    # Slack, gap to look at all rows at, part of the promise that was kept, estimate of the gap,
    # visits since the last look.
    levels: np.ndarray
    patience: float  # visits between two looks, at the least
    skips: bool

    def save(self, worker, seen, gap, violation, stayed):
        """What a worker has summed up in this epoch over the rows it saw: their terms of the
        gap, how far responses were from where they belong, and how many rows take part in the
        next epoch too."""
        self.sums[worker, SEEN] = seen
        self.sums[worker, GAP] = gap
        self.sums[worker, VIOLATION] = violation
        self.sums[worker, STAYED] = stayed

    def slack(self, seen, violation):
        """How much a response may be off before a skipped row would have to move: some times the
        mean violation of the last epoch, or in the first one of the rows seen so far."""
        if self.levels[_SLACK] < np.inf:
            return self.levels[_SLACK]
        return FIRST_SLACK * violation / max(seen, 1.0)

    def next_beta(self, beta, most):
        """beta of the next epoch, by how the last one kept its promise."""
        return min(2.0 * beta, most) if self.levels[_KEPT] < LEAST_KEPT else beta

    def judge(self, target, waiting):
        """End an epoch that left `waiting` rows to the next one.  Returns whether to look at all
        rows now: since the gap is small, or nobody is left."""
        seen, gap, violation, rise, promise, stayed = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for worker in range(self.sums.shape[0]):
            seen += self.sums[worker, SEEN]
            gap += self.sums[worker, GAP]
            violation += self.sums[worker, VIOLATION]
            rise += self.sums[worker, RISE]
            promise += self.sums[worker, PROMISE]
            stayed += self.sums[worker, STAYED]
        self.sums[:] = 0.0
        self.levels[_SLACK] = SLACK * violation / max(seen, 1.0)
        self.levels[_KEPT] = rise / promise if promise > 0.0 else 1.0
        self.levels[_ESTIMATE] = gap
        if not self.skips:
            return gap <= target
        level = self.levels[_LOOK]
        if level < WORTH_A_LOOK * target:
            level = target
        self.levels[_SEEN] += seen
        return stayed + waiting < 1.0 or (gap <= level and self.levels[_SEEN] >= self.patience)

    @property
    def estimate(self) -> float:
        """The gap that the last epoch showed, N times."""
        return float(self.levels[_ESTIMATE])

    def note_look(self, gap: float, keep: np.ndarray) -> None:
        """All rows have been looked at, have this gap, N times, and are marked in `keep`."""
        self.levels[_SEEN] = 0.0
        self.levels[_LOOK] = min(NEXT_LOOK * gap, self.levels[_LOOK])
        if not keep.any():
            keep[:] = True


def make_watch(n: int, skips: bool, gap_at_zero: float, workers: int = 1) -> Watch:
    """`gap_at_zero` is N P(0), in the units that kernels sum the gap in."""
    return Watch(
        np.zeros((workers, 16)),  # a cache line and more for each
        np.array([np.inf, FIRST_LOOK * gap_at_zero, 1.0, np.inf, 0.0]),
        max(PATIENCE * n, LEAST_PATIENCE),
        skips,
    )
