"""Passes over all rows, in blocks of bounded size that the workers share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.core.certificate import (
    DUALS,
    LOSSES,
    MAGNITUDE,
    PULL,
    SENSITIVITY,
    SUPPORT_VECTORS,
)
from batchsvm.core.vectors import CHUNK
from batchsvm.engines.cpu.workers import Worker, WorkerPool

T = TypeVar("T")


def blocks_of(n: int, workers: int, max_rows: int) -> list[tuple[int, int]]:
    """n rows in blocks of bounded size, as (start, stop), as many for each worker."""
    count = min(-(-n // (max_rows * workers)) * workers, n)
    edges = [k * n // count for k in range(count + 1)]
    return list(pairwise(edges))


def over_blocks(
    blocks: list[tuple[int, int]], pool: WorkerPool, work: Callable[[int, int], T]
) -> list[T]:
    """work(start, stop) for each block, by the workers; the results in order."""
    results: list[Any] = [None] * len(blocks)

    def share(worker: Worker) -> None:
        for k in range(worker.rank, len(blocks), worker.workers):
            results[k] = work(*blocks[k])

    pool.run(share)
    return results


@Kernel
def example_facts(examples, loss, start, stop):
    """Over some examples: the sum of c_i phi(-o_i), the largest c_i, and the largest ||x_i||^2,
    infinite if one of them is NaN."""
    losses, weight, norm2 = 0.0, 0.0, 0.0
    for begin in range(start, stop, CHUNK):
        total = 0.0
        for i in range(begin, min(begin + CHUNK, stop)):
            c = abs(examples[i].signed_weight)
            total += c * loss.value(-examples[i].offset)
            weight = max(weight, c)
            norm2 = max(norm2, examples[i].norm2) if examples[i].norm2 < np.inf else np.inf
        losses += total
    return losses, weight, norm2


@Kernel
def point_sums(dual, rows, start, alpha, w, out, responses):
    """The sums over a block of rows that starts at `start`; alpha is that block's, and so are the
    responses that are returned."""
    examples, loss, lower, upper = dual.examples, dual.loss, dual.lower, dual.upper
    for begin in range(0, alpha.size, CHUNK):
        losses, duals, magnitude, sensitivity, pull, support = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(begin, min(begin + CHUNK, alpha.size)):
            i = start + k
            offset, length = examples[i].offset, np.sqrt(examples[i].norm2)
            weight = abs(examples[i].signed_weight)
            a = np.copysign(1.0, examples[i].signed_weight) * rows.dot(i, w) - offset
            responses[k] = a
            relative = min(max(alpha[k] / weight, lower), upper) if weight > 0.0 else 0.0
            value, linear = weight * loss.value(a), alpha[k] * offset
            conjugate = weight * loss.conjugate(relative)
            losses += value
            duals += linear - conjugate
            magnitude += value + abs(conjugate) + abs(linear)
            sensitivity += weight * abs(loss.subgradient(a)) * length
            pull += abs(alpha[k]) * length
            support += alpha[k] != 0.0
        out[LOSSES] += losses
        out[DUALS] += duals
        out[MAGNITUDE] += magnitude
        out[SENSITIVITY] += sensitivity
        out[PULL] += pull
        out[SUPPORT_VECTORS] += support
