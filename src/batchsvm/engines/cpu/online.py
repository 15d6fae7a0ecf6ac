"""Online Pegasos, on a stream of rows: the population objective of Section 6 of the paper.

Minimises  E[c phi(a)] + lam/2 ||w||^2  over the distribution that the rows come from.  The
population is infinite and drawn from with replacement: each row of a stream is one such draw,
is used once, and forgotten.  A batch of b of them speeds Pegasos up by b/beta_b with
beta_b = 1 + (b - 1) sigma^2.  There is no dual point and no certificate, since nobody can
evaluate the objective.

What is kept is v with w_t = v_t / (lam t) after t batches, which only ever adds rows, and
u = sum_j j (what batch j added), which gives the average of all w's with weights 1, 2, ..., t:

    sum_j j w_j / sum_j j = 2 ((t + 1) v - u) / (lam t (t + 1)).

It is this average that predicts: its error falls as 1/t (Lacoste-Julien, Schmidt, Bach: A
simpler approach to obtaining an O(1/t) convergence rate, 2012), the last w's does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.core.spectral import Sigma2, SpectralQuery, beta_b, measure_sigma2
from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines.cpu.dataset import place
from batchsvm.engines.cpu.read import read_rows
from batchsvm.engines.cpu.rows import Biased, Rows
from batchsvm.engines.cpu.workers import WorkerPool
from batchsvm.losses import Loss

SIGMA2_ROWS = 512  # of the first chunk, to measure sigma^2


class Chunk(NamedTuple):
    """Rows of the stream, and the order to take them in."""

    rows: Rows
    order: np.ndarray
    signs: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray


@Kernel
def pegasos_stream(chunk, loss, v, u, chi, at):
    """Take the rows of the chunk in batches, where at = (lam, batches so far, batch size); returns
    the number of batches so far."""
    rows, order, signs = chunk.rows, chunk.order, chunk.signs
    weights, offsets, (lam, t, b) = chunk.weights, chunk.offsets, at
    for start in range(0, order.size, b):
        stop = min(start + b, order.size)
        scale = 1.0 / (lam * max(t, 1))
        t += 1
        for k in range(start, stop):
            i = order[k]
            rows.prefetch_ahead(order, k)
            chi[k - start] = -loss.subgradient(signs[i] * scale * rows.dot(i, v) - offsets[i])
        for k in range(start, stop):
            i = order[k]
            c = weights[i] * signs[i] * chi[k - start] / (stop - start)
            if c != 0.0:
                rows.add(i, c, v)
                rows.add(i, c * t, u)
    return t


class StreamProblem(NamedTuple):
    """What is trained on a stream."""

    loss: Loss
    lam: float
    bias: float | None  # the value of a constant column
    models: int
    batch_size: int | str


@dataclass
class Stream:
    """Where Pegasos stands on a stream; one row of `v` and `u` for each linear model.

    Attributes
    ----------
    loss, lam, bias, batch_size
        What is trained; `bias` is the value of a constant column, or None.
    batches, rows : int
        How many were seen.
    sigma2 : Sigma2
        Measured on the first rows: the second moment of the rows scaled to unit norm.
    """

    loss: Loss
    lam: float
    bias: float | None
    batch_size: int
    sigma2: Sigma2
    v: np.ndarray = field(repr=False)
    u: np.ndarray = field(repr=False)
    batches: int = 0
    rows: int = 0

    @property
    def beta_b(self) -> float:
        """1 + (b - 1) sigma^2: what a batch costs in step length."""
        return beta_b(self.batch_size, inf, self.sigma2)  # type: ignore[arg-type]

    @property
    def speedup(self) -> float:
        """How many serial steps a batch is worth."""
        return self.batch_size / self.beta_b

    @property
    def w(self) -> np.ndarray:
        """The averages, one row for each model; the last column belongs to the bias."""
        t = self.batches
        if t == 0:
            return np.zeros_like(self.v)
        return ((t + 1) * self.v - self.u) * (2.0 / (self.lam * t * (t + 1)))

    def take(
        self, X: Any, targets: np.ndarray, weights: np.ndarray, rng: np.random.Generator
    ) -> None:
        """Learn from a chunk; `targets` has a row for each model, of -1 and +1 or of numbers.

        The order within the chunk is shuffled: a stream that comes sorted is no sample.
        """
        rows: Rows = read_rows(X, WorkerPool(), DEFAULT_TUNING)
        n, d = rows.shape
        if self.bias is not None:
            rows = Biased(rows, d, self.bias)  # type: ignore[arg-type]
        order = rng.permutation(n)
        classifies = self.loss.task == "classification"
        batches = self.batches
        for k in range(self.v.shape[0]):
            target = np.ascontiguousarray(targets[k], dtype=np.float64)
            signs, offsets = (target, np.zeros(n)) if classifies else (np.ones(n), target)
            chunk, at = Chunk(rows, order, signs, weights, offsets), (
                self.lam, self.batches, self.batch_size,
            )  # fmt: skip
            chi = np.empty(self.batch_size)
            batches = pegasos_stream(chunk, self.loss, self.v[k], self.u[k], chi, at)
        self.batches = batches
        self.rows += n


def start_stream(
    X: Any, problem: StreamProblem, seed: int, w: np.ndarray | None = None, rows: int = 0
) -> Stream:
    """A stream that starts at zero, or as if `rows` rows had led to w; X is its first chunk."""
    loss, lam, bias, models, batch_size = problem
    if loss.lipschitz == inf:
        raise ValueError(
            f"loss must have a Lipschitz constant to be trained on a stream, and"
            f" {type(loss).__name__} has none; use fit, or another loss"
        )
    # One thread gains nothing from batches; who wants them says how large.
    b = 1 if batch_size == "auto" else int(batch_size)
    with place(X[:SIGMA2_ROWS]) as first:
        sigma2 = measure_sigma2(first, SpectralQuery(seed=seed))
    v = np.zeros((models, X.shape[1] + (bias is not None)))
    stream = Stream(loss, lam, bias, b, sigma2, v, v.copy())
    if w is not None and rows > 0:
        t = stream.batches = ceil(rows / b)
        stream.rows = rows
        stream.v[:] = lam * t * w
        stream.u[:] = lam * t * (t + 1) / 2 * w
    return stream
