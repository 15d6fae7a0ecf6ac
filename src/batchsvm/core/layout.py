"""How a fit is laid out over threads: which method, how large a batch, how many workers.

    one thread          serial SDCA: rows seen one after another need the fewest visits
    few columns         blocks of rows, each with a copy of w, exchanged after some rows
    many sparse rows    the same, where rare columns are exchanged less often than frequent ones
    long sparse rows    columns cut among the workers, batches small enough for serial steps
    little data         one thread, since others would take longer to wait for

The thresholds are those of `core/tuning.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from batchsvm.core.change_over import Trial
from batchsvm.core.problem import Problem
from batchsvm.core.tuning import Tuning
from batchsvm.losses import TINY
from batchsvm.methods import Aggressive, Asynchronous, Blocks, Gram, Guarded, Method, Newton

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset


class Workload(NamedTuple):
    """What there is to be laid out: the size of a problem, and the threads for it."""

    n: int
    columns: int  # of w
    nonzeros: int
    sliceable: bool  # whether the columns can be cut
    jobs: int
    tuning: Tuning
    cheap_passes: bool = True  # see `Dataset`: whether all rows are here
    rests: bool = True  # whether rows may come to rest, at a bound of alpha or a kink of the loss

    @property
    def is_large(self) -> bool:
        return self.nonzeros >= self.tuning.min_parallel_nonzeros


def workload_of(data: Dataset, problem: Problem) -> Workload:
    """The workload of a problem; a bias is one more entry per row."""
    columns = problem.columns(data.d)
    nonzeros = data.nonzeros + (columns - data.d) * data.n
    rests = getattr(problem.loss, "corners", True)
    return Workload(
        data.n, columns, nonzeros, data.sliceable, data.jobs, data.tuning, data.cheap_passes, rests
    )


@dataclass(frozen=True)
class Schedule:
    """How a trainer is to go about it.

    Attributes
    ----------
    method : Method
        Its parameters; the engine has a table from the class of a method to what runs it.
    batch_size : int
        Rows per iteration, or of one of its batches, from 1 to n.
    workers : int
        Threads that run the iterations, where the engine has threads.
    beta_b : float
        beta_b of the paper for this batch size.
    averaging : str or None
        "tail", "decay", or None for the last iterate.
    recent_mean : bool
        Whether to keep the mean of recent iterates beside the last one.
    seed : int
        Of problem 0; problem k has seed + k.
    batches : int
        Batches per iteration; more than one for `Gram` alone.
    precision : {"auto", "tf32", "float32", "float64"}
        Of the products in the steps, on an engine that offers a choice.
    keeps_gram : bool
        Whether Gram matrices are computed once per fit, or in each round, on such an engine.
    """

    method: Method
    batch_size: int
    workers: int = 1
    beta_b: float = 1.0
    averaging: str | None = None
    recent_mean: bool = False
    seed: int = 0
    batches: int = 1
    precision: str = "auto"
    keeps_gram: bool = True


class Layout(NamedTuple):
    """A choice and the words for it; a batch size of None is left to sigma^2."""

    method: Method
    batch_size: int | None
    workers: int
    reason: str
    batches: int = 1
    keeps_gram: bool = True
    trial: Trial | None = None  # after which Newton's method may take over


def lay_out_as_asked(work: Workload, method: Method | None, batch_size: int | str) -> Layout:
    """The layout for a method or a batch size that was asked for, or both."""
    asked = None if batch_size == "auto" else int(batch_size)
    method = method or Aggressive()
    if isinstance(method, Asynchronous):
        raise ValueError(
            'method "asynchronous" is for engine="gpu" and sparse rows; method="auto" chooses'
            " what is fast here"
        )
    if isinstance(method, Blocks):
        share = -(-asked // method.blocks) if asked else work.tuning.default_rows_per_block
        workers = min(method.blocks, work.jobs)
        words = "as asked for, rounded up to a multiple of the blocks"
        return Layout(method, min(share * method.blocks, work.n), workers, words)
    if isinstance(method, Gram):
        return _lay_out_gram(work, method, asked)
    if asked == 1:
        return Layout(method, 1, 1, "as asked for, and rows taken one by one share no work")
    workers, why = column_workers(work, asked or 1)
    return Layout(method, asked, workers, f"as asked for; {why}" if asked else why)


def lay_out_newton(work: Workload, method: Newton, batch_size: int | str, why: str) -> Layout:
    """All rows in each iteration."""
    if batch_size != "auto":
        raise ValueError(
            f'batch_size must be "auto" for method "newton", whose iterations take all rows, not'
            f" {batch_size}"
        )
    forms = method.forms_hessian(work.columns, work.tuning.max_hessian_columns)
    how = (
        f"the Hessian, {work.columns} x {work.columns}, is formed and factored"
        if forms
        else "the Newton equation is solved by conjugate gradients"
    )
    return Layout(method, work.n, work.jobs, f"{why}; {how} in each iteration over all rows")


def lay_out(
    work: Workload,
    averages: bool,
    measure: Callable[[], float],
    lam_n: float,
    norm2: float = 1.0,
) -> Layout:
    """The layout where nothing was asked for; `measure` returns sigma^2, which may be an estimate,
    lam_n is lam N, and norm2 the largest ||x_i||^2."""
    workers, why = column_workers(work)
    tuning, threads = work.tuning, work.jobs if work.is_large else 1
    alone = Layout(Aggressive(), 1, 1, f"{why}, and rows seen one by one need the fewest visits")
    if workers == threads == 1:
        return alone
    sigma2 = measure()
    more = 1.0 if work.rests else tuning.rows_without_rest
    unaware = more * tuning.unaware_steps * lam_n / sigma2
    blocks = int(min(threads, unaware / tuning.min_rows_per_block))
    if blocks > 1 and work.columns <= tuning.max_block_columns and not averages:
        share = int(min(unaware / blocks, more * tuning.max_rows_per_block, work.n / blocks))
        return Layout(
            Blocks(blocks=blocks), share * blocks, blocks,
            f"so few columns ({work.columns}) that each of {blocks} threads has a w of its own,"
            f" takes {share} serial steps on rows of its own, and then the changes are added up",
        )  # fmt: skip
    ranked = None if averages else _ranked_blocks(work, sigma2, lam_n / max(norm2, TINY), workers)
    if ranked is not None:
        return ranked
    if workers == 1:
        return alone
    # Batches of about 1/sigma^2 do with serial steps: the paper's near-linear speed-up.  What
    # workers tell each other about 8 rows is a cache line.
    small = int(more * tuning.batch_sigma2 / sigma2)
    if small >= 8:
        small -= small % 8
    size = min(tuning.batch_rows_per_worker * workers, small, work.n)
    workers = min(workers, size // tuning.min_batch_rows_per_worker)
    if workers <= 1:
        return Layout(
            Aggressive(), 1, 1,
            f"rows so much alike (1/sigma^2 is {1 / sigma2:.3g}) that batches would repeat steps,"
            " and rows seen one by one share no work",
        )  # fmt: skip
    return Layout(
        Guarded(), size, workers,
        f"{cut_words(work, workers)}; so small a batch costs hardly more visits than rows seen"
        " one by one, and its steps are shortened should they raise the dual objective by less"
        " than half of what they promise",
    )  # fmt: skip


def _ranked_blocks(work: Workload, sigma2: float, lam_n: float, workers: int) -> Layout | None:
    """Blocks that exchange rare columns less often, if they are likely to bring more than columns
    cut among so many workers; lam_n is lam N for rows of unit norm.

    What either takes beside its steps is a fit to times on 2, 4, 8 and 16 cores.
    """
    tuning, mean = work.tuning, work.nonzeros / work.n
    at_once = tuning.unaware_rows * lam_n / sigma2
    most = work.nonzeros / (tuning.entries_per_copy * work.columns)
    blocks = int(min(work.jobs, at_once / tuning.min_rows_per_ranked_block, most))
    if blocks <= 1 or mean > work.columns / 8:  # dense rows have no rare columns
        return None
    if not work.cheap_passes:  # columns would be ranked anew for each part of the rows
        return None
    waiting = tuning.exchange_cost / (tuning.unaware_touches * lam_n)
    gain = blocks / (1 + waiting * blocks)
    if gain < workers / (1 + tuning.slice_cost / mean * workers):
        return None
    share = int(min(at_once / blocks, tuning.max_rows_per_ranked_block, work.n / blocks))
    return Layout(
        Blocks(blocks=blocks, exchange="frequency"), share * blocks, blocks,
        f"each of {blocks} threads has a w of its own and takes {share} serial steps on rows of its"
        " own, and then the changes are added up, those of rare columns less often than those of"
        " frequent ones; steps are shortened should they raise the dual objective by less than half"
        " of what they promise",
    )  # fmt: skip


def _lay_out_gram(work: Workload, method: Gram, asked: int | None) -> Layout:
    """Batches that keep their rows, one at a time or one per thread."""
    size = min(asked or work.tuning.default_gram_rows, work.n)
    count = -(-work.n // size)
    batch_nonzeros = size * work.nonzeros / work.n
    if not isinstance(method.batches, str):
        batches, why = (
            min(method.batches, count),
            f"{method.batches} batches at once were asked for",
        )
    elif work.jobs == 1:
        batches, why = 1, "one thread runs the iterations"
    elif not work.is_large:
        batches = 1
        why = f"so little data ({work.nonzeros:,} non-zeros) that threads would only wait"
    elif work.columns > batch_nonzeros:
        batches = 1
        why = f"a batch is so sparse ({batch_nonzeros:,.0f} non-zeros) that adding up w costs more"
    else:
        batches, why = min(work.jobs, count), f"each of {work.jobs} threads has a batch of its own"
    how = (
        "the steps of a batch are serial steps, by its Gram matrix"
        if batches == 1
        else f"{batches} batches at once take serial steps, each by its Gram matrix, and then their"
        " changes are added up"
    )
    return Layout(method, size, min(batches, work.jobs), f"{how}; {why}", batches)


def keeps_recent_mean(work: Workload, batch_size: int, method: Method) -> bool:
    """Whether the mean of recent iterates is worth keeping: many rows, few columns, and steps
    one after another."""
    serial = batch_size == 1 or isinstance(method, Blocks)
    return serial and work.columns <= work.tuning.max_block_columns and work.is_large


def column_workers(work: Workload, batch_size: int = 1) -> tuple[int, str]:
    """Among how many workers the columns are cut, and why."""
    jobs, stored = work.jobs, work.nonzeros
    mean = stored / work.n
    tuning = work.tuning
    large = batch_size * mean >= tuning.min_shared_batch_nonzeros
    if jobs == 1:
        return 1, "one thread runs the iterations"
    if not (work.is_large or large):
        return 1, f"so little data ({stored:,} non-zeros) that threads would only wait"
    if not work.sliceable:
        return 1, "the indices of X are not sorted, so that its columns cannot be cut"
    workers = int(min(jobs, mean // tuning.min_worker_nonzeros))
    if workers <= 1 or (workers == 2 and mean < tuning.min_pair_nonzeros and not large):
        return 1, f"rows of {mean:.3g} non-zeros are too short to be cut among threads"
    return workers, cut_words(work, workers)


def cut_words(work: Workload, workers: int) -> str:
    mean = work.nonzeros / work.n
    return f"the columns, {mean:.3g} non-zeros per row, are cut among {workers} threads"
