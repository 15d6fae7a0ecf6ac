"""Seeded streams of mini-batches: who is in the batch A_t.

Three ways to draw b of n rows:

    "subsets"      Rand(b) of the paper: uniform among all subsets of size b
    "permutation"  a fresh shuffle every epoch, cut into floor(n/b) batches; the n mod b
                   rows left over wait for the next shuffle, so that no batch straddles
                   two shuffles and holds a row twice
    "replacement"  b independent draws: the streaming setting of Section 6

The first two are the same Fisher-Yates shuffle, O(b) a batch: a subset shuffles the first
b places of the pool each time, a permutation all of it once an epoch, so that the rows to
come are known.  A method that leaves rows out has its permutations from a `Roster`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel, struct_method
from batchsvm.roster import NOBODY, Random, Roster

SAMPLINGS = ("permutation", "subsets", "replacement")


@struct_method
def is_spent(self, start): ...


@struct_method
def shuffle(self): ...


@struct_method
def renew(self, team, start): ...


@struct_method
def epoch_is_over(self, start, visited): ...


@struct_method
def takes_part(self): ...


class Sampler(NamedTuple):
    """A stream of batches: order[start : start + batch_size], then the next one.

    When `is_spent(start)`, a `shuffle()` comes first, and start is 0 again.
    """

    order: np.ndarray
    random: Random
    position: np.ndarray  # where the next batch starts: one integer
    visited: np.ndarray  # rows drawn in the epoch under way: one integer
    roster: Roster  # of a permutation that leaves rows out; its order is the order above
    n: int
    batch_size: int
    restarts: bool
    replaces: bool

    def takes_part(self):
        """How many rows take part in the epoch under way."""
        return self.roster.active[0, 0] if self.roster.keep.size > 0 else self.n

    def is_spent(self, start):
        """Whether no batch of this shuffle starts here any more."""
        return self.restarts or self.replaces or start + self.batch_size > self.takes_part()

    def shuffle(self):
        """Draw the rows of one batch, or of all batches of an epoch."""
        if self.replaces:
            for k in range(self.batch_size):
                self.order[k] = np.int64(self.random.uniform() * self.n)
        elif self.roster.keep.size > 0:
            self.roster.line_up(0)
        else:
            count = self.batch_size if self.restarts else self.n
            self.random.permute(self.order, 0, count, self.n, 1)

    def renew(self, team, start):
        """Where the next batch starts: here, or at the front of a fresh shuffle, which one
        worker makes while the others wait."""
        if not self.is_spent(start):
            return start
        team.wait()
        if team.rank == 0:
            self.shuffle()
        team.wait()
        return 0

    def epoch_is_over(self, start, visited):
        """Whether, with so many rows visited and the next batch at `start`, an epoch ends."""
        if self.restarts or self.replaces:
            return visited + self.batch_size > self.n
        return start + self.batch_size > self.takes_part()


@Kernel
def draw_batch(sampler):
    """Where in `sampler.order` the next batch starts; for callers outside a kernel."""
    start = sampler.position[0]
    if sampler.is_spent(start):
        sampler.shuffle()
        start = 0
    sampler.position[0] = start + sampler.batch_size
    return start


def make_sampler(
    sampling: str, n: int, batch_size: int, seed: int, roster: Roster = NOBODY
) -> Sampler:
    """A stream of batches of `batch_size` out of n rows; the same seed, the same stream.

    Only with a roster can rows be left out of permutations.
    """
    index_type = np.int32 if n < 2**31 else np.int64
    replaces = sampling == "replacement"
    order = roster.order
    if not order.size:
        order = np.zeros(batch_size, index_type) if replaces else np.arange(n, dtype=index_type)
    return Sampler(
        order=order,
        random=Random(np.array([seed], dtype=np.uint64)),
        position=np.array([n], dtype=np.int64),
        visited=np.array([0], dtype=np.int64),
        roster=roster,
        n=n,
        batch_size=batch_size,
        restarts=sampling == "subsets",
        replaces=replaces,
    )
