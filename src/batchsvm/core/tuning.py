"""Thresholds at which the library does one thing rather than another, with their units.

None of them changes what is certified; they decide how fast it is.  The values are where the
ways were seen to cross in trials on two cores.  Tests pass a `Tuning` of their own to `place`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """The thresholds of one placed data set."""

    # Passes over all rows.
    min_parallel_nonzeros: int = 2**22  # a pass over fewer is nearly over when a thread begins
    min_worker_pass_nonzeros: int = 2**20  # in the part of a worker, or starting it takes longer
    min_shared_pass_nonzeros: int = 2**20  # of a pass that adds up few columns: of all its workers
    min_worker_rows: int = 2**19  # of work that takes a few numbers per row, and none of X
    max_exchanged_columns: int = 4096  # so few that each worker can have a vector of them
    entries_per_sum: int = 4  # or, for a combination of rows, so many entries for each number of it
    max_fused_columns: int = 2**17  # so few that caches hold w and w(alpha), for one pass with both
    max_block_rows: int = 32768  # rows at a time, in passes that need work space per row
    dense_block_rows: int = 1024  # made dense at a time, for products with several vectors
    max_dense_block_entries: int = 2**24  # larger blocks are not made dense
    min_dense_block_vectors: int = 4  # so many are multiplied block by block, not one by one
    # Hessians.
    max_outer_columns: int = 256  # so few that a core's own cache holds the Hessian
    outer_entry_cost: float = 8.0  # of an entry added for sparse rows, where a dense one costs 1
    max_hessian_columns: int = 3000  # with more, factoring the Hessian costs more than products
    # Kernels.
    max_call_nonzeros: int = 2**25  # visited by one call: Python hears Ctrl-C only between calls
    # Threads within a fit (core/layout.py).
    min_worker_nonzeros: float = 8  # of a mean row in a worker's columns, or waiting takes over
    min_pair_nonzeros: float = 48  # of a mean row, or two threads gain less than they risk
    min_shared_batch_nonzeros: float = 2**13  # so much work that waiting does not count
    batch_rows_per_worker: int = 128  # more would spare little more waiting
    min_batch_rows_per_worker: int = 4
    batch_sigma2: float = 1.5  # rows of a batch, times sigma^2; at 1.8, steps have to be halved
    max_block_columns: int = 512  # so few that exchanging w costs less than some rows
    default_rows_per_block: int = 16  # between two exchanges, where blocks are asked for
    min_rows_per_block: int = 48  # else: with fewer, more blocks need more epochs than they save
    max_rows_per_block: int = 48
    # Steps that blocks may take unaware of each other, times lam N/sigma^2: each of them moves
    # the responses of others by at most sigma^2/(lam N) in the mean.
    unaware_steps: float = 12.0
    # So many times as many rows of blocks and batches, if no row comes to rest: steps are short.
    rows_without_rest: float = 2.7
    # The same where rare columns are exchanged less often (methods/blocks.py); an exchange takes
    # the longer, beside the steps, the more blocks there are and the fewer steps meet in a column.
    unaware_rows: float = 0.9  # of all blocks between two exchanges, times lam N/sigma^2
    unaware_touches: float = 4.0  # of a column between two exchanges, times lam N
    min_rows_per_ranked_block: int = 112  # with fewer, waiting takes longer than the steps
    max_rows_per_ranked_block: int = 1024
    exchange_cost: float = 3.5  # of an exchange beside the steps, times blocks over touches
    slice_cost: float = 22.0  # of a visit to a part of a row, in entries
    entries_per_copy: int = 2  # of X, for each number of all copies of w
    # Batches with their Gram matrices (methods/gram.py).
    default_gram_rows: int = 64  # of a batch: its Gram matrix stays in a core's own cache
    max_gram_bytes: int = 2**28  # kept for the whole fit; else computed at every visit
    # Parts of rows that are read from a disk (engines/streamed/).
    streamed_parts: int = 60  # at the least: with more and smaller parts, fewer reads are needed
    min_part_rows: int = 1024  # but of little data, each part has so many
    # Visit order (engines/visit_order.py).
    max_group_bytes: float = 8192  # neighbours are worth keeping together up to so many bytes
    max_group_rows: int = 8  # and up to so many rows
    window_bytes: float = 2**17  # a part of a core's own cache
    min_grouped_bytes: float = 2**20  # data below are near wherever they lie


DEFAULT_TUNING = Tuning()
