"""Parts read from the disk one after another, the next one while this one is worked on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing, suppress
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import numpy as np

from batchsvm.core.loop import DataLostError
from batchsvm.core.warning import warn_user
from batchsvm.engines.cpu.rows import CSR, Dense
from batchsvm.engines.streamed.cache import TemporaryFolder
from batchsvm.engines.streamed.errors import DamagedPartError, naming
from batchsvm.engines.streamed.packed import Buffer, LoadedPart, Packed, load
from batchsvm.engines.streamed.packing import Cutting, fingerprints, pack_again
from batchsvm.engines.streamed.row_access import read_some_rows
from batchsvm.files.ahead import threads_ahead
from batchsvm.files.errors import SourceChangedError
from batchsvm.files.source import Source


class Origin(NamedTuple):
    """What parts were made of, for the case that one has to be made anew."""

    source: Source
    cutting: Cutting
    fingerprints: list[list[str]]


class PartReader:
    """Reads packed parts; what it finds damaged it makes anew.

    Attributes
    ----------
    reads : int
        Parts whose entries have been read so far.
    """

    def __init__(self, packed: Packed, origin: Origin) -> None:
        self.packed, self.origin = packed, origin
        self.reads = 0
        self._size = max(packed.loaded_bytes(p) for p in range(len(packed.parts)))
        self._buffers: list[Buffer] = []
        self._visitors = 0
        self._coming: Future[LoadedPart] | None = None  # the part that is being read ahead
        self._seen: dict[tuple[int, bool], tuple[tuple[int, int, int], ...]] = {}
        self._lock = RLock()  # the garbage collector may end a visit in the midst of another

    def visit(self, order: Sequence[int], rows: bool = True) -> Iterator[tuple[int, LoadedPart]]:
        """The parts in this order; each is valid until the next one is asked for.

        Without `rows`, all but their entries is read.
        """
        if not rows:
            for p in order:
                yield p, self._load(p, Buffer(self.packed.loaded_bytes(p)), rows=False)
            return
        with self._lock:
            self._visitors += 1
            alone = self._visitors == 1
        try:
            yield from self._ahead(order) if alone else self._one_by_one(order)
        finally:
            with self._lock:
                self._visitors -= 1

    def _one_by_one(self, order: Sequence[int]) -> Iterator[tuple[int, LoadedPart]]:
        """In the midst of another visit, whose two buffers are in use: with one, and without
        reading ahead."""
        buffer = self._take()
        try:
            for p in order:
                yield p, self._load(p, buffer, True)
        finally:
            self._give_back(buffer)

    def _ahead(self, order: Sequence[int]) -> Iterator[tuple[int, LoadedPart]]:
        filled, filling = self._take(), self._take()
        with threads_ahead() as ahead:
            try:
                for j, p in enumerate(order):
                    if j == 0:
                        self._coming = ahead.submit(self._load, p, filling, True)
                    assert self._coming is not None
                    loaded, self._coming = self._coming.result(), None
                    filled, filling = filling, filled
                    if j + 1 < len(order):
                        self._coming = ahead.submit(self._load, order[j + 1], filling, True)
                    yield p, loaded
            finally:
                self._give_back(filled)
                coming = self._coming
                if coming is None or coming.cancel():
                    self._coming = None
                    self._give_back(filling)
                else:  # when the part is there
                    coming.add_done_callback(lambda _: self._give_back(filling))

    def some_rows(self, p: int, rows: np.ndarray) -> Dense | CSR:
        """A copy of some rows of a part, in this order; the others are not read."""
        try:
            return read_some_rows(self.packed, p, rows)
        except DamagedPartError as error:
            self._make_anew(p, error)
            return read_some_rows(self.packed, p, rows)

    def close(self) -> None:
        """Wait for a part that is being read, since the caller may remove its file now."""
        coming, self._coming = self._coming, None
        if coming is not None:
            with suppress(CancelledError):
                coming.exception()  # of a part that nobody asks for any more
        self._buffers = []

    def _take(self) -> Buffer:
        with self._lock:
            if self._buffers:
                return self._buffers.pop()
        return Buffer(self._size)

    def _give_back(self, *buffers: Buffer) -> None:
        with self._lock:
            self._buffers += buffers

    def _load(self, p: int, buffer: Buffer, rows: bool) -> LoadedPart:
        try:
            return self._verified(p, buffer, rows)
        except DamagedPartError as error:
            self._make_anew(p, error)
        try:
            return self._verified(p, buffer, rows)
        except DamagedPartError as error:
            raise DataLostError(f"{error}, after it was made anew") from None

    def _verified(self, p: int, buffer: Buffer, rows: bool) -> LoadedPart:
        """Checksums are compared when a part is read first, and when its files have changed."""
        state = self._state(p)
        verify = self._seen.get((p, rows)) != state
        loaded = load(self.packed, p, buffer, rows, verify)
        self._seen[p, rows] = state
        with self._lock:
            self.reads += rows
        return loaded

    def _state(self, p: int) -> tuple[tuple[int, int, int], ...]:
        found = []
        for name in self.packed.types():
            try:
                info = os.stat(self.packed.path(p, name))
            except OSError:
                return ()
            found.append((info.st_ino, info.st_size, info.st_mtime_ns))
        return tuple(found)

    def _make_anew(self, p: int, error: DamagedPartError) -> None:
        packed, (source, cutting, known) = self.packed, self.origin
        facts = packed.parts[p]
        try:
            if fingerprints(source) != known:
                raise SourceChangedError(
                    _changed(source, known), "it has changed since it was read"
                )
            with closing(TemporaryFolder(packed.folder, ".anew-")) as scratch:
                again = pack_again(source, scratch.path, cutting, facts.number)
                if again != facts:
                    raise SourceChangedError(source.name, "it has changed since it was read")
                with naming(packed.folder):
                    self._replace(p, scratch.path)
        except Exception as other:
            raise DataLostError(f"{error}, and it cannot be made anew: {other}") from None
        warn_user(f"{error}; the part was made anew from {source.name}", RuntimeWarning)

    def _replace(self, p: int, folder: Path) -> None:
        for name in self.packed.types():
            path = self.packed.path(p, name)
            os.replace(folder / path.name, path)


def _changed(source: Source, known: list[list[str]]) -> str:
    """The name of the first part that is not what it was."""
    now = fingerprints(source)
    for before, after in zip(known, now, strict=False):
        if before != after:
            return after[0]
    return source.name
