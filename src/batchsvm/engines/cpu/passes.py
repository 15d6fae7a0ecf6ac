"""Passes over all rows, in blocks of bounded size that the workers share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.core.certificate import (
    ALPHAS,
    DUALS,
    LOSSES,
    MAGNITUDE,
    PULL,
    SLACK,
    SUPPORT_VECTORS,
)
from batchsvm.core.vectors import CHUNK, chunk_products
from batchsvm.engines.cpu.workers import Worker, WorkerPool

T = TypeVar("T")


# All workers together have at least so many blocks: neighbours are often of one length, and of text
# sorted by subject one half may have half as many entries again as the other.  Each block is a call
# from Python, which runs one thread at a time, so that there are not many more.
MIN_BLOCKS = 8


def blocks_of(n: int, workers: int, max_rows: int) -> list[tuple[int, int]]:
    """n rows in blocks of bounded size, as (start, stop), as many for each worker."""
    each = -(-n // (max_rows * workers))
    if workers > 1:  # an even number, dealt out there and back
        each = max(each, -(-MIN_BLOCKS // workers))
        each += each % 2
    count = min(each * workers, n)
    edges = [k * n // count for k in range(count + 1)]
    return list(pairwise(edges))


def blocks_for(worker: Worker, count: int) -> list[int]:
    """Which of so many blocks are a worker's: they are dealt out from the first worker to the last,
    then from the last one to the first, and so on."""
    size, rank = worker.workers, worker.rank
    places = [
        turn * size + (size - 1 - rank if turn % 2 else rank) for turn in range(-(-count // size))
    ]
    return [place for place in places if place < count]


def over_blocks(
    blocks: list[tuple[int, int]], pool: WorkerPool, work: Callable[[int, int], T]
) -> list[T]:
    """work(start, stop) for each block, by the workers; the results in order."""
    results: list[Any] = [None] * len(blocks)

    def share(worker: Worker) -> None:
        for k in blocks_for(worker, len(blocks)):
            results[k] = work(*blocks[k])

    pool.run(share)
    return results


@Kernel
def share_squares(worker, w, out):
    """The sums of squares of the chunks of w, which the workers share; all wait for them."""
    first, last = worker.portion(out.size)
    chunk_products(w, w, out, first, last)
    worker.wait()


@Kernel
def example_facts(examples, loss, start, stop):
    """Over some examples: the sum of c_i phi(-o_i), the largest c_i, and the largest ||x_i||^2,
    infinite if one of them is NaN."""
    losses, weight, norm2 = 0.0, 0.0, 0.0
    offset, value = np.nan, 0.0
    for begin in range(start, stop, CHUNK):
        total = 0.0
        for i in range(begin, min(begin + CHUNK, stop)):
            c = abs(examples[i].signed_weight)
            if examples[i].offset != offset:  # most rows have that of the row before
                offset = examples[i].offset
                value = loss.value(-offset)
            total += c * value
            weight = max(weight, c)
            norm2 = max(norm2, examples[i].norm2) if examples[i].norm2 < np.inf else np.inf
        losses += total
    return losses, weight, norm2


@Kernel
def point_sums(dual, rows, start, alpha, point, found):
    """The sums over a block of rows that starts at `start`, whose alpha this is."""
    out, responses, v = found.sums, found.responses, found.combination
    loss, lower, upper = dual.loss, dual.lower, dual.upper
    for begin in range(0, alpha.size, CHUNK):
        first, here = start + begin, alpha[begin : begin + CHUNK]
        examples, a = dual.examples[first : first + CHUNK], responses[begin : begin + CHUNK]
        losses, duals, slack, magnitude, pull, alphas, support = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(here.size):
            a[k] = dual.response(first + k, rows.dot_in_pass(first + k, point.w))
            if v.size > 0 and here[k] != 0.0:
                rows.add(first + k, np.copysign(1.0, examples[k].signed_weight) * here[k], v)
        for k in range(here.size):  # a loop of its own, which LLVM vectorises
            offset, length = examples[k].offset, np.sqrt(examples[k].norm2)
            weight, size = abs(examples[k].signed_weight), abs(here[k])
            # A convex function over [a - e, a + e] exceeds its value at a by at most e times its
            # steepest slope, which it has at an end.
            e = point.per_length * length + point.constant
            e += point.relative * (abs(a[k]) + abs(offset))
            slope = abs(loss.subgradient(a[k] - e))
            if lower < 0.0:  # else the loss nowhere rises, and is steepest at a - e
                slope = max(slope, abs(loss.subgradient(a[k] + e)))
            relative = min(max(here[k] / weight, lower), upper) if weight > 0.0 else 0.0
            linear, conjugate = here[k] * offset, weight * loss.conjugate(relative)
            losses += weight * loss.value(a[k])
            duals += linear - conjugate
            slack += weight * e * slope
            magnitude += abs(conjugate) + abs(linear)
            pull += size * length
            alphas += size
            support += here[k] != 0.0
        out[LOSSES] += losses
        out[DUALS] += duals
        out[SLACK] += slack
        out[MAGNITUDE] += magnitude
        out[PULL] += pull
        out[ALPHAS] += alphas
        out[SUPPORT_VECTORS] += support
