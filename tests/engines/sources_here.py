"""Sources in memory that count how often they are read, and can change."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from mmap import mmap

import numpy as np
import scipy.sparse as sp

from batchsvm.core.problem import make_problem
from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines import streamed
from batchsvm.files.source import Chunk
from batchsvm.losses import LOSSES

LAM = 0.01


class PartHere:
    def __init__(self, name, X, y=None, weights=None):
        self.name, self.X, self.y, self.weights = name, X, y, weights
        self.version, self.times_read = 0, 0

    def fingerprint(self):
        return f"{self.X.shape} {self.version}"

    def chunks(self, max_bytes):
        self.times_read += 1
        n = self.X.shape[0]
        size = self.X.data.nbytes * (2 if sp.issparse(self.X) else 1)
        step = max(1, int(n * max_bytes / size))
        for start in range(0, n, step):
            stop = start + step
            own = (None if a is None else a[start:stop] for a in (self.y, self.weights))
            yield Chunk(self.X[start:stop], *own)


class SourceHere:
    name = "the source"

    def __init__(self, parts):
        self.parts = parts

    def one_pass(self, max_bytes):
        for part in self.parts:
            yield part, part.chunks(max_bytes)

    @property
    def times_read(self):
        return [part.times_read for part in self.parts]


def source_of(X, y=None, weights=None, parts=3):
    """X in parts of different sizes."""
    edges = [0, *(int(X.shape[0] * j**1.5 / parts**1.5) for j in range(1, parts + 1))]
    return SourceHere(
        [
            PartHere(
                f"chunk {j}",
                X[a:b],
                None if y is None else y[a:b],
                None if weights is None else weights[a:b],
            )
            for j, (a, b) in enumerate(pairwise(edges))
        ]
    )


def rows_like_text(n=1200, d=300, seed=0, dtype=np.float32):
    """Sparse rows of norm 1 and a noisy rule, sorted by label as files often are."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.05, format="csr", rng=rng, dtype=np.float64)
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.csr_array(sp.diags_array(1 / np.maximum(norms, 1e-9)) @ X)
    score = X @ rng.normal(size=d)
    y = np.where(score + 0.3 * score.std() * rng.normal(size=n) > 0, 1.0, -1.0)
    order = np.argsort(y, kind="stable")
    X = sp.csr_array(X[order].astype(dtype))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y[order]


def placed(X, parts=6, max_memory="4MB", jobs=1, **options):
    """A source, or X, in about so many parts."""
    tuning = replace(DEFAULT_TUNING, streamed_parts=parts, min_part_rows=1)
    return streamed.place(X, jobs, tuning, max_memory=max_memory, **options)


def is_mapped(array):
    """Whether an array lies in a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap)


def own_problem(data, loss="hinge", lam=LAM):
    """The problem of the labels that the source brings."""
    return make_problem(data.targets(), LOSSES[loss](), lam)
