"""The rows x_i of the data as kernels see them: views of what the user passed, no copies.

`Dense` and `CSR`, either of them with a constant column (`Biased`), and all of these cut down
to some of their columns (`column_slices.py`) answer to the same methods, so that a kernel is
written once:

    dot(i, w)              <x_i, w>
    dot_in_pass(i, w)      the same in a pass over rows in the order of memory
    add(i, c, w)           w += c x_i
    add_norm2(i, c, v)     v += c x_i, and returns the change of ||v||^2
    flush(i, c, v, w)      on the support of x_i: w += c v, then v = 0
    add_absolute(i, c, v)  v += |c x_i|, and returns the sum of |c x_i|
    add_outer(i, c, H)     of sparse rows: H += c x_i x_i', each pair of columns once, and below the
                           diagonal where indices increase
    norm2(i)               ||x_i||^2
    span(i)                where the entries of x_i start and end
    prefetch_ahead(order, k)       the rows of `order` after place k will be visited soon
    prefetch_row(i, j)             row i will be visited soon, row j sooner
    prefetch_entries(start, stop)  of sparse rows: the entries from here to there will be read

Sums are kept in float64 whatever the type of the values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from batchsvm.compiled import Kernel, callable_in_kernels, struct_methods
from batchsvm.engines.cpu.entries import sparse_add_norm2, sparse_dot, sparse_dot_in_pass
from batchsvm.engines.cpu.indices import longest_row
from batchsvm.engines.cpu.prefetch import (
    LINE,
    MOST_LINES,
    ROWS_AHEAD,
    prefetch,
    prefetch_lines,
)


class Dense(NamedTuple):
    """Rows of a two-dimensional array, in any memory order."""

    values: np.ndarray

    @property
    def increasing(self) -> bool:
        return True

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    @property
    def nonzeros(self) -> int:
        return self.values.size

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    @property
    def longest(self) -> int:
        return self.values.shape[1]

    def span(self, i):
        return 0, self.values.shape[1]

    def dot(self, i, w):
        start, stop = self.span(i)
        total = 0.0
        for j in range(start, stop):
            total += self.values[i, j] * w[j]
        return total

    def dot_in_pass(self, i, w):
        return self.dot(i, w)

    def add(self, i, c, w):
        start, stop = self.span(i)
        for j in range(start, stop):
            w[j] += c * self.values[i, j]

    def add_norm2(self, i, c, v):
        start, stop = self.span(i)
        change = 0.0
        for j in range(start, stop):
            old = v[j]
            increment = c * self.values[i, j]
            v[j] = old + increment
            change += increment * (2.0 * old + increment)
        return change

    def flush(self, i, c, v, w):
        start, stop = self.span(i)
        for j in range(start, stop):
            w[j] += c * v[j]
            v[j] = 0.0

    def add_absolute(self, i, c, v):
        total = 0.0
        for j in range(v.size):
            v[j] += abs(c * self.values[i, j])
            total += abs(c * self.values[i, j])
        return total

    def norm2(self, i):
        total = 0.0
        for j in range(self.values.shape[1]):
            value = np.float64(self.values[i, j])
            total += value * value
        return total

    def prefetch_ahead(self, order, k):
        if k + 2 * ROWS_AHEAD < order.size:
            self.prefetch_row(order[k + 2 * ROWS_AHEAD], order[k + ROWS_AHEAD])

    def prefetch_row(self, i, j):
        prefetch(self.values, j)


class CSR(NamedTuple):
    """Rows of a compressed sparse matrix; no row has an index twice.

    The index arrays are seen as unsigned, which spares a test for negative indices at
    every non-zero.
    """

    values: np.ndarray
    indices: np.ndarray
    starts: np.ndarray
    columns: int
    increasing: bool = True  # whether the indices of each row increase

    @property
    def shape(self) -> tuple[int, int]:
        return self.starts.size - 1, self.columns

    @property
    def nonzeros(self) -> int:
        return self.values.size

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.indices.nbytes

    @property
    def longest(self) -> int:
        return longest_row(self.starts)

    def span(self, i):
        return self.starts[i], self.starts[i + 1]

    def dot(self, i, w):
        start, stop = self.span(i)
        return sparse_dot(self.values, self.indices, start, stop, w)

    def dot_in_pass(self, i, w):
        start, stop = self.span(i)
        return sparse_dot_in_pass(self.values, self.indices, start, stop, w)

    def add(self, i, c, w):
        start, stop = self.span(i)
        for k in range(start, stop):
            w[self.indices[k]] += c * self.values[k]

    def add_norm2(self, i, c, v):
        start, stop = self.span(i)
        return sparse_add_norm2(self.values, self.indices, start, stop, c, v)

    def flush(self, i, c, v, w):
        start, stop = self.span(i)
        for k in range(start, stop):
            w[self.indices[k]] += c * v[self.indices[k]]
            v[self.indices[k]] = 0.0

    def add_absolute(self, i, c, v):
        total = 0.0
        for k in range(self.starts[i], self.starts[i + 1]):
            v[self.indices[k]] += abs(c * self.values[k])
            total += abs(c * self.values[k])
        return total

    def add_outer(self, i, c, H):
        # Two rows of H at a time, which read x_i once: 0.6 of the time.
        start, stop = np.int64(self.starts[i]), np.int64(self.starts[i + 1])
        for j in range(start, stop - 1, 2):
            here, next_one = self.indices[j], self.indices[j + 1]
            scaled, scaled_next = c * self.values[j], c * self.values[j + 1]
            for k in range(start, j + 1):
                column, value = self.indices[k], self.values[k]
                H[here, column] += scaled * value
                H[next_one, column] += scaled_next * value
            H[next_one, next_one] += scaled_next * self.values[j + 1]
        if (stop - start) % 2 == 1:
            last, scaled = self.indices[stop - 1], c * self.values[stop - 1]
            for k in range(start, stop):
                H[last, self.indices[k]] += scaled * self.values[k]

    def norm2(self, i):
        total = 0.0
        for k in range(self.starts[i], self.starts[i + 1]):
            value = np.float64(self.values[k])
            total += value * value
        return total

    def prefetch_ahead(self, order, k):
        if k + 2 * ROWS_AHEAD < order.size:
            self.prefetch_row(order[k + 2 * ROWS_AHEAD], order[k + ROWS_AHEAD])

    def prefetch_row(self, i, j):
        prefetch(self.starts, i)
        start, stop = self.span(j)
        self.prefetch_entries(np.int64(start), np.int64(stop))

    def prefetch_entries(self, start, stop):
        end = min(stop, start + MOST_LINES * (LINE // self.values.itemsize))
        prefetch_lines(self.values, start, end)
        prefetch(self.values, end - 1)  # a row seldom begins with a cache line
        prefetch_lines(self.indices, start, end)
        prefetch(self.indices, end - 1)


class Biased(NamedTuple):
    """Rows with one more column, of a constant value, which is stored nowhere.

    Vectors that belong to columns have one more entry, the last, for the constant column.
    """

    base: Dense | CSR
    columns: int  # of the base
    constant: float

    @property
    def increasing(self) -> bool:
        return self.base.increasing

    @property
    def shape(self) -> tuple[int, int]:
        return self.base.shape[0], self.columns + 1

    @property
    def nonzeros(self) -> int:
        return self.base.nonzeros + self.base.shape[0]

    @property
    def nbytes(self) -> int:
        return self.base.nbytes

    @property
    def longest(self) -> int:
        return self.base.longest + 1

    def dot(self, i, w):
        return self.base.dot(i, w[: self.columns]) + self.constant * w[self.columns]

    def dot_in_pass(self, i, w):
        return self.base.dot_in_pass(i, w[: self.columns]) + self.constant * w[self.columns]

    def add(self, i, c, w):
        self.base.add(i, c, w[: self.columns])
        w[self.columns] += c * self.constant

    def add_norm2(self, i, c, v):
        change = self.base.add_norm2(i, c, v[: self.columns])
        old = v[self.columns]
        increment = c * self.constant
        v[self.columns] = old + increment
        return change + increment * (2.0 * old + increment)

    def flush(self, i, c, v, w):
        self.base.flush(i, c, v[: self.columns], w[: self.columns])
        w[self.columns] += c * v[self.columns]
        v[self.columns] = 0.0

    def add_absolute(self, i, c, v):
        v[self.columns] += abs(c * self.constant)
        return self.base.add_absolute(i, c, v[: self.columns]) + abs(c * self.constant)

    def add_outer(self, i, c, H):
        d = self.columns
        self.base.add_outer(i, c, H)  # type: ignore[union-attr]
        self.base.add(i, c * self.constant, H[d, :d])
        H[self.columns, self.columns] += c * self.constant * self.constant

    def norm2(self, i):
        return self.base.norm2(i) + self.constant * self.constant

    def prefetch_ahead(self, order, k):
        self.base.prefetch_ahead(order, k)

    def prefetch_row(self, i, j):
        self.base.prefetch_row(i, j)


Rows = Dense | CSR | Biased

struct_methods(
    CSR.dot, CSR.dot_in_pass, CSR.add, CSR.add_norm2, CSR.flush, CSR.add_absolute, CSR.add_outer,
    CSR.norm2, CSR.span, CSR.prefetch_ahead, CSR.prefetch_row, CSR.prefetch_entries,
)  # fmt: skip


def next_nonzero(coefficients, k):
    """The first place behind k whose coefficient is not 0, or the end."""
    k += 1
    while k < coefficients.size and coefficients[k] == 0.0:
        k += 1
    return k


callable_in_kernels(next_nonzero)


@Kernel
def some_norms2(rows, start, out):
    """||x_i||^2 of a block of rows; not finite where the row is not."""
    for k in range(out.size):
        out[k] = rows.norm2(start + k)


@Kernel
def products(rows, start, w, out):
    """out = X w, over a block of rows."""
    for k in range(out.size):
        out[k] = rows.dot_in_pass(start + k, w)


@Kernel
def add_rows(rows, start, coefficients, v):
    """v += X' coefficients, over a block of rows; rows of coefficient 0 are not read.

    The hardware foresees neither the rows that are passed over nor column slices.
    """
    here, near, far = -1, -1, -1
    for turn in range(coefficients.size + 2 * ROWS_AHEAD):
        far = next_nonzero(coefficients, far)
        if turn >= ROWS_AHEAD:
            near = next_nonzero(coefficients, near)
            if near < coefficients.size:
                rows.prefetch_row(start + min(far, coefficients.size - 1), start + near)
        if turn >= 2 * ROWS_AHEAD:
            here = next_nonzero(coefficients, here)
            if here >= coefficients.size:
                return
            rows.add(start + here, coefficients[here], v)


@Kernel
def gram_coefficients(rows, start, v, out, normalize):
    """<x_i, v>, over ||x_i||^2 to normalise, of a block of rows: X'X v is their combination."""
    for k in range(out.size):
        norm2 = rows.norm2(start + k) if normalize else 1.0
        out[k] = rows.dot_in_pass(start + k, v) / norm2 if norm2 > 0.0 else 0.0


@Kernel
def absolute_sums(rows, n, columns, normalize):
    """Add the column sums of |X~| to `columns`; returns the largest row sum of |X~|."""
    largest = 0.0
    for i in range(n):
        norm2 = rows.norm2(i) if normalize else 1.0
        if norm2 > 0.0:
            largest = max(largest, rows.add_absolute(i, 1.0 / np.sqrt(norm2), columns))
    return largest


@Kernel
def densify(rows, start, out):
    """Add rows start, start + 1, ... to the rows of a dense float64 array."""
    for k in range(out.shape[0]):
        rows.add(start + k, 1.0, out[k])


def unsigned(indices: np.ndarray) -> np.ndarray:
    """The same memory, seen as unsigned integers."""
    return indices.view(np.dtype(f"u{indices.itemsize}"))


def as_scipy(rows: CSR) -> scipy.sparse.csr_array:
    """The same rows as SciPy's sparse array; the values become float64."""
    signed = [part.view(np.dtype(f"i{part.itemsize}")) for part in (rows.indices, rows.starts)]
    return scipy.sparse.csr_array((rows.values.astype(np.float64), *signed), shape=rows.shape)


def some_rows(rows: Dense | CSR, order: np.ndarray) -> Dense | CSR:
    """A copy of the rows named by `order`, in the storage they came in."""
    if isinstance(rows, Dense):
        return Dense(np.ascontiguousarray(rows.values[order]))
    starts, stops = (rows.starts[k].astype(np.int64) for k in (order, order + 1))
    counts = stops - starts
    ends = np.cumsum(counts)
    inside = np.arange(ends[-1] if ends.size else 0) + np.repeat(starts - (ends - counts), counts)
    new_starts = np.concatenate([[0], ends]).astype(rows.starts.dtype)
    return CSR(rows.values[inside], rows.indices[inside], new_starts, rows.columns, rows.increasing)
