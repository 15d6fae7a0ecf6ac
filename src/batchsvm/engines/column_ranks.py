"""Columns ranked by how many rows have an entry in them, for `Blocks(exchange="frequency")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

if TYPE_CHECKING:
    from batchsvm.engines.host_problem import HostProblem

SAMPLED_ENTRIES = 2**17  # about so many are counted
MIN_SAMPLED_ROWS = 256
MAX_SAMPLED_ROWS = 4096
MAX_LEVEL = 40  # more would be due at the end of a call alone


class ColumnRanks(NamedTuple):
    """Columns in levels, from the most frequent one to the rarest.

    Level 0 has the columns with an entry in at least a certain share of the rows, and each level
    after it those with an entry in half of the share of the level before, or more.
    """

    columns: np.ndarray  # in the order of their levels
    ends: np.ndarray  # columns[ends[k - 1] : ends[k]] are those of level k

    def due_end(self, turn):
        """Where the columns end whose changes are exchanged in the iteration `turn`, counted from
        1: level k is due after every 2^k of them."""
        level = 0
        while level < self.ends.size - 1 and (turn >> level) & 1 == 0:
            level += 1
        return self.ends[level]


def rank_columns(data: Any, bound: HostProblem, rows_at_once: int) -> ColumnRanks:
    """Levels for blocks that take so many rows in an iteration.

    A step moves the response of another row by x_ij^2/(lam N) or so for a column j of both.
    Level 0 has the columns in which more than `unaware_touches` lam N of these rows would meet.
    """
    counts, rows = count_columns(data, bound.bias is not None)
    lam_n, norm2 = bound.lam * bound.total_weight, float(bound.facts.largest_norm2[0])
    touches = data.tuning.unaware_touches * lam_n / norm2 if norm2 > 0.0 else 0.0
    return levels_of(counts, rows, touches / rows_at_once)


def count_columns(data: Any, has_bias: bool) -> tuple[np.ndarray, int]:
    """How many rows of a sample have an entry in each column, and how many rows that are."""
    size = SAMPLED_ENTRIES * data.n // max(data.nonzeros, 1)
    size = min(max(size, MIN_SAMPLED_ROWS), MAX_SAMPLED_ROWS)
    which = np.unique(np.linspace(0, data.n - 1, size).astype(np.int64))
    sample = data.sample(which)
    if scipy.sparse.issparse(sample):
        counts = np.bincount(sample.indices, minlength=data.d)
    else:
        counts = np.count_nonzero(sample, axis=0)
    return np.append(counts, which.size) if has_bias else counts, which.size


def levels_of(counts: np.ndarray, rows: int, first_share: float) -> ColumnRanks:
    """Levels from the counts of each column in so many rows; level 0 begins at `first_share`."""
    # A column that the sample does not have counts as if it had half an entry there.
    shares = np.maximum(np.arange(rows + 1), 0.5) / rows
    level_of_count = np.ceil(np.log2(np.maximum(first_share / shares, 1.0)))
    levels = np.minimum(level_of_count, MAX_LEVEL).astype(np.uint8)[counts]
    groups = [np.flatnonzero(levels == level) for level in range(levels.max() + 1)]
    columns = np.concatenate(groups).astype(np.uint32)  # unsigned: see CSR
    return ColumnRanks(columns, np.cumsum([group.size for group in groups]))
