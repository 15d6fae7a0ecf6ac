"""How a fit is laid out on a device: which method, how many batches of how many rows, and what of
that fits into its memory.

Dense rows are trained by `gram`: all its work is matrix products, and K problems share the Gram
matrices.  One batch would leave most of the device idle, so that several are taken at once.
Sparse rows are trained without waiting (`methods/asynchronous.py`), or by the aggressive rule where
the same seed is to give the same bits.

What takes memory beside X: alpha, n K numbers, twice with the best point; G, n b numbers; work
space.  Where that is too much, G is computed anew in each round, then problems are trained in
groups, then batches become smaller; only then is the fit refused.
"""

from __future__ import annotations

from typing import NamedTuple

from batchsvm.core.layout import Layout
from batchsvm.methods import Aggressive, Asynchronous, Gram, Method, Naive, Pegasos, Safe

MANY_PROBLEMS = 8  # from here on, larger batches: their Gram matrices serve many problems
ROWS_OF_MANY, ROWS_OF_FEW = 128, 64
ROWS_PER_ROUND = 2048  # enough to fill a device, and few enough for beta to stay near 1
MAX_BATCH_ROWS = 512  # so many a warp holds in registers
SMALLEST_BATCH = 32
# Batches of sparse rows grow with the root of n: as few waits as a batch can bear, seen in trials
# from 20 thousand to 46 million rows.
SPARSE_ROWS_PER_ROOT, LARGEST_SPARSE_BATCH = 4, 16384
# Without waiting, a row is worked on by one warp; with more of them than this part of the rows,
# the steps know too little of each other.
WARPS_PER_MULTIPROCESSOR, ROWS_PER_ROW_AT_ONCE = 16, 32
MAX_PROBLEMS_OF_ROWS = 4096  # at once
MIN_ROUNDS_PER_EPOCH = 128  # with fewer, a round is too much of an epoch for its batches to agree
SPARE = 0.9  # of the free memory may be planned with
PASS_BYTES = 2**30 + 2**29  # work space of a full pass in float64
SMALL_NONZEROS = 2**26  # below, threads of the host are about as fast

ON_DENSE: tuple[type, ...] = (Gram, Naive, Safe, Aggressive, Pegasos)
ON_SPARSE: tuple[type, ...] = (Asynchronous, Naive, Safe, Aggressive, Pegasos)


class DeviceSize(NamedTuple):
    """What a device has for a fit."""

    name: str
    multiprocessors: int
    free_bytes: int
    x_bytes: int  # that X takes on it already
    is_dense: bool
    deterministic: bool = False


class DeviceWork(NamedTuple):
    """What there is to be laid out."""

    n: int
    columns: int
    nonzeros: int
    problems: int
    device: DeviceSize
    precision: str = "auto"


def lay_out_on_device(work: DeviceWork, method: Method | None, batch_size: int | None) -> Layout:
    """The layout for a method or a batch size that was asked for, or for neither."""
    offered = ON_DENSE if work.device.is_dense else ON_SPARSE
    if method is None:
        method = automatic_method(work.device)
    if not isinstance(method, offered):
        names = ", ".join(f'"{kind.name}"' for kind in offered)  # type: ignore[attr-defined]
        kind = "dense" if work.device.is_dense else "sparse"
        raise ValueError(
            f'method must be one of {names} for {kind} rows on the gpu engine, not "{method.name}"'
        )
    if isinstance(method, Asynchronous):
        return _lay_out_rows(work, method, batch_size)
    if not isinstance(method, Gram):
        size = batch_size
        if size is None and isinstance(method, Aggressive):  # the others do not adapt: by sigma^2
            size = _sparse_rows(work.n)
        why = "as asked for" if batch_size else "enough rows to fill the device, and many batches"
        why = why if size else ""
        where = f"on {work.device.name}{_small_words(work)}"
        return Layout(method, size, 1, f"{why}, {where}" if why else where)
    if batch_size is not None and batch_size > MAX_BATCH_ROWS:
        raise ValueError(
            f'batch_size must be at most {MAX_BATCH_ROWS} for method "gram" on the gpu engine,'
            f' not {batch_size}; method="aggressive" takes any'
        )
    size = min(batch_size or _rows_of(work.problems), work.n)
    batches = _batches_of(work, method, size)
    return _into_memory(work, method, size, batches, asked=batch_size is not None)


def automatic_method(device: DeviceSize) -> Method:
    """What "auto" is on a device."""
    if device.is_dense:
        return Gram()
    return Aggressive() if device.deterministic else Asynchronous()


def _lay_out_rows(work: DeviceWork, method: Asynchronous, asked: int | None) -> Layout:
    """Rows without waiting: as many at once as the device has room for, and few of all."""
    if work.device.deterministic:
        raise ValueError(
            'method must be "aggressive", "safe", "naive" or "pegasos" for data placed with'
            ' deterministic=True, not "asynchronous": which of its steps comes first is left to'
            " chance"
        )
    most = WARPS_PER_MULTIPROCESSOR * work.device.multiprocessors
    size = min(asked or max(1, work.n // ROWS_PER_ROW_AT_ONCE), most, work.n)
    memory = rows_memory(work)
    if memory > SPARE * work.device.free_bytes:
        raise ValueError(
            f"X must leave room on {work.device.name}: {work.problems} problems over"
            f" {work.n:,} rows and {work.columns:,} columns need {_gib(memory)} beside the"
            f" {_gib(work.device.x_bytes)} of X, and {_gib(work.device.free_bytes)} are free:"
            ' train fewer problems at once, or use engine="cpu"'
        )
    how = f"{size:,} rows at once, each by a warp that waits for no other, on {work.device.name}"
    how += "; half as many after an epoch in which the dual objective falls, which is taken back"
    if work.problems > 1:
        how += f"; {work.problems:,} problems share what is read of a row"
    words = f"{how}; memory beside X ({_gib(work.device.x_bytes)}): {_gib(memory)}, of"
    words += f" {_gib(work.device.free_bytes)} free{_small_words(work)}"
    return Layout(method, size, 1, words)


def rows_memory(work: DeviceWork) -> int:
    """Bytes that asynchronous training takes: w twice, alpha four times, and a full pass."""
    item = 8 if work.precision == "float64" else 4
    numbers = 2 * (work.columns + 1024) + 4 * work.n  # with room for the padding of w
    return work.problems * (item * numbers + 16 * work.columns) + min(
        PASS_BYTES, 16 * work.n * work.problems
    )


def _sparse_rows(n: int) -> int:
    return min(n, int(SPARSE_ROWS_PER_ROOT * n**0.5), LARGEST_SPARSE_BATCH)


def _rows_of(problems: int) -> int:
    return ROWS_OF_MANY if problems >= MANY_PROBLEMS else ROWS_OF_FEW


def _batches_of(work: DeviceWork, method: Gram, size: int) -> int:
    count = -(-work.n // size)
    if not isinstance(method.batches, str):
        return min(method.batches, count)
    return max(1, min(ROWS_PER_ROUND // size, count // MIN_ROUNDS_PER_EPOCH))


class Memory(NamedTuple):
    """Bytes that a fit takes on the device, beside X."""

    alpha: int
    gram: int
    space: int

    @property
    def total(self) -> int:
        return sum(self)


def memory_of(work: DeviceWork, size: int, batches: int, keeps_gram: bool) -> Memory:
    """What a fit with batches of this size takes, in the numbers of its steps."""
    item = 8 if work.precision == "float64" else 4
    padded = -(-size // SMALLEST_BATCH) * SMALLEST_BATCH
    rows, K = -(-work.n // size) * padded, work.problems
    gram = padded * padded * (-(-work.n // size) if keeps_gram else batches)
    space = batches * padded * (work.columns + 3 * K) + 3 * K * work.columns
    passes = min(PASS_BYTES, 3 * 8 * rows * (work.columns + K))
    return Memory(2 * item * rows * K, item * gram, item * space + passes)


def problems_that_fit(work: DeviceWork) -> int:
    """How many problems may be trained at once, with G computed anew if need be; at least one."""
    free = SPARE * work.device.free_bytes
    if not work.device.is_dense:
        each = rows_memory(work._replace(problems=1))
        return max(1, min(MAX_PROBLEMS_OF_ROWS, int(free // each)))
    size = min(ROWS_OF_MANY, work.n)
    batches = _batches_of(work, Gram(), size)
    one, two = (
        memory_of(work._replace(problems=k), size, batches, keeps_gram=False).total for k in (1, 2)
    )
    return max(1, 1 + int((free - one) // (two - one)))


def _into_memory(work: DeviceWork, method: Gram, size: int, batches: int, asked: bool) -> Layout:
    free = int(SPARE * work.device.free_bytes)
    tried = size
    while True:
        for keeps_gram in (True, False):
            memory = memory_of(work, tried, batches, keeps_gram)
            if memory.total <= free:
                words = _words(work, tried, batches, memory, keeps_gram)
                return Layout(method, tried, 1, words, batches, keeps_gram)
        if asked or tried <= SMALLEST_BATCH:
            memory = memory_of(work, tried, batches, keeps_gram=False)
            raise ValueError(
                f"X must leave room on {work.device.name}: {work.problems} problems over"
                f" {work.n:,} rows need {_gib(memory.alpha)} for alpha and {_gib(memory.space)} of"
                f" work space beside the {_gib(work.device.x_bytes)} of X, and"
                f" {_gib(work.device.free_bytes)} are free: train fewer problems at once, or use"
                ' engine="cpu"'
            )
        tried = max(SMALLEST_BATCH, tried // 2)


def _words(work: DeviceWork, size: int, batches: int, memory: Memory, keeps_gram: bool) -> str:
    how = "the steps of a batch are serial steps, by its Gram matrix"
    if work.problems > 1:
        how += f", which {work.problems:,} problems share"
    at_once = (
        "one batch at a time fills the device"
        if batches == 1
        else f"{batches} batches at once, since one would leave most of the"
        f" {work.device.multiprocessors} multiprocessors of {work.device.name} idle"
    )
    exact = (
        "products in tf32, made more exact where the gap does not fall any more"
        if work.precision == "auto"
        else f"products in {work.precision}, as asked for"
    )
    gram = _gib(memory.gram) if keeps_gram else "computed anew in each round for want of room"
    return (
        f"{how}; {at_once}; {exact}; memory beside X ({_gib(work.device.x_bytes)}): alpha"
        f" {_gib(memory.alpha)}, Gram matrices {gram}, work space {_gib(memory.space)},"
        f" of {_gib(work.device.free_bytes)} free{_small_words(work)}"
    )


def _small_words(work: DeviceWork) -> str:
    if work.nonzeros >= SMALL_NONZEROS:
        return ""
    return (
        f'; so little data ({work.nonzeros:,} non-zeros) that engine="cpu" is likely to be faster'
    )


def _gib(size: int) -> str:
    if size >= 2**30:
        return f"{size / 2**30:.3g} GiB"
    return f"{size / 2**20:.3g} MiB"
