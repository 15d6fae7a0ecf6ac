"""The kernel of serial SDCA: one row after another, by one thread.

What `dual.py` does for a batch of one, without what only batches and teams need, which takes
an eighth (long rows) to a third (short ones) of the time.
"""

from __future__ import annotations

from batchsvm.compiled import Kernel
from batchsvm.methods.watch import GAP, SEEN, STAYED, VIOLATION
from batchsvm.prefetch import ROWS_AHEAD, prefetch


@Kernel
def sdca_serial(dual, rows, w, sampler, watch, averaging, iterations, target):
    """Returns the iterations done, and whether that was because a look at all rows is due."""
    examples, order = dual.examples, sampler.order
    start, visited = sampler.position[0], sampler.visited[0]
    seen, gap = watch.sums[0, SEEN], watch.sums[0, GAP]
    violation, stayed = watch.sums[0, VIOLATION], watch.sums[0, STAYED]
    for done in range(iterations):
        if sampler.is_spent(start):
            sampler.shuffle()
            start = 0
        averaging.observe(1.0)
        averaging.observe_primal(1.0, w)
        i = order[start]
        rows.expect(order, start)
        prefetch(examples, order[min(start + ROWS_AHEAD, order.size - 1)])
        a, slack = dual.response(i, rows.dot(i, w)), watch.slack(seen, violation)
        alpha, q = examples[i].alpha, dual.curvature(i, 1.0)
        new = dual.loss.dual_step(alpha, a, q)
        change = new - alpha
        seen += 1.0
        gap += dual.gap_of(i, a)
        violation += abs(change) * q
        if change != 0.0:
            examples[i].alpha = new
            averaging.note(i, change)
            rows.add(i, dual.unit * examples[i].signed_weight * change, w)
        if watch.skips:
            keeps = change != 0.0 or not dual.stays(i, a, 1.0, slack)
            sampler.roster.keep[i] = keeps
            stayed += keeps
        start += 1
        visited += 1
        if sampler.epoch_is_over(start, visited):
            watch.save(0, seen, gap, violation, stayed)
            seen, gap, violation, stayed = 0.0, 0.0, 0.0, 0.0
            start, visited = order.size, 0
            averaging.fade()
            if watch.judge(target, 0):
                sampler.position[0], sampler.visited[0] = start, visited
                return done + 1, True
    watch.save(0, seen, gap, violation, stayed)
    sampler.position[0], sampler.visited[0] = start, visited
    return iterations, False
