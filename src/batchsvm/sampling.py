"""Seeded streams of mini-batches: who is in the batch A_t.

Three ways to draw b of n rows:

    "subsets"      Rand(b) of the paper: uniform among all subsets of size b
    "permutation"  a fresh shuffle every epoch, cut into floor(n/b) batches; the n mod b
                   rows left over wait for the next shuffle, so that no batch straddles
                   two shuffles and holds a row twice
    "replacement"  b independent draws: the streaming setting of Section 6

The first two are the same Fisher-Yates shuffle, O(b) a batch: a subset shuffles the first
b places of the pool each time, a permutation all of it once an epoch, so that the rows to
come are known.  Rows can be left out of a permutation until they are restored.
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
def draw(self): ...


@struct_method
def epoch_is_over(self, visited): ...


@struct_method
def keep_row(self, k): ...


@struct_method
def leave_out_the_others(self): ...


@struct_method
def restore(self): ...


class Sampler(NamedTuple):
    """A stream of batches; `draw()` returns where in `order` the next batch starts."""

    order: np.ndarray
    state: np.ndarray  # of the random generator: one uint64
    position: np.ndarray  # where the next batch of a permutation starts: one integer
    active: np.ndarray  # how many rows at the front of `order` take part: one integer
    kept: np.ndarray  # how many of these will take part in the next epoch: one integer
    n: int
    batch_size: int
    restarts: bool
    replaces: bool

    def uniform(self):
        # splitmix64 (Steele, Lea, Flood 2014); 53 bits make a number in [0, 1).
        self.state[0] += _GOLDEN
        z = self.state[0]
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
        z = z ^ (z >> np.uint64(31))
        return (z >> np.uint64(11)) * _TO_UNIT

    def draw(self):
        if self.replaces:
            for k in range(self.batch_size):
                self.order[k] = np.int64(self.uniform() * self.n)
            return 0
        start, active = self.position[0], self.active[0]
        if self.restarts or start + self.batch_size > active:
            start = 0
            for k in range(self.batch_size if self.restarts else active):
                other = k + np.int64(self.uniform() * (active - k))
                chosen = self.order[other]
                self.order[other] = self.order[k]
                self.order[k] = chosen
        self.position[0] = start + self.batch_size
        return start

    def epoch_is_over(self, visited):
        """Whether the batch just drawn ends an epoch of so many visited rows."""
        if self.restarts or self.replaces:
            return visited + self.batch_size > self.n
        return self.position[0] + self.batch_size > self.active[0]

    def keep_row(self, k):
        """Row order[k], just visited, takes part in the next epoch too.

        The rows kept gather at the front, and those still to come stay where they are.
        """
        to = self.kept[0]
        row = self.order[k]
        self.order[k] = self.order[to]
        self.order[to] = row
        self.kept[0] = to + 1

    def leave_out_the_others(self):
        """End an epoch: until `restore`, only the rows kept take part."""
        self.active[0] = self.kept[0]
        self.kept[0] = 0

    def restore(self):
        """Let all rows take part again, from a fresh shuffle on."""
        self.active[0] = self.n
        self.position[0] = self.n


@Kernel
def draw_batch(sampler):
    """Where the next batch starts in `sampler.order`; for callers outside a kernel."""
    return sampler.draw()


def make_sampler(sampling: str, n: int, batch_size: int, seed: int) -> Sampler:
    """A stream of batches of `batch_size` out of n rows; the same seed, the same stream."""
    index_type = np.int32 if n < 2**31 else np.int64
    replaces = sampling == "replacement"
    order = np.zeros(batch_size, index_type) if replaces else np.arange(n, dtype=index_type)
    return Sampler(
        order=order,
        state=np.array([seed], dtype=np.uint64),
        position=np.array([n], dtype=np.int64),
        active=np.array([n], dtype=np.int64),
        kept=np.array([0], dtype=np.int64),
        n=n,
        batch_size=batch_size,
        restarts=sampling == "subsets",
        replaces=replaces,
    )
