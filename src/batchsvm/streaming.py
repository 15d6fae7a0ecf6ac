"""Pegasos on a stream: the population objective of Section 6 of the paper.

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
from typing import Any

import numpy as np

from batchsvm import data_inputs
from batchsvm.api import sigma2 as measure
from batchsvm.compiled import Kernel
from batchsvm.losses import Loss
from batchsvm.spectral import Sigma2, beta_b
from batchsvm.team import Threads

SIGMA2_ROWS = 512  # of the first chunk, to look at sigma^2


@Kernel
def pegasos_stream(rows, order, signs, weights, offsets, loss, v, u, chi, lam, t, b):
    """Take the rows in this order, in batches of b; returns the number of batches so far."""
    for start in range(0, order.size, b):
        stop = min(start + b, order.size)
        scale = 1.0 / (lam * max(t, 1))
        t += 1
        for k in range(start, stop):
            i = order[k]
            rows.expect(order, k)
            chi[k - start] = -loss.subgradient(signs[i] * scale * rows.dot(i, v) - offsets[i])
        for k in range(start, stop):
            i = order[k]
            c = weights[i] * signs[i] * chi[k - start] / (stop - start)
            if c != 0.0:
                rows.add(i, c, v)
                rows.add(i, c * t, u)
    return t


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
        rows = data_inputs.read_matrix(X, Threads(), self.bias).rows
        n = rows.shape[0]
        order = rng.permutation(n)
        classifies = self.loss.task == "classification"
        batches = self.batches
        for k in range(self.v.shape[0]):
            target = np.ascontiguousarray(targets[k], dtype=np.float64)
            signs, offsets = (target, np.zeros(n)) if classifies else (np.ones(n), target)
            batches = pegasos_stream(
                rows, order, signs, weights, offsets, self.loss, self.v[k], self.u[k],
                np.empty(self.batch_size), self.lam, self.batches, self.batch_size,
            )  # fmt: skip
        self.batches = batches
        self.rows += n


def start_stream(
    X: Any,
    loss: Loss,
    lam: float,
    bias: float | None,
    batch_size: int | str,
    models: int,
    seed: int,
    w: np.ndarray | None = None,
    rows: int = 0,
) -> Stream:
    """A stream that starts at zero, or as if `rows` rows had led to w."""
    if loss.lipschitz == inf:
        raise ValueError(
            f"loss must have a Lipschitz constant to be trained on a stream, and"
            f" {type(loss).__name__} has none; use fit, or another loss"
        )
    # One thread gains nothing from batches; who wants them says how large.
    b = 1 if batch_size == "auto" else int(batch_size)
    sigma2 = measure(X[:SIGMA2_ROWS], "auto", random_state=seed)
    v = np.zeros((models, X.shape[1] + (bias is not None)))
    stream = Stream(loss, lam, bias, b, sigma2, v, v.copy())
    if w is not None and rows > 0:
        t = stream.batches = ceil(rows / b)
        stream.rows = rows
        stream.v[:] = lam * t * w
        stream.u[:] = lam * t * (t + 1) / 2 * w
    return stream
