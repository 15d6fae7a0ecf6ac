"""The order in which the epochs of a screened method visit rows.

Rows are visited in a random order, a fresh one every epoch: a fixed one stalls.  But rows that
are far apart in memory take up to three times as long to visit as rows that follow each other,
while rows that follow each other may be much alike (sorted data), so that steps on one after
the other repeat each other.  An epoch therefore shuffles *groups* of a few neighbours, and then
goes through some groups at a time, a *window* that fits into the cache, taking one row of each
group in turn: memory is read in runs, and neighbours are visited a window apart.

The rows may be cut into segments, each with an order of its own, which threads draw side by side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.core.tuning import Tuning

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


class Random(NamedTuple):
    """splitmix64 (Steele, Lea, Flood 2014)."""

    state: np.ndarray  # one uint64

    def uniform(self):
        """A number in [0, 1), of 53 bits."""
        self.state[0] += _GOLDEN
        z = self.state[0]
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
        z = z ^ (z >> np.uint64(31))
        return (z >> np.uint64(11)) * _TO_UNIT

    def permute(self, order, start, count, active, group):
        """Draw `count` of the `active` groups of entries at `start` without replacement, to the
        front; within a group, entries keep their order."""
        for k in range(count):
            other = k + np.int64(self.uniform() * (active - k))
            for j in range(group):
                here, there = start + k * group + j, start + other * group + j
                chosen = order[there]
                order[there] = order[here]
                order[here] = chosen


class VisitOrder(NamedTuple):
    """For each segment, the rows that the epoch under way visits, in their order."""

    order: np.ndarray  # segment j has the places from edges[j] to edges[j + 1]
    edges: np.ndarray
    active: np.ndarray  # how many rows of each segment are visited, and how many are listed; padded
    listed: np.ndarray  # at the same places the rows that may be visited, in increasing order
    keep: np.ndarray  # for each row, whether the next epoch visits it
    states: np.ndarray  # of a random generator for each segment; padded
    windows: np.ndarray  # work space: a window of each segment
    group: int  # rows of a group
    min_rows: int  # fewer rows of a segment than these make no batch

    def redraw(self, segment):
        """Draw a new order of the rows of a segment that are to be kept."""
        start, stop, group = self.edges[segment], self.edges[segment + 1], self.group
        random = Random(self.states[segment])
        # Groups are counted from another row each time, so that they differ, and so do the rows
        # that are left over when the last group or batch is not full.
        first = start + np.int64(random.uniform() * (stop - start))
        count, before = self.list_rows_kept(segment), 0  # of them, those before the first row
        while before < count and self.listed[start + before] < first:
            before += 1
        for k in range(before, count):
            self.order[start + k - before] = self.listed[start + k]
        for k in range(before):
            self.order[start + count - before + k] = self.listed[start + k]
        self.active[segment, 0] = count
        whole = count // group
        random.permute(self.order, start, whole, whole, group)
        if group == 1:
            return
        window = self.windows.shape[1] // group
        for first in range(0, whole, window):
            size = min(window, whole - first)
            place = start + first * group
            for k in range(size):
                for j in range(group):
                    # Not all groups begin with their first row.
                    turn = (j + k) % group
                    self.windows[segment, turn * size + k] = self.order[place + k * group + j]
            for k in range(size * group):
                self.order[place + k] = self.windows[segment, k]

    def list_rows_kept(self, segment):
        """List the rows of a segment that are to be kept; returns how many there are.  Rows that
        are not listed are looked at after `renew` alone: where few rows are visited, to look at all
        of them would take longer than the visits."""
        start, stop, count = self.edges[segment], self.edges[segment + 1], 0
        known = self.active[segment, 1]
        if known < 0:
            for i in range(start, stop):
                self.listed[start + count] = i  # stays unless the next one is written over it
                count += self.keep[i]
        for k in range(start, start + known):
            i = self.listed[k]
            self.listed[start + count] = i
            count += self.keep[i]
        if count < self.min_rows:
            count = stop - start
            for k in range(start, stop):
                self.listed[k] = k
        self.active[segment, 1] = count
        return count

    def renew(self) -> None:
        """`keep` has been set for all rows; if it is false for all, all of them are visited."""
        if not self.keep.any():
            self.keep[:] = True
        self.active[:, 1] = -1

    def longest_segment(self):
        """How many rows are visited of the segment that has most of them."""
        longest = 0
        for segment in range(self.active.shape[0]):
            longest = max(longest, self.active[segment, 0])
        return longest


def make_visit_order(
    n: int, segments: int, seed: int, bytes_per_row: float, tuning: Tuning, min_rows: int = 0
) -> VisitOrder:
    """All of n rows are visited, in segments of equal size; if fewer than `min_rows` of a segment
    are left, then all of them again."""
    index_type = np.int32 if n < 2**31 else np.int64
    edges = np.arange(segments + 1) * n // segments
    states = np.zeros((segments, 8), np.uint64)
    states[:, 0] = np.random.SeedSequence(seed).generate_state(segments, np.uint64)
    bytes_per_row = max(bytes_per_row, 1.0)  # rows may have no entries at all
    group = int(min(max(tuning.max_group_bytes / bytes_per_row, 1), tuning.max_group_rows))
    group = group if n * bytes_per_row > tuning.min_grouped_bytes else 1
    groups = int(min(max(tuning.window_bytes / bytes_per_row / group, 1), n / group + 1))
    order, listed = np.zeros((2, n), index_type)
    found = VisitOrder(
        order, edges, np.zeros((segments, 8), np.int64), listed, np.ones(n, np.bool_),
        states, np.empty((segments, group * groups), index_type), group, min_rows,
    )  # fmt: skip
    found.renew()
    return found


# Of methods that leave no row out.
UNSCREENED = VisitOrder(
    np.empty(0, np.int32), np.zeros(1, np.int64), np.zeros((1, 8), np.int64),
    np.empty(0, np.int32), np.zeros(0, np.bool_), np.zeros((1, 8), np.uint64),
    np.empty((1, 0), np.int32), 1, 0,
)  # fmt: skip
