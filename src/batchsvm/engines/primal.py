"""The kernel of Pegasos; workers share an iteration as in `dual.py`."""

from __future__ import annotations

from math import inf

import numpy as np

from batchsvm.compiled import Kernel


@Kernel
def pegasos(
    team, rows, examples, loss, v, counts, batch, sampler, averaging, lam, share, radius, shrink,
    t, iterations,
):  # fmt: skip
    """Algorithm 1 from iteration t + 1 on; share = n/(N b).

    A projected run has one worker alone.
    """
    b, order, me = sampler.batch_size, sampler.order, team.rank
    first, last = team.portion(examples.size)
    start = sampler.position[0]
    projects = radius < inf
    norm2 = 0.0
    if projects:
        for j in range(v.size):
            norm2 += v[j] * v[j]
    for _ in range(iterations):
        scale = shrink / (lam * max(t, 1))
        start = sampler.renew(team, start)
        if me == 0:
            averaging.observe(scale)
        if projects:
            averaging.observe_primal(scale, v)
        batch.multiply(team, rows, examples, order, start, v)
        team.wait()
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
        team.wait()
        for worker in range(team.size):
            for k in range(batch.counts[worker, 0]):
                i, c = batch.rows[worker, k], batch.coefficients[worker, k]
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
