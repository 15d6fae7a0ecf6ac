"""Several fits side by side, in threads that Ctrl-C ends as it ends a single fit.

Python raises KeyboardInterrupt in the main thread alone.  Fits in other threads would go on to
their end, so that it is raised in them too: a fit under way then gives back its best certified
point, wherever it runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Lock, get_ident
from typing import Any


class _UnderWay:
    """Which threads are within a call, and how to interrupt them."""

    def __init__(self) -> None:
        self._threads: set[int] = set()
        self._over = False
        self._lock = Lock()

    def run(self, call: Callable[[int], Any], k: int) -> Any:
        with self._lock:
            if self._over:
                raise KeyboardInterrupt
            self._threads.add(get_ident())
        try:
            return call(k)
        except BaseException:
            self._over = True  # before this thread takes the next call
            raise
        finally:
            with self._lock:
                self._threads.discard(get_ident())
                _raise_in(get_ident(), None)  # what comes too late for this call is for no other

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in each call under way, and in those that begin later."""
        with self._lock:
            self._over = True
            for thread in self._threads:
                _raise_in(thread, KeyboardInterrupt)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raise this in a thread as soon as it runs Python; None takes back what has not come yet."""
    raised = ctypes.py_object() if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def in_parallel(call: Callable[[int], Any], count: int, jobs: int) -> list[Any]:
    """call(0), call(1), ..., in so many threads: kernels hold no lock.

    An error in one of them, or Ctrl-C, ends all: those not begun are left out, those under way
    get a KeyboardInterrupt, and when they have ended the error is raised.
    """
    if min(count, jobs) == 1:
        return [call(k) for k in range(count)]
    under_way = _UnderWay()
    with ThreadPoolExecutor(min(count, jobs)) as threads:
        calls = [threads.submit(under_way.run, call, k) for k in range(count)]
        try:
            for done in as_completed(calls):
                done.result()
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            under_way.interrupt()
            raise
    return [done.result() for done in calls]
