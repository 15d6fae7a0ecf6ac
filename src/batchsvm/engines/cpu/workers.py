"""Workers: threads that run one kernel together, and wait for each other within it.

All workers of a pool call the same kernel with the same arrays, each with a rank of its own, and
meet at `worker.wait()`: no worker goes on before all have come.  The barrier works in rounds,
as in Hensgen, Finkel and Manber (1988): in round r, worker k tells worker k + 2^r that it and
those it has heard of have come.  Each flag is written by one worker and read by one, and no
worker waits for more than log2 of the workers, so that a kernel can afford a barrier at every
batch.  A single worker never waits: the serial kernel is the same code.

Written by hand, because what libraries offer (Numba's `prange`, a pool of tasks) costs tens
of microseconds per launch, more than a batch takes.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from copy import copy
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from batchsvm.compiled import struct_methods

T = TypeVar("T")

# Reads of a flag before a waiting worker offers its core to others: some microseconds.
SPINS = 2000
LINE = 16  # integers: two cache lines, since they are fetched in pairs
_YIELD = "SwitchToThread" if platform.system() == "Windows" else "sched_yield"


@intrinsic
def publish(typing_context, flags, index, value):
    """flags[index] = value, after all that this thread has written before."""

    def code(context, builder, signature, args):
        pointer = _place(context, builder, signature, args)
        builder.store_atomic(args[2], pointer, "release", align=8)
        return context.get_dummy_value()

    return types.void(flags, types.int64, types.int64), code


@intrinsic
def published(typing_context, flags, index):
    """flags[index] as another thread has left it, and all that it had written before."""

    def code(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "acquire", align=8)

    return types.int64(flags, types.int64), code


def _place(context, builder, signature, args):
    data = make_array(signature.args[0])(context, builder, args[0]).data
    return builder.gep(data, [args[1]])


@intrinsic
def offer_core(typing_context):
    """Let another thread of the system have this core for a while."""

    def code(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, _YIELD), [])
        return context.get_dummy_value()

    return types.void(), code


class Worker(NamedTuple):
    """One of the workers that run a kernel."""

    rank: int
    workers: int  # how many there are
    flags: np.ndarray  # for each worker a line to count its waits in, and one for each round;
    # the last line says that a worker will not come any more

    def wait(self):
        """Go on when all workers have come here."""
        if self.workers == 1:
            return
        room = self.flags.size // self.workers // LINE * LINE
        home = self.rank * room
        turn = self.flags[home] + 1
        self.flags[home] = turn
        step, line = 1, LINE
        while step < self.workers:
            publish(self.flags, (self.rank + step) % self.workers * room + line, turn)
            spins = 0
            while published(self.flags, home + line) < turn:
                spins += 1
                if spins >= SPINS:
                    if published(self.flags, self.flags.size - 1):
                        return
                    offer_core()
            step, line = 2 * step, line + LINE

    def portion(self, total):
        """Which of so many things are this worker's: from where to where."""
        return self.rank * total // self.workers, (self.rank + 1) * total // self.workers


struct_methods(Worker.wait, Worker.portion)


def _flags(size: int) -> np.ndarray:
    """Zeros, with cache lines of their own."""
    lines = size * (1 + (size - 1).bit_length()) + 1
    return np.zeros((lines + 2) * LINE, np.int64)[LINE:-LINE]


ALONE = Worker(0, 1, _flags(1))


class WorkerPool:
    """As many workers as asked for; the calling thread is the first of them."""

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._others = ThreadPoolExecutor(size - 1, "batchsvm") if size > 1 else None
        self._lock = Lock()  # fits that share the pool must not wait for each other's workers

    def run(self, work: Callable[[Worker], T], size: int | None = None) -> list[T]:
        """Have each worker do this, and return what each returned."""
        size = self.size if size is None else min(size, self.size)
        if size == 1 or self._others is None:
            return [work(ALONE)]
        flags = _flags(size)

        def join(rank: int) -> T:
            try:
                return work(Worker(rank, size, flags))
            except BaseException:
                flags[-1] = 1  # nobody waits any more for a worker that does not come
                raise

        with self._lock:
            others = [self._others.submit(join, rank) for rank in range(1, size)]
            try:
                first = join(0)
            finally:
                wait_for(others)
        return [first, *(other.result() for other in others)]

    def limited_to(self, size: int) -> WorkerPool:
        """These workers as a pool of at most so many, which ends with this one."""
        view = copy(self)
        view.size = min(size, self.size)
        return view

    def close(self) -> None:
        if self._others is not None:
            self._others.shutdown()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
