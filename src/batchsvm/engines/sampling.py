"""Seeded streams of mini-batches: which rows are in the batch A_t.

Three ways to draw b of n rows:

    "subsets"      Rand(b) of the paper: uniform among all subsets of size b
    "permutation"  a fresh shuffle every epoch, cut into floor(n/b) batches; the n mod b
                   rows left over wait for the next shuffle, so that no batch straddles
                   two shuffles and holds a row twice
    "replacement"  b independent draws: the streaming setting of Section 6

The first two are the same Fisher-Yates shuffle, O(b) per batch: a subset shuffles the first
b places of the pool each time, a permutation all of it once per epoch, so that the rows to
come are known.  A screened method has its permutations from a `VisitOrder`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.engines.visit_order import UNSCREENED, Random, VisitOrder


class Sampler(NamedTuple):
    """A stream of batches: order[start : start + batch_size], then the next one.

    When `is_spent(start)`, a `shuffle()` comes first, and start is 0 again.
    """

    order: np.ndarray
    random: Random
    position: np.ndarray  # where the next batch starts: one integer
    visited: np.ndarray  # rows drawn in the epoch under way: one integer
    visits: VisitOrder  # of a screened permutation; its order is the order above
    n: int
    batch_size: int
    restarts: bool
    replaces: bool

    def active_rows(self):
        """How many rows the epoch under way visits."""
        return self.visits.active[0, 0] if self.visits.keep.size > 0 else self.n

    def is_spent(self, start):
        """Whether no batch of this shuffle starts here any more."""
        return self.restarts or self.replaces or start + self.batch_size > self.active_rows()

    def shuffle(self):
        """Draw the rows of one batch, or of all batches of an epoch."""
        if self.replaces:
            for k in range(self.batch_size):
                self.order[k] = np.int64(self.random.uniform() * self.n)
        elif self.visits.keep.size > 0:
            self.visits.redraw(0)
        else:
            count = self.batch_size if self.restarts else self.n
            self.random.permute(self.order, 0, count, self.n, 1)

    def renew(self, worker, start):
        """Where the next batch starts: here, or at the front of a fresh shuffle, which one
        worker makes while the others wait."""
        if not self.is_spent(start):
            return start
        worker.wait()
        if worker.rank == 0:
            self.shuffle()
        worker.wait()
        return 0

    def epoch_is_over(self, start, visited):
        """Whether, with so many rows visited and the next batch at `start`, an epoch ends."""
        if self.restarts or self.replaces:
            return visited + self.batch_size > self.n
        return start + self.batch_size > self.active_rows()


@np.errstate(over="ignore")  # of the random generator, whose numbers wrap around
def draw_batch(sampler: Sampler) -> int:
    """Where in `sampler.order` the next batch starts; for callers outside a kernel."""
    start = int(sampler.position[0])
    if sampler.is_spent(start):
        sampler.shuffle()
        start = 0
    sampler.position[0] = start + sampler.batch_size
    return start


def make_sampler(
    sampling: str, n: int, batch_size: int, seed: int, visits: VisitOrder = UNSCREENED
) -> Sampler:
    """A stream of batches of `batch_size` out of n rows; the same seed, the same stream.

    Only with a visit order can rows be left out of permutations.
    """
    index_type = np.int32 if n < 2**31 else np.int64
    replaces = sampling == "replacement"
    order = visits.order
    if not order.size:
        order = np.zeros(batch_size, index_type) if replaces else np.arange(n, dtype=index_type)
    return Sampler(
        order=order,
        random=Random(np.array([seed], dtype=np.uint64)),
        position=np.array([n], dtype=np.int64),
        visited=np.array([0], dtype=np.int64),
        visits=visits,
        n=n,
        batch_size=batch_size,
        restarts=sampling == "subsets",
        replaces=replaces,
    )


class BlockSampler(NamedTuple):
    """Some rows for each block at a time, for `methods/blocks.py`.

    The order of visits has as many segments as there are blocks.  In each epoch a block has a part
    of the order of every segment.  So its rows come from everywhere in the data, and neighbours in
    memory, which the order keeps together, are mostly visited by one block: two threads would wait
    for each other to write to one cache line.  An iteration takes `rows_per_block` rows of every
    segment.
    """

    visits: VisitOrder
    position: np.ndarray  # where in each segment the next iteration starts: one integer
    rows_per_block: int  # in an iteration

    def list_rows(self, block, position, out, count):
        """Write the rows that a block takes in the iteration at `position` to `out`, from the place
        `count` on, as far as there is room; returns where they end."""
        visits = self.visits
        blocks, stop = visits.edges.size - 1, position + self.rows_per_block
        if stop >= visits.longest_segment():
            stop += blocks  # parts of a segment differ by a row: all that is left
        for segment in range(blocks):
            start, active = visits.edges[segment], visits.active[segment, 0]
            part = (block + segment) % blocks  # such that no block gets all the larger parts
            begin, end = part * active // blocks, (part + 1) * active // blocks
            # Over the segments, as over the blocks, the floors of (x + part)/blocks add up to x:
            # each block takes as many rows in an iteration as any other.
            first, last = (position + part) // blocks, (stop + part) // blocks
            for k in range(start + begin + first, start + min(begin + last, end)):
                if count < out.size:
                    out[count] = visits.order[k]
                    count += 1
        return count


def make_block_sampler(visits: VisitOrder, batch_size: int) -> BlockSampler:
    blocks = visits.edges.size - 1
    return BlockSampler(visits, np.full(1, visits.order.size), -(-batch_size // blocks))
