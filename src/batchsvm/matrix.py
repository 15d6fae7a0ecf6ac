"""The data and the threads that pass over it: products with all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from math import sqrt
from typing import Any, TypeVar

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.parts import Part, split
from batchsvm.rows import Rows, add_rows, products, some_norms2
from batchsvm.team import Team, Threads

T = TypeVar("T")

SMALL = 2**22  # non-zeros: a pass over fewer is nearly over when another thread has begun
THIN = 4096  # columns: so few that each worker can have a vector of them
BLOCK = 32768  # rows handled at a time, at most, by passes that need room for each row
CHUNK = 64  # terms that are summed up one after another; then these sums pairwise


@Kernel
def _chunk_products(u, v, out):
    for k in range(out.size):
        total = 0.0
        for j in range(k * CHUNK, min((k + 1) * CHUNK, u.size)):
            total += u[j] * v[j]
        out[k] = total


def inner(u: np.ndarray, v: np.ndarray) -> float:
    """<u, v>, without BLAS: its threads go on spinning afterwards, on cores that ours need."""
    sums = np.empty(-(-u.size // CHUNK))
    _chunk_products(u, v, sums)
    return float(sums.sum())


def norm(v: np.ndarray) -> float:
    """||v||, without BLAS."""
    return sqrt(inner(v, v))


def passing(threads: Threads, nonzeros: int) -> Threads:
    """Those of the threads that pass over so many non-zeros."""
    return threads if nonzeros >= SMALL else Threads()


def blocks_of(n: int, threads: Threads) -> list[tuple[int, int]]:
    """n rows in blocks of bounded size, as (start, stop), as many for each thread."""
    count = min(-(-n // (BLOCK * threads.size)) * threads.size, n)
    edges = [k * n // count for k in range(count + 1)]
    return list(pairwise(edges))


def over_blocks(n: int, threads: Threads, work: Callable[[int, int], T]) -> list[T]:
    """work(start, stop) for each block, in the threads; the results in order."""
    blocks = blocks_of(n, threads)
    results: list[Any] = [None] * len(blocks)

    def share(team: Team) -> None:
        for k in range(team.rank, len(blocks), team.size):
            results[k] = work(*blocks[k])

    threads.together(share)
    return results


class Matrix:
    """X as its rows, shared out among threads: by rows to read w, by columns to write it."""

    def __init__(self, rows: Rows, threads: Threads | None = None) -> None:
        self.rows = rows
        self.threads = threads or Threads()
        # Those that pass over all rows; kernels may be run by all of them.
        self.passing = passing(self.threads, rows.nonzeros)
        self.n, self.d = rows.shape
        self.is_large = rows.nonzeros >= SMALL

    @cached_property
    def parts(self) -> list[Part]:
        """The rows in a part for each thread that passes, or whole if they cannot be cut."""
        return split(self.rows, self.passing, self.passing.size if self.rows.increasing else 1)

    def blocks(self) -> list[tuple[int, int]]:
        """The rows in blocks of bounded size, as (start, stop), as many for each thread."""
        return blocks_of(self.n, self.passing)

    def over_blocks(self, work: Callable[[int, int], T]) -> list[T]:
        """work(start, stop) for each block, in the threads; the results in order."""
        return over_blocks(self.n, self.passing, work)

    def norms2(self) -> np.ndarray:
        """||x_i||^2 of every row; not finite where the row is not."""
        out = np.empty(self.n)
        self.over_blocks(lambda start, stop: some_norms2(self.rows, start, out[start:stop]))
        return out

    def times(self, w: np.ndarray) -> np.ndarray:
        """X w."""
        out = np.empty(self.n)
        self.over_blocks(lambda start, stop: products(self.rows, start, w, out[start:stop]))
        return out

    def combination(self, coefficients: Callable[[int, int], np.ndarray]) -> np.ndarray:
        """sum_i c_i x_i; `coefficients(start, stop)` gives a block of c."""
        if self.d <= THIN:  # each worker its rows, to a vector of its own
            return np.sum(self.passing.together(lambda team: self._sum(team, coefficients)), axis=0)
        v = np.zeros(self.d)
        if len(self.parts) == 1:
            for start, stop in self.blocks():
                add_rows(self.rows, start, coefficients(start, stop), v)
            return v
        c = np.empty(self.n)

        def fill(start: int, stop: int) -> None:
            c[start:stop] = coefficients(start, stop)

        self.over_blocks(fill)  # by rows; then each worker to its columns
        self.passing.together(lambda team: add_rows(self.parts[team.rank], 0, c, v))
        return v

    def _sum(self, team: Team, coefficients: Callable[[int, int], np.ndarray]) -> np.ndarray:
        v = np.zeros(self.d)
        for start, stop in self.blocks()[team.rank :: team.size]:
            add_rows(self.rows, start, coefficients(start, stop), v)
        return v

    def compile(self) -> None:
        """Have what `combination` needs compiled."""
        rows = self.rows if self.d <= THIN else self.parts[0]
        add_rows(rows, 0, np.empty(0), np.empty(self.d))
