"""Seeded streams of mini-batches: who is in the batch A_t.

Three ways to draw b of n rows:

    "subsets"      Rand(b) of the paper: uniform among all subsets of size b
    "permutation"  a fresh shuffle every epoch, cut into floor(n/b) batches; the n mod b
                   rows left over wait for the next shuffle, so that no batch straddles
                   two shuffles and holds a row twice
    "replacement"  b independent draws: the streaming setting of Section 6

The first two are the same Fisher-Yates shuffle, O(b) a batch: a subset shuffles the first
b places of the pool each time, a permutation all of it once an epoch, so that the rows to
come are known.  Rows can be left out of permutations until they are restored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel, struct_method

SAMPLINGS = ("permutation", "subsets", "replacement")

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


@struct_method
def uniform(self): ...


@struct_method
def permute(self, order, start, count, active): ...


@struct_method
def is_spent(self, start): ...


@struct_method
def shuffle(self): ...


@struct_method
def renew(self, team, start): ...


@struct_method
def epoch_is_over(self, start, visited): ...


@struct_method
def end_epoch(self, start, skips, restores): ...


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

    def permute(self, order, start, count, active):
        """Draw `count` of the `active` rows at `start` without replacement, to the front."""
        for k in range(count):
            other = k + np.int64(self.uniform() * (active - k))
            chosen = order[start + other]
            order[start + other] = order[start + k]
            order[start + k] = chosen


class Sampler(NamedTuple):
    """A stream of batches: order[start : start + batch_size], then the next one.

    When `is_spent(start)`, a `shuffle()` comes first, and start is 0 again.
    """

    order: np.ndarray
    random: Random
    position: np.ndarray  # where the next batch starts: one integer
    visited: np.ndarray  # rows drawn in the epoch under way: one integer
    active: np.ndarray  # how many rows at the front of `order` take part: one integer
    keep: np.ndarray  # for each row, whether it stays for the next epoch
    n: int
    batch_size: int
    restarts: bool
    replaces: bool

    def is_spent(self, start):
        """Whether no batch of this shuffle starts here any more."""
        return self.restarts or self.replaces or start + self.batch_size > self.active[0]

    def shuffle(self):
        """Draw the rows of one batch, or of all batches of an epoch."""
        if self.replaces:
            for k in range(self.batch_size):
                self.order[k] = np.int64(self.random.uniform() * self.n)
        else:
            active = self.active[0]
            count = self.batch_size if self.restarts else active
            self.random.permute(self.order, 0, count, active)

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
        return start + self.batch_size > self.active[0]

    def end_epoch(self, start, skips, restores):
        """The next batch would be at `start`.  With `skips`, rows visited and not marked in
        `keep` take no part until an epoch `restores` all of them."""
        if skips:
            kept = 0
            for k in range(self.active[0]):
                row = self.order[k]
                if k >= start or self.keep[row]:
                    self.order[k] = self.order[kept]
                    self.order[kept] = row
                    kept += 1
            self.active[0] = kept
        if restores or self.active[0] < self.batch_size:
            self.active[0] = self.n


@Kernel
def draw_batch(sampler):
    """Where in `sampler.order` the next batch starts; for callers outside a kernel."""
    start = sampler.position[0]
    if sampler.is_spent(start):
        sampler.shuffle()
        start = 0
    sampler.position[0] = start + sampler.batch_size
    return start


def make_sampler(sampling: str, n: int, batch_size: int, seed: int, skips: bool = False) -> Sampler:
    """A stream of batches of `batch_size` out of n rows; the same seed, the same stream.

    Only with `skips` can rows be left out.
    """
    index_type = np.int32 if n < 2**31 else np.int64
    replaces = sampling == "replacement"
    order = np.zeros(batch_size, index_type) if replaces else np.arange(n, dtype=index_type)
    return Sampler(
        order=order,
        random=Random(np.array([seed], dtype=np.uint64)),
        position=np.array([n], dtype=np.int64),
        visited=np.array([0], dtype=np.int64),
        active=np.array([n], dtype=np.int64),
        keep=np.zeros(n if skips else 0, dtype=np.bool_),
        n=n,
        batch_size=batch_size,
        restarts=sampling == "subsets",
        replaces=replaces,
    )
