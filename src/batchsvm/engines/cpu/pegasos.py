"""The kernel of Pegasos; workers share an iteration as in `batches.py`."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.losses import Loss


class PrimalProblem(NamedTuple):
    """The primal problem as a kernel sees it; entry i of `examples` belongs to row i."""

    examples: np.ndarray
    loss: Loss
    lam: float
    share: float  # n/(N b)
    radius: float


@Kernel
def pegasos(primal, batch_worker, v, counts, visits, at, iterations):
    """Algorithm 1 from iteration t + 1 on, where at = (t, shrink); returns shrink.

    A projected run has one worker alone.
    """
    worker, rows, batch = batch_worker.worker, batch_worker.rows, batch_worker.batch
    sampler, averaging, (t, shrink) = visits.sampler, visits.averaging, at
    examples, loss, lam = primal.examples, primal.loss, primal.lam
    share, radius = primal.share, primal.radius
    b, order, me = sampler.batch_size, sampler.order, worker.rank
    first, last = worker.portion(examples.size)
    start = sampler.position[0]
    projects = radius < inf
    norm2 = 0.0
    if projects:
        for j in range(v.size):
            norm2 += v[j] * v[j]
    for _ in range(iterations):
        scale = shrink / (lam * max(t, 1))
        start = sampler.renew(worker, start)
        if me == 0:
            averaging.observe(scale)
        if projects:
            averaging.observe_primal(scale, v)
        batch.multiply(worker, rows, examples, order, start, v)
        worker.wait()
        count = 0
        for k in range(b):
            i = order[start + k]
            if not first <= i < last:
                continue
            sign = np.copysign(1.0, examples[i].signed_weight)
            chi = -loss.subgradient(sign * scale * batch.product(k) - examples[i].offset)
            if chi != 0.0:
                if projects:
                    counts[i] += chi
                else:
                    examples[i].alpha += chi
                    averaging.note(i, chi)
                batch.rows[me, count] = i
                batch.coefficients[me, count] = share * examples[i].signed_weight * chi
                count += 1
        batch.counts[me, 0] = count
        worker.wait()
        for other in range(worker.workers):
            for k in range(batch.counts[other, 0]):
                i, c = batch.rows[other, k], batch.coefficients[other, k]
                if projects:
                    norm2 += rows.add_norm2(i, c / shrink, v)
                else:
                    rows.add(i, c, v)
        t += 1
        start += b
        if projects and shrink * np.sqrt(norm2) > radius * lam * t:
            shrink = radius * lam * t / np.sqrt(norm2)
            if shrink < 1e-100:  # before it underflows
                for j in range(v.size):
                    v[j] *= shrink
                norm2 *= shrink * shrink
                shrink = 1.0
    if me == 0:
        sampler.position[0] = start
    return shrink
