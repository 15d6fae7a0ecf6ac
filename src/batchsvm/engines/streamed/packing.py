"""The first pass over a source: its rows are parsed, checked, and dealt out to packed parts.

Source files are often sorted, by class or by date, and training on parts needs fewer reads if
each of them is like the whole.  So rows are dealt out to some tens of parts at random, each
window of rows evenly.  When parts are full, as many new ones are begun.  Which part a row goes
to depends on the seed, on the number of the row and on the groups of chunks that are dealt out
together, so that one part can be made anew.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchsvm.core.tuning import Tuning
from batchsvm.engines.cpu.row_slices import slice_rows
from batchsvm.engines.cpu.rows import CSR, Dense, some_rows
from batchsvm.engines.cpu.source_chunks import (
    IN_MEMORY,
    CheckedChunks,
    CheckedRows,
    stacked_chunks,
)
from batchsvm.engines.streamed.errors import naming
from batchsvm.engines.streamed.packed import ORDER, Packed, PartFacts, part_path, raw_bytes
from batchsvm.files.source import Chunk, Part, Source

WINDOW_ROWS_PER_PART = 64  # are dealt out to each part at a time
SEED = 20260101

# Is told the number of rows and the bytes that have been packed so far.
Watch = Callable[[int, int], None]


class Cutting(NamedTuple):
    """How parts are cut."""

    part_bytes: int
    chunk_bytes: int
    dealt_bytes: int  # that are dealt out at a time: of one chunk, each part gets little
    tuning: Tuning


@dataclass
class _Open:
    """A part that is being written."""

    rows: int = 0
    nonzeros: int = 0
    longest_row: int = 0
    size: int = 0
    checksums: dict[str, int] | None = None


def pack(source: Source, folder: Path, cutting: Cutting, watch: Watch | None = None) -> Packed:
    """All rows of a source as packed parts in a folder; its manifest is not written yet."""
    return _Packing(source, folder, cutting, None, watch).run()


def pack_again(source: Source, folder: Path, cutting: Cutting, number: int) -> PartFacts:
    """The part of this number anew, in a folder of its own."""
    found = _Packing(source, folder, cutting, number, None).run().parts
    return next(part for part in found if part.number == number)


def fingerprints(source: Source) -> list[list[str]]:
    """What tells whether a source is still the one that was read."""
    return [[part.name, part.fingerprint()] for part in source.parts]


class _Packing:
    def __init__(
        self,
        source: Source,
        folder: Path,
        cutting: Cutting,
        only: int | None,
        watch: Watch | None,
    ) -> None:
        self.source, self.folder, self.cutting = source, folder, cutting
        self.only, self.watch = only, watch  # `only` one part is written, or all
        self.chunks = CheckedChunks(source, cutting.chunk_bytes, cutting.tuning)
        self.parts = list[_Open]()
        self.done = self.size = 0
        self.norm2 = 0.0

    def run(self) -> Packed:
        groups = self._groups()
        first = [next(groups), *islice(groups, 1)]
        self._begin(first[0].norms2.size if len(first) == 1 else None)
        while first:  # of a large source, groups are not held
            self._deal(first.pop(0))
        for group in groups:
            self._deal(group)
        seen = self.chunks
        return Packed(
            self.folder, seen.columns, seen.kind is Dense, seen.dtype, bool(seen.weighted),
            seen.labels.found(), self.norm2,
            tuple(
                PartFacts(j, part.rows, part.nonzeros, part.longest_row, part.checksums or {})
                for j, part in enumerate(self.parts)
                if part.rows
            ),
        )  # fmt: skip

    # Dealing.

    def _groups(self) -> Iterator[CheckedRows]:
        """The chunks, some of them together."""
        held, size = [], 0
        for chunk in self.chunks:
            held.append(chunk)
            size += chunk.rows.nbytes + 32 * chunk.norms2.size
            if size >= self.cutting.dealt_bytes:
                group, held, size = stacked_chunks(held), [], 0  # the chunks are not held any more
                yield group
                del group
        if held:
            yield stacked_chunks(held)

    def _begin(self, rows: int | None) -> None:
        """As many parts as the tuning says, or fewer if these are all rows."""
        tuning = self.cutting.tuning
        count, self.window = tuning.streamed_parts, WINDOW_ROWS_PER_PART
        if rows is not None:
            count = max(1, min(count, rows // tuning.min_part_rows))
            self.window = -(-rows // count)
        self.count, self.first = count, 0
        self.parts = [_Open() for _ in range(count)]

    def _deal(self, chunk: CheckedRows) -> None:
        if max(part.size for part in self.parts[self.first :]) >= self.cutting.part_bytes:
            self.first = len(self.parts)
            self.parts += [_Open() for _ in range(self.count)]
        count = chunk.norms2.size
        to = self._part_of(self.done, self.done + count)
        order = np.argsort(to, kind="stable")
        edges = np.searchsorted(to[order], np.arange(self.count + 1))
        dealt = some_rows(chunk.rows, order)
        for j in range(self.count):
            start, stop = int(edges[j]), int(edges[j + 1])
            if start == stop:
                continue
            number, own = self.first + j, slice_rows(dealt, start, stop)
            self.parts[number].rows += stop - start
            self.parts[number].size += own.nbytes + 32 * (stop - start)
            if self.only in (None, number):
                self._write(number, own, chunk, order[start:stop])
        self.done += count
        self.norm2 += float(chunk.norms2.sum())
        self.size += dealt.nbytes
        if self.watch is not None:
            self.watch(self.done, self.size)

    def _part_of(self, start: int, stop: int) -> np.ndarray:
        """Which of the open parts each row goes to."""
        size = self.count * self.window
        windows = range(start // size, -(-stop // size))
        dealt = [
            np.random.default_rng((SEED, window)).permutation(size) % self.count
            for window in windows
        ]
        whole = np.concatenate(dealt)
        return whole[start - windows[0] * size : stop - windows[0] * size]

    def _write(self, j: int, rows: Dense | CSR, chunk: CheckedRows, which: np.ndarray) -> None:
        part = self.parts[j]
        arrays: dict[str, Any] = {"values": np.ascontiguousarray(rows.values).ravel()}
        if isinstance(rows, CSR):
            lengths = np.diff(rows.starts.astype(np.int64))
            arrays |= {"indices": rows.indices.astype("<i4"), "lengths": lengths.astype("<i4")}
        arrays |= {"norms2": chunk.norms2[which], ORDER: (self.done + which).astype("<i8")}
        arrays |= {"y": None if chunk.y is None else chunk.y[which]}
        arrays |= {"weights": None if chunk.weights is None else chunk.weights[which]}
        checksums = part.checksums or {}
        with naming(self.folder):
            for name, array in arrays.items():
                if array is None:
                    continue
                content = raw_bytes(np.ascontiguousarray(array))
                path = part_path(self.folder, j, name)
                with open(path, "ab" if part.checksums else "wb") as sink:
                    sink.write(content)
                checksums[name] = zlib.crc32(content, checksums.get(name, 0))
        part.checksums = checksums
        part.nonzeros += rows.nonzeros
        part.longest_row = max(part.longest_row, rows.longest)


class _MatrixPart:
    """X in memory, as the one part of a source."""

    name = IN_MEMORY

    def __init__(self, X: Any) -> None:
        self.X = X

    def fingerprint(self) -> str:
        return ""

    def chunks(self, max_bytes: int) -> Iterator[Chunk]:
        X, n = self.X, self.X.shape[0]
        size = X.data.nbytes + X.indices.nbytes if hasattr(X, "indptr") else X.nbytes
        step = max(1, int(n * max_bytes / max(size, 1)))
        for start in range(0, n, step):
            yield Chunk(X[start : start + step], None, None)


class MatrixSource:
    """X in memory as a source."""

    name = IN_MEMORY

    def __init__(self, X: Any) -> None:
        self.parts = [_MatrixPart(X)]

    def one_pass(self, max_bytes: int) -> Iterator[tuple[Part, Iterator[Chunk]]]:
        for part in self.parts:
            yield part, part.chunks(max_bytes)
