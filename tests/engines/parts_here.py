"""A data set in parts whose parts are all here: what `engines/parts.py` is tested with."""

from __future__ import annotations

import numpy as np

from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines import cpu
from batchsvm.engines.part_handles import Cut, PerPart, local_rows
from batchsvm.engines.parts import PartsDataset


class PartsHere(PartsDataset):
    engine = "here"
    sliceable = True

    def __init__(self, X, places, visits=None):
        self.cut = Cut(X.shape[0], places)
        self.parts = [cpu.place(X[place]) for place in places]
        self.d = X.shape[1]
        self.nonzeros = sum(part.nonzeros for part in self.parts)
        self.mean_norm2 = sum(part.mean_norm2 * part.n for part in self.parts) / self.n
        self.jobs, self.tuning, self.memo = 1, DEFAULT_TUNING, {}
        self.visits = [] if visits is None else visits
        self.X = X

    def _each(self, work, *arguments, rows=True):
        self.require_open()
        self.visits.append((work.__name__, rows))
        return [
            work(part, *(a[p] if isinstance(a, PerPart) else a for a in arguments))
            for p, part in enumerate(self.parts)
        ]

    def _keep(self, work, *arguments, rows=True):
        return PerPart(self._each(work, *arguments, rows=rows))

    def subset(self, rows):
        found = [local_rows(place, rows)[0] for place in self.cut.places]
        return PartsHere(self.X[rows], [here for here in found if here.size])


def three_ways(n):
    """Cuts of n rows: in slices, at random, and with a part of one row."""
    order = np.random.default_rng(3).permutation(n)
    at_random = [np.sort(rows) for rows in np.array_split(order, 5)]
    return [
        [slice(0, n // 3), slice(n // 3, n // 2), slice(n // 2, n)],
        at_random,
        [np.array([7]), np.delete(np.arange(n), 7)],
    ]
