"""Blocks: serial SDCA on blocks of rows, side by side, for data with few columns.

The rows are cut into blocks.  In an iteration each block takes a few serial steps on rows
of its own, seeing its own steps but not yet those of the others; then the changes of all
blocks are added up, as in CoCoA (Jaggi et al. 2014; Ma et al. 2015).  Where one thread
works on each block, an iteration costs each of them its own rows and one exchange of w.

Added up, the changes delta_j of blocks that agree overshoot, as naive batches do.  With
L_j what block j gains to first order and Delta_j = sum of alpha-changes times s_i x_i,

    N (D(alpha + theta sum_j delta_j) - D(alpha))
        >= theta sum_j L_j - theta^2/(2 lam N) ||sum_j Delta_j||^2

since the conjugates are convex.  The iteration takes the theta in (0, 1] for which this is
largest: D never falls, whatever the data, and theta is 1 where blocks do not disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from batchsvm.compiled import Kernel, struct_method
from batchsvm.methods.sdca import DualMethod
from batchsvm.sampling import Random

ALMOST_ONE = 1.0 - 1e-9  # a theta that rounding alone keeps from 1


@dataclass(frozen=True)
class Blocks(DualMethod):
    """Serial steps on blocks of rows side by side, their changes added up.

    Parameters beside those of all dual methods
    -------------------------------------------
    blocks : int
        How many; `batch_size` is the rows of all blocks in an iteration, and becomes a
        multiple of this.  A fit by fewer threads than blocks gives the same result.
    """

    blocks: int = 2

    name: ClassVar[str] = "blocks"
    skips_in_batches: ClassVar[bool] = True

    def lines(self, workers: int) -> int:
        return self.blocks

    def first_beta(self, beta_b: float) -> float:
        return 1.0


@struct_method
def begin_block(self, block): ...


@struct_method
def end_block(self, block, skips, restores): ...


@struct_method
def longest_block(self): ...


class BlockSampler(NamedTuple):
    """For each block a permuted order of its rows, and how many of them take part."""

    order: np.ndarray  # block j has the places from edges[j] to edges[j + 1]
    edges: np.ndarray
    states: np.ndarray  # of a random generator for each block; padded
    active: np.ndarray  # rows of each block that take part; padded
    keep: np.ndarray
    position: np.ndarray  # where in each block the next iteration starts: one integer
    share: int  # rows of a block in an iteration

    def begin_block(self, block):
        """Shuffle a block's rows for a new epoch."""
        active = self.active[block, 0]
        Random(self.states[block]).permute(self.order, self.edges[block], active, active)

    def longest_block(self):
        """The rows that take part in the block that has most of them."""
        longest = 0
        for block in range(self.active.shape[0]):
            longest = max(longest, self.active[block, 0])
        return longest

    def end_block(self, block, skips, restores):
        """As `Sampler.end_epoch`, for one block."""
        start = self.edges[block]
        if skips:
            kept = 0
            for k in range(self.active[block, 0]):
                row = self.order[start + k]
                if self.keep[row]:
                    self.order[start + k] = self.order[start + kept]
                    self.order[start + kept] = row
                    kept += 1
            self.active[block, 0] = kept
        if restores:
            self.active[block, 0] = self.edges[block + 1] - start


def make_block_sampler(n: int, blocks: int, batch_size: int, seed: int) -> BlockSampler:
    edges = np.arange(blocks + 1) * n // blocks
    states = np.zeros((blocks, 8), np.uint64)
    states[:, 0] = np.random.SeedSequence(seed).generate_state(blocks, np.uint64)
    active = np.zeros((blocks, 8), np.int64)
    active[:, 0] = np.diff(edges)
    return BlockSampler(
        np.arange(n, dtype=np.int32 if n < 2**31 else np.int64), edges, states, active,
        np.zeros(n, np.bool_), np.full(1, n), -(-batch_size // blocks),
    )  # fmt: skip


@Kernel
def begin_blocks(sampler):
    """Shuffle all blocks; for callers outside a kernel."""
    for block in range(sampler.edges.size - 1):
        sampler.begin_block(block)
