"""How a fit is laid out over threads: which method, how large a batch, how many workers.

    one thread          serial SDCA: rows seen one after another need the fewest visits
    few columns         blocks of rows, each with a copy of w, exchanged after some rows
    long or many rows   columns cut among the workers, batches small enough for serial steps
    little data         one thread, since others would take longer to wait for

The thresholds are where the layouts were seen to cross in trials on two cores.
"""

from __future__ import annotations

from typing import NamedTuple

from batchsvm.matrix import Matrix
from batchsvm.methods import Aggressive, Blocks, Guarded, Method

LEAST_A_WORKER = 12  # non-zeros of a mean row in a worker's columns, or waiting takes over
LEAST_FOR_TWO = 128  # non-zeros of a mean row, or two threads gain less than they risk
LARGE_BATCH = 2**13  # non-zeros: so much work that waiting does not count
BATCH_A_WORKER = 16  # rows; more would spare little more waiting
LEAST_BATCH = 4
FEW_COLUMNS = 512  # so few that exchanging w costs less than some rows
ROWS_A_BLOCK = 16  # between two exchanges, where blocks are asked for
LEAST_A_BLOCK, MOST_A_BLOCK = 8, 32  # else: with fewer the exchange takes over
# Steps that blocks may take unaware of each other, times lam N/sigma^2: each of them moves the
# responses of others by at most sigma^2/(lam N) in the mean.
UNAWARE = 4.0


class Layout(NamedTuple):
    """A choice and the words for it; a batch size of None is left to sigma^2."""

    method: Method
    batch_size: int | None
    workers: int
    reason: str


def lay_out_as_asked(matrix: Matrix, method: Method | None, batch_size: int | str) -> Layout:
    """The layout for a method or a batch size that was asked for, or both."""
    asked = None if batch_size == "auto" else int(batch_size)
    method = method or Aggressive()
    if isinstance(method, Blocks):
        share = -(-asked // method.blocks) if asked else ROWS_A_BLOCK
        workers = min(method.blocks, matrix.threads.size)
        words = "as asked for, rounded up to a multiple of the blocks"
        return Layout(method, min(share * method.blocks, matrix.n), workers, words)
    if asked == 1:
        return Layout(method, 1, 1, "as asked for, and rows taken one by one share no work")
    workers, why = column_workers(matrix, asked or 1)
    return Layout(method, asked, workers, f"as asked for; {why}" if asked else why)


def lay_out(matrix: Matrix, averages: bool, sigma2: float, lam_n: float) -> Layout:
    """The layout where nothing was asked for; sigma2 may be an estimate, lam_n is lam N."""
    workers, why = column_workers(matrix)
    unaware = UNAWARE * lam_n / sigma2
    blocks = int(min(matrix.passing.size, unaware / LEAST_A_BLOCK))
    if blocks > 1 and matrix.d <= FEW_COLUMNS and not averages:
        share = int(min(unaware / blocks, MOST_A_BLOCK))
        return Layout(
            Blocks(blocks=blocks), share * blocks, blocks,
            f"so few columns ({matrix.d}) that each of {blocks} threads has a w of its own, takes"
            f" {share} serial steps on rows of its own, and then the changes are added up",
        )  # fmt: skip
    if workers == 1:
        return Layout(Aggressive(), 1, 1, f"{why}, and rows seen one by one need the fewest visits")
    # Batches up to 1/sigma^2 do with serial steps: the paper's near-linear speed-up.
    size = min(BATCH_A_WORKER * workers, int(1 / sigma2), matrix.n)
    workers = min(workers, size // LEAST_BATCH)
    if workers <= 1:
        return Layout(
            Aggressive(), 1, 1,
            f"rows so much alike (1/sigma^2 is {1 / sigma2:.3g}) that batches would repeat steps,"
            " and rows seen one by one share no work",
        )  # fmt: skip
    return Layout(
        Guarded(), size, workers,
        f"{cut_words(matrix, workers)}; so small a batch costs hardly more visits than rows seen"
        " one by one, and its steps are shortened should they raise the dual objective by less"
        " than half of what they promise",
    )  # fmt: skip


def keeps_recent(matrix: Matrix, batch_size: int, method: Method) -> bool:
    """Whether the mean of recent iterates is worth keeping: many rows, few columns, and steps
    one after another."""
    serial = batch_size == 1 or isinstance(method, Blocks)
    return serial and matrix.d <= FEW_COLUMNS and matrix.is_large


def column_workers(matrix: Matrix, batch_size: int = 1) -> tuple[int, str]:
    """Among how many workers the columns are cut, and why."""
    jobs, stored = matrix.threads.size, matrix.rows.nonzeros
    mean = stored / matrix.n
    large = batch_size * mean >= LARGE_BATCH
    if jobs == 1:
        return 1, "one thread runs the iterations"
    if matrix.passing.size == 1 and not large:
        return 1, f"so little data ({stored:,} non-zeros) that threads would only wait"
    if not matrix.rows.increasing:
        return 1, "the indices of X are not sorted, so that its columns cannot be cut"
    workers = int(min(jobs, mean // LEAST_A_WORKER))
    if workers <= 1 or (workers == 2 and mean < LEAST_FOR_TWO and not large):
        return 1, f"rows of {mean:.3g} non-zeros are too short to be cut among threads"
    return workers, cut_words(matrix, workers)


def cut_words(matrix: Matrix, workers: int) -> str:
    mean = matrix.rows.nonzeros / matrix.n
    return f"the columns, {mean:.3g} non-zeros a row, are cut among {workers} threads"
