"""Screening: leaving out rows that would not move, and estimating the gap while an epoch runs.

Each visit gives a term c_i [phi(a_i) + phi*(-alpha_i) + alpha_i a_i] of the duality gap at
no extra cost.  Summed over all rows it is the gap, though each term was seen at another w:
an estimate that says when a full pass is worth its price, and never replaces one.  Where all rows
are visited, it is put forward to the end of the epoch (`gap_at_end`): without that, fits with the
logistic loss took an epoch more than they needed, three times out of four.

Dual methods also leave rows out: a row whose alpha sits at a corner (a bound, or a kink of the
conjugate) and would not move even if its response were off by some slack, twice the mean
violation of the last epoch, is not visited in the next epochs.  When the gap of the other rows
has become small, training pauses for a full pass over all rows (`core/loop.py`): one pass in the
order of memory, far cheaper than an epoch, that says which rows are visited from there on, and
is the first half of a certificate where the gap is small enough for one.  This spares two visits
in three, and changes nothing that is certified.

A batch of serial steps is checked for steps that undo each other: D should rise by about as
much as the steps would raise it one by one.
In long epochs, every fourth batch is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# A full pass is made when the gap of the visited rows is this part of P(0), and from then on
# when it is this part of what all rows had at the last full pass; but not if the gap that is
# aimed at is nearly as large, which is then waited for.
FIRST_FULL_PASS = 3e-3
NEXT_FULL_PASS = 0.1
WORTH_A_FULL_PASS = 4.0
# Visits between two full passes, at the least, in epochs and in number: where the last digits
# move, few rows are visited, and of little data a full pass takes longer than a hundred visits.
MIN_EPOCHS_BETWEEN_PASSES = 1 / 32
MIN_VISITS_BETWEEN_PASSES = 100.0
VISITS_PER_EPOCH = 64.0  # the end of an epoch takes as long as so many visits
# Slack, in mean violations; in the first epoch, when w is still far off, it is more.
SLACK = 2.0
FIRST_SLACK = 6.0
# Where no row is left out, serial steps, blocks and batches of a fixed beta estimate the gap from
# every fourth visit: a term of a loss with logarithms takes a fourth of the time of a visit.
VISITS_PER_TERM = 4
MIN_SAMPLED_ROWS = 4096  # fewer rows are all looked at
# By how much D rises is looked at in one of so many batches: ||w||^2 has to be kept up to date
# there, which takes a sixth of the time of the additions.
BATCHES_PER_RISE = 4
MIN_SAMPLED_BATCHES = 32  # of an epoch of fewer batches, all are looked at
# What a worker sums up.
SEEN, GAP, VIOLATION, RISE, PROMISE, KEPT = 0, 1, 2, 3, 4, 5
_SLACK, _NEXT_PASS, _KEPT_PROMISE, _ESTIMATE, _VISITS = 0, 1, 2, 3, 4
# Of the estimates that are kept: how many, after how many epochs each, epochs and visits so far.
_NOTED, _EVERY, _EPOCHS, _ALL_VISITS = 5, 6, 7, 8
_LAST_GAP = 9  # the sum of the terms that the epoch before has shown
MOST_NOTED = 256  # estimates; when there are more, every other one is forgotten


class Screening(NamedTuple):
    """Sums over the epoch under way, and the levels that follow from the last one."""

    # For each worker: rows seen, gap, violation, rise and promised rise of N D, rows kept.
    sums: np.ndarray
    # Slack, gap to make a full pass at, part of the promise that was kept, estimate of the gap,
    # visits since the last full pass; and what concerns the estimates that are kept.
    levels: np.ndarray
    # The estimates of epochs: visits so far, and the gap, N times.
    noted: np.ndarray
    min_visits: float  # between two full passes
    skips: bool

    def store(self, worker, seen, gap, violation, kept):
        """What a worker has summed up in this epoch over the rows it saw: their terms of the
        gap, how far responses were from where they belong, and how many rows the next epoch
        visits too."""
        self.sums[worker, SEEN] = seen
        self.sums[worker, GAP] = gap
        self.sums[worker, VIOLATION] = violation
        self.sums[worker, KEPT] = kept

    def slack(self, seen, violation):
        """How much a response may be off before a row left out would have to move: some times
        the mean violation of the last epoch, or in the first one of the rows seen so far."""
        if self.levels[_SLACK] < np.inf:
            return self.levels[_SLACK]
        return FIRST_SLACK * violation / max(seen, 1.0)

    def visits_per_term(self, n):
        """In how many visits to n rows the gap is looked at once."""
        return 1 if self.skips or n < MIN_SAMPLED_ROWS else VISITS_PER_TERM

    def looks_at_rise(self, batch, batches):
        """Whether the rise of D is looked at in this batch of an epoch of so many; without an order
        of all rows, each batch is the first one."""
        return batches < MIN_SAMPLED_BATCHES or batch % BATCHES_PER_RISE == 0

    def kept_promise(self):
        """The part of the promised rise of D that the last epoch kept."""
        return self.levels[_KEPT_PROMISE]

    def gap_at_end(self, gap):
        """The gap at the end of an epoch over all rows, whose terms sum up to `gap`: they were seen
        all through the epoch, while the gap fell.  If it falls at a steady rate, to a part r of
        it per epoch, their mean is (1 - r)/(r log 1/r) times the gap at the end."""
        last = self.levels[_LAST_GAP]
        self.levels[_LAST_GAP] = gap
        if not 0.0 < gap < last < np.inf:
            return gap
        part = gap / last
        return gap * part * np.log(1.0 / part) / (1.0 - part)

    def end_epoch(self, target, waiting):
        """End an epoch that left `waiting` rows to the next one.  Returns whether a full pass is
        due: since the gap is small, or no row is left."""
        seen, gap, violation, rise, promise, kept = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for worker in range(self.sums.shape[0]):
            seen += self.sums[worker, SEEN]
            gap += self.sums[worker, GAP]
            violation += self.sums[worker, VIOLATION]
            rise += self.sums[worker, RISE]
            promise += self.sums[worker, PROMISE]
            kept += self.sums[worker, KEPT]
        self.sums[:] = 0.0
        self.levels[_SLACK] = SLACK * violation / max(seen, 1.0)
        self.levels[_KEPT_PROMISE] = rise / promise if promise > 0.0 else 1.0
        if not self.skips:
            gap = self.gap_at_end(gap)
        self.levels[_ESTIMATE] = gap
        self.levels[_EPOCHS] += 1.0
        self.levels[_ALL_VISITS] += seen
        count = int(self.levels[_NOTED])
        if count == MOST_NOTED:
            count //= 2
            for k in range(count):
                self.noted[k, 0] = self.noted[2 * k + 1, 0]
                self.noted[k, 1] = self.noted[2 * k + 1, 1]
            self.levels[_NOTED] = count
            self.levels[_EVERY] *= 2.0
        if self.levels[_EPOCHS] % self.levels[_EVERY] == 0.0:
            self.noted[count, 0] = self.levels[_ALL_VISITS]
            self.noted[count, 1] = gap
            self.levels[_NOTED] = count + 1.0
        if not self.skips:
            return gap <= target
        level = self.levels[_NEXT_PASS]
        if level < WORTH_A_FULL_PASS * target:
            level = target
        self.levels[_VISITS] += seen + VISITS_PER_EPOCH
        return kept + waiting < 1.0 or (gap <= level and self.levels[_VISITS] >= self.min_visits)

    @property
    def estimate(self) -> float:
        """The gap that the last epoch showed, N times."""
        return float(self.levels[_ESTIMATE])

    @property
    def estimates(self) -> np.ndarray:
        """The visits until the ends of epochs, and the gap that each showed, N times."""
        return self.noted[: int(self.levels[_NOTED])].copy()

    def note_estimate(self, gap: float) -> None:
        """Put this gap, N times, in the place of what the last epoch showed."""
        self.levels[_ESTIMATE], self.levels[_LAST_GAP] = gap, np.inf

    def note_full_pass(self, gap: float) -> None:
        """A full pass has found this gap, N times."""
        self.levels[_VISITS] = 0.0
        self.levels[_NEXT_PASS] = min(NEXT_FULL_PASS * gap, self.levels[_NEXT_PASS])


def make_screening(n: int, skips: bool, gap_at_zero: float, workers: int = 1) -> Screening:
    """`gap_at_zero` is N P(0), in the units that kernels sum the gap in."""
    return Screening(
        np.zeros((workers, 16)),  # a cache line and more for each
        np.array(
            [np.inf, FIRST_FULL_PASS * gap_at_zero, 1.0, np.inf, 0.0, 0.0, 1.0, 0.0, 0.0, np.inf]
        ),
        np.zeros((MOST_NOTED, 2)),
        max(MIN_EPOCHS_BETWEEN_PASSES * n, MIN_VISITS_BETWEEN_PASSES),
        skips,
    )
