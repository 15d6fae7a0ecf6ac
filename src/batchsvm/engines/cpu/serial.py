"""The kernel of serial SDCA: one row after another, by one thread.

What `batches.py` does for a batch of one, without what only batches and several workers need,
which takes an eighth (long rows) to a third (short ones) of the time.
"""

from __future__ import annotations

from batchsvm.compiled import Kernel
from batchsvm.engines.cpu.prefetch import ROWS_AHEAD, prefetch
from batchsvm.engines.screening import GAP, KEPT, SEEN, VIOLATION


@Kernel
def sdca_serial(dual, rows, w, visits, budget):
    """Returns the iterations done, and whether that was because a full pass is due."""
    sampler, screening, averaging = visits.sampler, visits.screening, visits.averaging
    examples, order = dual.examples, sampler.order
    start, visited = sampler.position[0], sampler.visited[0]
    seen, gap = screening.sums[0, SEEN], screening.sums[0, GAP]
    violation, kept = screening.sums[0, VIOLATION], screening.sums[0, KEPT]
    every = screening.visits_per_term(sampler.n)
    for done in range(budget.iterations):
        if sampler.is_spent(start):
            sampler.shuffle()
            start = 0
        averaging.observe(1.0)
        averaging.observe_primal(1.0, w)
        i = order[start]
        rows.prefetch_ahead(order, start)
        prefetch(examples, order[min(start + ROWS_AHEAD, order.size - 1)])
        a, slack = dual.response(i, rows.dot(i, w)), screening.slack(seen, violation)
        alpha, q = examples[i].alpha, dual.curvature(i, 1.0)
        new = dual.loss.dual_step(alpha, a, q)
        change = new - alpha
        seen += 1.0
        if visited % every == 0:
            gap += every * dual.gap_of(i, a)
        violation += abs(change) * q
        if change != 0.0:
            examples[i].alpha = new
            averaging.note(i, change)
            rows.add(i, dual.unit * examples[i].signed_weight * change, w)
        if screening.skips:
            keeps = change != 0.0 or not dual.stays(i, a, 1.0, slack)
            sampler.visits.keep[i] = keeps
            kept += keeps
        start += 1
        visited += 1
        if sampler.epoch_is_over(start, visited):
            screening.store(0, seen, gap, violation, kept)
            seen, gap, violation, kept = 0.0, 0.0, 0.0, 0.0
            start, visited = order.size, 0
            averaging.fade()
            if screening.end_epoch(budget.target, 0):
                sampler.position[0], sampler.visited[0] = start, visited
                return done + 1, True
    screening.store(0, seen, gap, violation, kept)
    sampler.position[0], sampler.visited[0] = start, visited
    return budget.iterations, False
