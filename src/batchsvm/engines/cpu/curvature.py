"""Kernels of first and second derivatives, for Newton's method."""

from __future__ import annotations

import numpy as np

from batchsvm.compiled import Kernel

ROWS_AT_ONCE = 8  # whose products are added together, so that the matrix is read more seldom


@Kernel
def gradient_sums(dual, rows, start, w, responses, slopes, v):
    """Over a block of rows: returns sum_i c_i phi(a_i) and fills the responses; adds
    sum_i c_i phi'(a_i) s_i x_i to v, or fills the coefficients of that sum into `slopes` where v is
    empty."""
    losses = 0.0
    for k in range(responses.size):
        i = start + k
        a = dual.response(i, rows.dot_in_pass(i, w))
        responses[k] = a
        losses += dual.weight_of(i) * dual.loss.value(a)
        slope = dual.examples[i].signed_weight * dual.loss.subgradient(a)
        if v.size == 0:
            slopes[k] = slope
        elif slope != 0.0:
            rows.add(i, slope, v)
    return losses


@Kernel
def add_outer_products(rows, start, coefficients, total):
    """total += sum_i c_i x_i x_i' over a block of sparse rows, each pair of columns once."""
    for k in range(coefficients.size):
        if coefficients[k] != 0.0:
            rows.add_outer(start + k, coefficients[k], total)


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
