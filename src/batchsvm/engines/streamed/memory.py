"""What `max_memory` is spent on.

The budget is for what grows with the data.  Python, NumPy, SciPy, Numba and the code that Numba
compiles take their own memory beside it, at most `CONSTANT_BYTES`.

    three buffers of a part      the part at work, the one that is read ahead, and one for a
                                 certificate that is asked for in the midst of a pass
    rows of the part at work     records, order of visits, alpha: `BYTES_PER_ROW` each
    vectors of d numbers         `VECTORS` of them for each problem
    alpha of all rows            three times (now, at the beginning of the pass, the best), on the
                                 disk if that is too much
    rows that stay in memory     what is left, up to a share

The first pass spends it on chunks of the source and on their copies.
"""

from __future__ import annotations

import os
import re
from numbers import Integral
from typing import Any, NamedTuple

from batchsvm.core import checks

CONSTANT_BYTES = 2**28
BYTES_PER_ROW = 128
VECTORS = 10
ALPHAS = 3
BUFFERS = 3
PART_SHARE = 0.2  # of the budget for one buffer
ALPHA_SHARE = 0.1
RESIDENT_SHARE = 0.25
CHUNK_SHARE = 1 / 16  # a chunk is copied some times while it is parsed and dealt out
DEALT_SHARE = 1 / 8  # of chunks that are dealt out together, which copies them twice
MIN_CHUNK_BYTES, MAX_CHUNK_BYTES = 2**16, 2**26
DEFAULT_SHARE = 0.25  # of the memory of this machine
UNKNOWN_MEMORY = 2**32

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", start=1)}
WORDS = 'a number of bytes or words such as "600MB" or "2 GB"'


def read_memory(max_memory: Any) -> int:
    """`max_memory` in bytes; None is a share of the memory of this machine.

    >>> read_memory("600MB"), read_memory("1.5 GiB"), read_memory(4096)
    (600000000, 1610612736, 4096)
    """
    if max_memory is None:
        return int(DEFAULT_SHARE * _memory_of_machine())
    if isinstance(max_memory, Integral) and not isinstance(max_memory, bool):
        found = float(int(max_memory))
    else:
        found = _from_words(max_memory)
    if not 1 <= found < 2**63:
        raise ValueError(f"max_memory must be {WORDS}, not {checks.shown(max_memory)}")
    return int(found)


def _from_words(words: Any) -> float:
    if not isinstance(words, str):
        return -1.0
    match = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([KMGT]?I?)B?\s*", words.upper())
    if match is None or match[2] not in UNITS:
        return -1.0
    return float(match[1]) * UNITS[match[2]]


def _memory_of_machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return UNKNOWN_MEMORY


def in_words(size: float) -> str:
    """A number of bytes, rounded up.

    >>> in_words(1_234_567), in_words(999)
    ('1.3 MB', '1 KB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= scale or unit == "KB":
            return f"{-(-size * 10 // scale) / 10:g} {unit}"
    raise AssertionError


class Spending(NamedTuple):
    """How the budget of one fit is divided."""

    parts: int  # bytes: three buffers, and records of the rows of one part
    vectors: int
    alphas: int  # in memory: 0 if they are on the disk
    resident: int  # for rows that stay in memory

    @property
    def total(self) -> int:
        return sum(self)


class Size(NamedTuple):
    """What decides over memory."""

    rows: int
    columns: int
    largest_part: int  # bytes
    longest_part: int  # rows


def part_bytes(budget: int) -> int:
    """The size at which a packed part is full."""
    return max(1, int(PART_SHARE * budget))


def chunk_bytes(budget: int) -> int:
    """The size of the chunks that a source is asked for."""
    return int(min(max(CHUNK_SHARE * budget, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES))


def dealt_bytes(budget: int) -> int:
    """How many bytes of rows are dealt out to parts at a time."""
    return int(DEALT_SHARE * budget)


def spend(budget: int, size: Size, problems: int) -> Spending:
    """Divide the budget; refused if the least that is needed is more."""
    parts = BUFFERS * size.largest_part + BYTES_PER_ROW * size.longest_part
    vectors = VECTORS * 8 * size.columns * problems
    alphas = ALPHAS * 8 * size.rows * problems
    if alphas > ALPHA_SHARE * budget:
        alphas = 0
    least = parts + vectors + alphas
    if least > budget:
        raise ValueError(
            f"max_memory must be at least {in_words(least)} for {problems} problems over"
            f" {size.columns:,} columns ({in_words(vectors)}) and parts of up to"
            f" {in_words(size.largest_part)}, not {in_words(budget)}"
        )
    return Spending(parts, vectors, alphas, int(min(budget - least, RESIDENT_SHARE * budget)))
