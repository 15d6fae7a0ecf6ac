"""Work that threads do ahead of a generator.

A generator that nobody finishes is ended by the garbage collector, which runs anywhere, also where
the threading module holds locks of its own.  To wait for a thread there can wait for ever, so
that nothing here waits when a generator ends.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
END: Any = object()


@contextmanager
def threads_ahead(count: int = 1) -> Iterator[ThreadPoolExecutor]:
    """Threads for a generator.  At its end, work that has not begun is not done, and the threads
    end by themselves."""
    threads = ThreadPoolExecutor(count, "batchsvm-ahead")
    try:
        yield threads
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def one_ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """The items, in their order; a thread makes the next one while the caller works on the last.
    The items are closed at the end, or when the one that is being made is there."""
    with threads_ahead() as thread:
        coming = thread.submit(next, items, END)
        try:
            while (item := coming.result()) is not END:
                coming = thread.submit(next, items, END)
                yield item
        finally:
            coming.add_done_callback(lambda _: items.close())
