"""Kernels of first and second derivatives, for Newton's method."""

from __future__ import annotations

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.core.vectors import CHUNK
from batchsvm.engines.cpu.rows import next_nonzero

BLOCK = 32  # rows and columns of a matrix that is mirrored
ROWS_AT_ONCE = 8  # whose products are added together, so that the matrix is read more seldom


@Kernel
def gradient_sums(dual, rows, start, w, responses, slopes, v):
    """Over a block of rows: fills the responses and c_i phi'(a_i) s_i, and returns
    sum_i c_i phi(a_i); adds sum_i c_i phi'(a_i) s_i x_i to v, unless v is empty.  An empty w is 0.

    The formulas of the loss have a loop of their own over slices, which LLVM vectorises.
    """
    losses = 0.0
    for begin in range(0, responses.size, CHUNK):
        first = start + begin
        a, found = responses[begin : begin + CHUNK], slopes[begin : begin + CHUNK]
        examples = dual.examples[first : first + CHUNK]
        for k in range(a.size):
            product = rows.dot_in_pass(first + k, w) if w.size > 0 else 0.0
            a[k] = dual.response(first + k, product)
        for k in range(a.size):
            weight = examples[k].signed_weight
            losses += abs(weight) * dual.loss.value(a[k])
            found[k] = weight * dual.loss.subgradient(a[k])
        if v.size > 0:
            for k in range(a.size):
                if found[k] != 0.0:
                    rows.add(first + k, found[k], v)
    return losses


@Kernel
def add_outer_products(rows, start, coefficients, total):
    """total += sum_i c_i x_i x_i' over a block of sparse rows, each pair of columns once.

    The hardware does not foresee which rows are passed over.
    """
    k = next_nonzero(coefficients, -1)
    while k < coefficients.size:
        following = next_nonzero(coefficients, k)
        if following > k + 1 and following < coefficients.size:
            rows.prefetch_row(start + following, start + following)
        rows.add_outer(start + k, coefficients[k], total)
        k = following


@Kernel
def add_absolute_rows(rows, coefficients, total):
    """total += sum_i c_i |x_i|, over the rows with a c_i that is not 0."""
    for i in range(coefficients.size):
        if coefficients[i] != 0.0:
            rows.add_absolute(i, coefficients[i], total)


@Kernel
def add_dense_products(rows, start, coefficients, room, total):
    """total += sum_i c_i x_i x_i' over a block of rows, below and on the diagonal; room is of
    zeros, and is left so.  No c_i is negative; rows with a c_i of 0 take no time."""
    taken = 0
    for k in range(coefficients.size):
        if coefficients[k] != 0.0:
            rows.add(start + k, np.sqrt(coefficients[k]), room[taken])
            taken += 1
        if taken == ROWS_AT_ONCE or (taken > 0 and k == coefficients.size - 1):
            for i in range(total.shape[0]):
                a, b, c, d = room[0, i], room[1, i], room[2, i], room[3, i]
                e, f, g, h = room[4, i], room[5, i], room[6, i], room[7, i]
                for j in range(i + 1):
                    total[i, j] += (
                        a * room[0, j] + b * room[1, j] + c * room[2, j] + d * room[3, j]
                        + e * room[4, j] + f * room[5, j] + g * room[6, j] + h * room[7, j]
                    )  # fmt: skip
            for row in range(ROWS_AT_ONCE):
                for j in range(room.shape[1]):
                    room[row, j] = 0.0
            taken = 0


@Kernel
def mirror_lower_half(matrix):
    """Copy what is below the diagonal to above it, in blocks that stay in the cache."""
    n = matrix.shape[0]
    for top in range(0, n, BLOCK):
        for left in range(0, top + 1, BLOCK):
            for i in range(top, min(top + BLOCK, n)):
                for j in range(left, min(left + BLOCK, i)):
                    matrix[j, i] = matrix[i, j]
