"""Threads that run one kernel together, and wait for each other within it.

A team's workers call the same kernel with the same arrays, each with a rank of its own, and
meet at `team.wait()`: no worker goes on before all have come.  Waiting costs about 0.1
microseconds a worker while nobody else wants the cores, so that a kernel can afford it at
every batch.  A team of one never waits: the serial kernel is the same code.

Written by hand, because what libraries offer (Numba's `prange`, a pool of tasks) costs tens
of microseconds a launch, more than a batch takes.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from batchsvm.compiled import struct_method

T = TypeVar("T")

# Looks at the counter before a waiting worker offers its core to others: some microseconds.
SPINS = 2000
FREE = 2**62  # a counter that has come so far lets everybody pass
_YIELD = "SwitchToThread" if platform.system() == "Windows" else "sched_yield"
_HAS_PAUSE = False


@intrinsic
def arrive(typing_context, counter):
    """Add one to counter[0] for all threads to see; returns what it was."""

    def code(context, builder, signature, args):
        data = make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return types.int64(counter), code


@intrinsic
def arrived(typing_context, counter):
    """counter[0] as other threads have left it."""

    def code(context, builder, signature, args):
        data = make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "acquire", align=8)

    return types.int64(counter), code


@intrinsic
def pause(typing_context):
    """Tell the core that this is a waiting loop, where it has a word for that."""

    def code(context, builder, signature, args):
        if _HAS_PAUSE:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(
                cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), []
            )
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def offer_core(typing_context):
    """Let another thread of the system have this core for a while."""

    def code(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, _YIELD), [])
        return context.get_dummy_value()

    return types.void(), code


@struct_method
def wait(self): ...


@struct_method
def portion(self, count): ...


class Team(NamedTuple):
    """One worker's view of the team."""

    rank: int
    size: int
    counter: np.ndarray  # how often a worker has come to `wait`, one integer for all

    def wait(self):
        """Go on when all workers have come here."""
        if self.size > 1:
            goal = (arrive(self.counter) // self.size + 1) * self.size
            spins, come = 0, arrived(self.counter)
            while come < goal and come < FREE:
                spins += 1
                come = arrived(self.counter)
                if spins < SPINS:
                    pause()
                else:
                    offer_core()

    def portion(self, count):
        """Which of so many things are this worker's: from where to where."""
        return self.rank * count // self.size, (self.rank + 1) * count // self.size


def _counter() -> np.ndarray:
    """A counter with cache lines of its own: nothing that is only read may lie next to it."""
    return np.zeros(64, np.int64)[32:33]


ALONE = Team(0, 1, _counter())


class Threads:
    """As many threads as asked for; the calling one is the first of them."""

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._others = ThreadPoolExecutor(size - 1, "batchsvm") if size > 1 else None

    def together(self, work: Callable[[Team], T], size: int | None = None) -> list[T]:
        """Have each worker of a team do this, and return what each returned."""
        size = self.size if size is None else min(size, self.size)
        if size == 1 or self._others is None:
            return [work(ALONE)]
        counter = _counter()
        others = [self._others.submit(work, Team(k, size, counter)) for k in range(1, size)]
        try:
            return [work(Team(0, size, counter)), *(other.result() for other in others)]
        except BaseException:
            counter[0] = FREE  # nobody waits any more for who does not come
            for other in others:
                other.exception()
            raise

    def close(self) -> None:
        if self._others is not None:
            self._others.shutdown()

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
