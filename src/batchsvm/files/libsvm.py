"""LIBSVM text:  label index:value index:value ...  # comment

Written by hand, and compiled, because the readers there are go through Python objects for
each number: they take ten times as long, which on large files is longer than training.
Labels and values come out bit for bit as Python's float() reads them (see `decimals.py`);
what the compiled parser cannot decide it leaves to float() itself.

Blank lines and comments are skipped, `qid:` is accepted and ignored.  Indices must increase
along a line.  They count from 0 if an index 0 occurs in the file, and otherwise from 1, as
the format demands (`zero_based="auto"`).
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from batchsvm.compiled import Kernel
from batchsvm.files.ahead import threads_ahead
from batchsvm.files.decimals import EXACT, ends_token, is_space, parse_decimal
from batchsvm.files.errors import DataFileError, IndexBaseError
from batchsvm.files.joining import joined
from batchsvm.files.streams import Progress, blocks_of_lines

NUMBER = re.compile(
    rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE
)
LARGEST_INDEX = 10**18 - 1  # the parser reads 18 digits
_BAD_INDEX, _TOO_LOW, _TOO_HIGH, _NOT_INCREASING, _WIDE = 1, 2, 3, 4, 5
_ROWS, _ENTRIES, _LEFT, _ERROR, _WHERE, _LOWEST, _HIGHEST = range(7)


@Kernel
def _count(text):
    """Lines and colons: no fewer than there are rows and entries."""
    lines = 0
    colons = 0
    for k in range(text.size):
        lines += text[k] == 10
        colons += text[k] == 58
    return lines + 1, colons


@Kernel
def _parse(text, bounds, labels, indptr, entries, left, state):
    """Fill the arrays with the rows of `text`; labels and values are float64 as bits.

    `left` gets (slot, start, end) of each token that is left to Python; the slot of the
    label of row r is -1-r.  Stops at the first index that is wrong: bounds are those of indices.
    """
    (low, high), (indices, values) = bounds, entries
    stop = text.size
    p = 0
    row = 0
    entry = 0
    undecided = 0
    lowest = LARGEST_INDEX
    highest = -1
    indptr[0] = 0
    widest = np.iinfo(indices.dtype).max - 1
    while p < stop:
        while p < stop and is_space(text[p]):
            p += 1
        if p < stop and text[p] != 10 and text[p] != 35:
            start = p
            bits, p, verdict = parse_decimal(text, p, stop)
            if verdict != EXACT:
                while p < stop and not ends_token(text[p]):
                    p += 1
                left[undecided, 0] = -1 - row
                left[undecided, 1] = start
                left[undecided, 2] = p
                undecided += 1
            labels[row] = bits
            previous = -1
            while True:
                while p < stop and is_space(text[p]):
                    p += 1
                if p >= stop or text[p] == 10 or text[p] == 35:
                    break
                start = p
                index = np.int64(0)
                while p < stop and 48 <= text[p] <= 57 and p - start < 18:
                    index = 10 * index + (np.int64(text[p]) - 48)
                    p += 1
                if p == start or p >= stop or text[p] != 58:
                    ranked = (
                        p == start
                        and p + 3 < stop
                        and text[p] == 113
                        and text[p + 1] == 105
                        and text[p + 2] == 100
                        and text[p + 3] == 58
                    )
                    if ranked:
                        while p < stop and not ends_token(text[p]):
                            p += 1
                        continue
                    state[_ERROR], state[_WHERE] = _BAD_INDEX, start
                    break
                error = 0
                if index <= previous:
                    error = _NOT_INCREASING
                if index > widest:
                    error = _WIDE
                if index > high:
                    error = _TOO_HIGH
                if index < low:
                    error = _TOO_LOW
                if error:
                    state[_ERROR], state[_WHERE] = error, start
                    break
                previous = index
                lowest = min(lowest, index)
                p += 1
                start = p
                bits, p, verdict = parse_decimal(text, p, stop)
                if verdict != EXACT:
                    while p < stop and not ends_token(text[p]):
                        p += 1
                    left[undecided, 0] = entry
                    left[undecided, 1] = start
                    left[undecided, 2] = p
                    undecided += 1
                indices[entry] = index
                values[entry] = bits
                entry += 1
            if state[_ERROR]:
                break
            highest = max(highest, previous)
            row += 1
            indptr[row] = entry
        while p < stop and text[p] != 10:  # a comment
            p += 1
        p += 1
    state[_ROWS], state[_ENTRIES], state[_LEFT] = row, entry, undecided
    state[_LOWEST], state[_HIGHEST] = lowest, highest


class Part(NamedTuple):
    """The rows of one block."""

    labels: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    lowest: int
    highest: int
    lines: int


class _Malformed(Exception):
    """What is wrong, where in the block, and how many lines of the block come before."""

    def __init__(self, what: str, position: int, block: bytes) -> None:
        super().__init__(what)
        self.position = position
        self.lines_before = block.count(b"\n", 0, position)


class _OtherBase(_Malformed):
    """An index that would fit if indices counted from the other of 0 and 1."""


def _parse_block(block: bytes, low: int, high: int, width: type = np.int32) -> Part:
    text = np.frombuffer(block, dtype=np.uint8)
    rows, entries = _count(text)
    labels, values = np.empty(rows, dtype=np.uint64), np.empty(entries, dtype=np.uint64)
    indptr, indices = np.empty(rows + 1, dtype=np.int64), np.empty(entries, dtype=width)
    left = np.empty((rows + entries, 3), dtype=np.int64)  # untouched memory costs nothing
    state = np.zeros(7, dtype=np.int64)
    _parse(text, (low, high), labels, indptr, (indices, values), left, state)
    error, where = int(state[_ERROR]), int(state[_WHERE])
    labels, values = labels.view(np.float64), values.view(np.float64)
    for slot, start, end in left[: state[_LEFT]].tolist():
        token = block[start:end]
        if not NUMBER.fullmatch(token):
            what = "label" if slot < 0 else "value"
            raise _Malformed(f"the {what} must be a number, not {_shown(token)}", start, block)
        if slot < 0:
            labels[-1 - slot] = float(token)
        else:
            values[slot] = float(token)
    if error == _WIDE:
        return _parse_block(block, low, high, np.int64)
    if error:
        token = _token(block, where)
        shifted = error == _TOO_HIGH and low == 0 and int(token.partition(b":")[0]) == high + 1
        kind = _OtherBase if error == _TOO_LOW or shifted else _Malformed
        raise kind(_index_fault(error, token, low, high), where, block)
    n, m = int(state[_ROWS]), int(state[_ENTRIES])
    filled = labels[:n], indptr[: n + 1], indices[:m], values[:m]
    if n < rows // 2:  # blank lines and comments: the room for them is given back
        filled = tuple(array.copy() for array in filled)
    return Part(*filled, int(state[_LOWEST]), int(state[_HIGHEST]), rows - 1)


def _token(block: bytes, start: int) -> bytes:
    found = re.compile(rb"[^\s#]*").match(block, start)
    return found.group() if found else b""


def _shown(token: bytes) -> str:
    text = token.decode("utf-8", "replace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _index_fault(error: int, token: bytes, low: int, high: int) -> str:
    index, colon, _ = token.partition(b":")
    if error == _BAD_INDEX and (not colon or not index.isdigit()):
        return f"a feature must look like index:value, not {_shown(token)}"
    if error == _NOT_INCREASING:
        return f"indices must increase along a line, but {index.decode()} does not"
    if error == _TOO_LOW:
        return f"indices must count from {low}, not {index.decode()}"
    return f"the index must be at most {high}, not {index.decode()}"


def _parts(
    blocks: Iterable[bytes], low: int, high: int, jobs: int
) -> Generator[Future[Part], None, None]:
    """Parts in order, a few blocks ahead of who takes them."""
    with threads_ahead(jobs) as threads:
        waiting: deque[Future[Part]] = deque()
        for block in blocks:
            waiting.append(threads.submit(_parse_block, block, low, high))
            if len(waiting) > jobs:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()


def cores() -> int:
    """How many blocks are parsed at once."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(found or 1, 8)


def parsed(
    path: Path, blocks: Iterable[bytes], low: int, high: int, jobs: int
) -> Generator[Part, None, None]:
    """The rows of each block, in order; an error names the file and the line.

    Indices lie between `low` and `high`.  Whoever stops early closes the generator, which has
    threads.
    """
    lines = 0
    with closing(_parts(blocks, low, high, jobs)) as futures:
        for future in futures:
            try:
                part = future.result()
            except _Malformed as fault:
                error = IndexBaseError if isinstance(fault, _OtherBase) else DataFileError
                raise error(path, str(fault), lines + fault.lines_before + 1) from None
            lines += part.lines
            yield part


def read_libsvm(
    path: str | os.PathLike[str],
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    dtype: type = np.float64,
    progress: Progress | None = None,
) -> tuple[sp.csr_array, np.ndarray]:
    """X and y of a file of LIBSVM text, plain or .gz, .bz2, .xz.

    Parameters
    ----------
    path : path
    n_features : int, optional
        Columns of X; the largest index if missing.
    zero_based : bool or "auto"
        Whether indices count from 0.
    dtype : float64 or float32
        Type of X; y is float64.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "two.svm"
    >>> _ = path.write_text("+1 1:0.5 3:2  # a comment\\n-1 2:2.5e-1\\n")
    >>> X, y = read_libsvm(path)
    >>> X.toarray()
    array([[0.5 , 0.  , 2.  ],
           [0.  , 0.25, 0.  ]])
    >>> y
    array([ 1., -1.])
    >>> folder.cleanup()
    """
    X, y, _ = read_with_base(path, n_features, zero_based, dtype, progress)
    return X, y


def read_with_base(
    path: str | os.PathLike[str],
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    dtype: type = np.float64,
    progress: Progress | None = None,
) -> tuple[sp.csr_array, np.ndarray, bool]:
    """As `read_libsvm`, and whether indices were taken to count from 0."""
    path = Path(path)
    if zero_based not in ("auto", True, False):
        raise ValueError(f"zero_based must be True, False or 'auto', not {zero_based!r}")
    if n_features is not None and not (isinstance(n_features, int) and n_features > 0):
        raise ValueError(f"n_features must be a positive integer or None, not {n_features!r}")
    low = 1 if zero_based is False else 0
    high = LARGEST_INDEX if n_features is None else n_features - (zero_based is True)
    # Closed here and now: threads that the garbage collector joins, whenever it comes by, can
    # deadlock with the start of others.
    with closing(parsed(path, blocks_of_lines(path, progress), low, high, cores())) as blocks:
        parts = list(blocks)
    if not parts or not sum(part.labels.size for part in parts):
        raise DataFileError(path, "holds no rows")
    return _assemble(path, parts, n_features, zero_based, dtype)


def _assemble(
    path: Path,
    parts: list[Part],
    n_features: int | None,
    zero_based: bool | str,
    dtype: type,
) -> tuple[sp.csr_array, np.ndarray, bool]:
    base = 0 if zero_based is True or min(part.lowest for part in parts) == 0 else 1
    columns = max(part.highest for part in parts) + 1 - base
    if n_features is not None and columns > n_features:
        raise DataFileError(
            path,
            f"has an index {n_features} and an index 0, so that indices count from 0 and there"
            f" are {columns} columns, not n_features = {n_features}",
        )
    d = max(columns, 1) if n_features is None else n_features
    entries = sum(part.indices.size for part in parts)
    index = np.int32 if max(d, entries) < 2**31 else np.int64
    one = len(parts) == 1
    indices = parts[0].indices if one else joined([part.indices for part in parts])
    values = parts[0].values if one else joined([part.values for part in parts])
    if base:
        indices -= 1
    starts = np.cumsum([0] + [part.indices.size for part in parts])
    indptr = np.concatenate(
        [[0]] + [part.indptr[1:] + s for part, s in zip(parts, starts, strict=False)]
    )
    labels = np.concatenate([part.labels for part in parts])
    matrix = sp.csr_array(
        (values.astype(dtype, copy=False), indices.astype(index, copy=False), indptr.astype(index)),
        shape=(labels.size, d),
    )
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix, labels, base == 0
