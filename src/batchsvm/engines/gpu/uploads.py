"""Arrays of this host to a device, by way of pinned memory, which the device reads by itself.

Small arrays, such as a few numbers per problem, go through one buffer that is used again and again:
what CuPy does to keep track of its own buffers takes longer than the copy.  Large arrays go in
blocks, which threads copy into pinned memory while the device reads those that are there: a device
reads faster than one thread copies.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

SMALL_BYTES = 2**17  # up to here, an array goes through the buffer
BUFFER_BYTES = 2**20
ALIGNMENT = 256
# From here on, an array goes in blocks.  To hand two of 5 MB over to threads and back took 1.0 ms,
# and CuPy 0.8.
LARGE_BYTES = 2**24
BLOCK_BYTES = 2**23
BLOCKS_UNDER_WAY, COPYING_THREADS = 16, 8


class SmallUploads:
    """Copies of small arrays, in the order of one stream."""

    def __init__(self, cupy: Any, stream: Any) -> None:
        import cupyx

        self._xp, self._stream = cupy, stream
        self._buffer = cupyx.empty_pinned(BUFFER_BYTES, np.uint8)
        self._address = self._buffer.ctypes.data
        self._used = 0

    def upload(self, array: np.ndarray) -> Any:
        """A contiguous array of at most SMALL_BYTES on the device."""
        if self._used + array.nbytes > BUFFER_BYTES:
            self._stream.synchronize()  # until the device has read all of the buffer
            self._used = 0
        begin, size = self._used, array.nbytes
        self._used += -(-size // ALIGNMENT) * ALIGNMENT
        self._buffer[begin : begin + size] = array.reshape(-1).view(np.uint8)
        out = self._xp.empty(array.shape, array.dtype)
        if size:
            out.data.copy_from_host_async(self._address + begin, size, self._stream)
        return out


@lru_cache
def _copying_threads() -> ThreadPoolExecutor:
    """They stay until the process ends: to start them takes longer than to copy a small array."""
    return ThreadPoolExecutor(min(COPYING_THREADS, os.cpu_count() or 1), "batchsvm-upload")


class _Block(NamedTuple):
    """A part of an array, as bytes on this host, and where it goes."""

    here: np.ndarray
    there: Any


def upload_in_blocks(xp: Any, stream: Any, arrays: Sequence[np.ndarray]) -> list[Any]:
    """Large arrays on the device; the blocks of all of them go one after another."""
    found: list[Any] = []
    blocks: list[_Block] = []
    for array in arrays:
        found.append(xp.empty(array.shape, array.dtype))
        here, there = array.reshape(-1).view(np.uint8), found[-1].reshape(-1).view(np.uint8)
        starts = range(0, array.nbytes, BLOCK_BYTES)
        parts = (slice(start, start + BLOCK_BYTES) for start in starts)
        blocks.extend(_Block(here[part], there[part]) for part in parts)
    _copy_blocks(xp, stream, blocks)
    return found


def _copy_blocks(xp: Any, stream: Any, blocks: list[_Block]) -> None:
    import cupyx

    count = min(len(blocks), BLOCKS_UNDER_WAY)
    largest = max(block.here.size for block in blocks)
    pinned = [cupyx.empty_pinned(largest, np.uint8) for _ in range(count)]
    read = [xp.cuda.Event(disable_timing=True) for _ in range(count)]

    def copied(number: int) -> np.ndarray:
        """A block in pinned memory."""
        here, which = blocks[number].here, number % count
        read[which].synchronize()  # which waits for nothing the first time
        part = pinned[which][: here.size]
        np.copyto(part, here)
        return part

    threads = _copying_threads()
    ahead = [threads.submit(copied, number) for number in range(count)]
    for number, block in enumerate(blocks):
        block.there.set(ahead[number % count].result(), stream)
        read[number % count].record(stream)
        if number + count < len(blocks):
            ahead[number % count] = threads.submit(copied, number + count)
    stream.synchronize()  # before the pinned memory is given back
