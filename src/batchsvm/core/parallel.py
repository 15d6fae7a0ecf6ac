"""Several fits side by side, in threads that Ctrl-C or an error in one of them ends together.

Python raises KeyboardInterrupt in the main thread alone.  A `StopFlag` tells the fits in other
threads: each looks at it after bounded work, and gives back its best certified point.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any


class StopFlag:
    """Set once, by any thread, to end the fits that look at it."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        self.is_set = True


def in_parallel(call: Callable[[int], Any], count: int, jobs: int, stop: StopFlag) -> list[Any]:
    """call(0), call(1), ..., in so many threads: kernels do not hold Python's lock.

    An error in one of them, or Ctrl-C, sets the stop flag and ends all: those not begun are left
    out, those under way come to their end, and then the error is raised.
    """
    if min(count, jobs) == 1:
        return [call(k) for k in range(count)]

    def run(k: int) -> Any:
        if stop.is_set:
            raise KeyboardInterrupt
        try:
            return call(k)
        except BaseException:
            stop.set()  # before this thread takes the next call
            raise

    with ThreadPoolExecutor(min(count, jobs)) as threads:
        calls = [threads.submit(run, k) for k in range(count)]
        try:
            wait(calls, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            stop.set()
            threads.shutdown(wait=True, cancel_futures=True)
            raise
    return _results(calls)


def _results(calls: list[Future[Any]]) -> list[Any]:
    """The results, or the first error that is not the interruption that followed it."""
    errors = [error for call in calls if (error := call.exception()) is not None]
    for error in errors:
        if not isinstance(error, KeyboardInterrupt):
            raise error
    if errors:
        raise errors[0]
    return [call.result() for call in calls]
