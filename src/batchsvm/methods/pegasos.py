"""Pegasos with mini-batches: Algorithm 1 of the paper, for any loss.

Minimises P(w) by subgradient steps of length 1/(lam t): with A_t the batch of iteration
t = 1, 2, ... and chi_i = -phi'(a_i) (for the hinge: 1 on A_t^+, 0 elsewhere)

    w_{t+1} = (1 - 1/t) w_t + 1/(lam t b) sum_{i in A_t} (c_i n/N) chi_i s_i x_i

optionally followed by the projection onto ||w|| <= radius (Section 6).

What is kept is the sum alone: w_{t+1} = shrink v / (lam t), where v only ever *adds*
rows, so that a sparse step costs its non-zeros, and shrink is 1 unless a projection was
made.  v is n/(N b) sum_i c_i g_i s_i x_i with g_i the (weighted) number of times that i
was in A^+.  This is w(alpha) for alpha_i = c_i n g_i / (b t), the mean of the chi_i so far,
and that alpha, put into its box, certifies the primal method like the dual ones.  In a
projected run v is not made of these counts any more, and they are kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchsvm.methods.averaging import Averaging, LastIterate, make_averaging
from batchsvm.problem import Problem


@dataclass(frozen=True)
class Pegasos:
    """Mini-batched stochastic subgradient descent on the primal.

    Parameters
    ----------
    sampling : {"permutation", "subsets", "replacement"}
        How batches are drawn.  Theorem 1 is about "subsets", the paper's Rand(b);
        "replacement" is the population setting of Section 6.
    radius : float
        B in the constraint ||w|| <= B; infinite if there is none.
    sigma2 : float, optional
        An upper bound on sigma^2 for the plan; measured if missing.
    """

    sampling: str = "permutation"
    radius: float = np.inf
    sigma2: float | None = None

    name: ClassVar[str] = "pegasos"


@dataclass
class PegasosState:
    """Where Pegasos stands; g is the `alpha` column of `problem.examples`."""

    problem: Problem
    v: np.ndarray
    counts: np.ndarray  # sum of the chi_i in a projected run, else empty
    averaging: Averaging | LastIterate
    batch_size: int
    shrink: float = 1.0
    iteration: int = 0
    beta: float = np.nan
    refused: int = 0
    workers: int = 1

    @property
    def scale(self) -> float:
        """w = scale v."""
        return self.shrink / (self.problem.lam * max(self.iteration, 1))

    @property
    def iterate(self) -> np.ndarray:
        """The last iterate."""
        return self.scale * self.v

    def _relative_alpha(self, start: int, stop: int) -> np.ndarray:
        """alpha / c, before it is put into the box."""
        problem = self.problem
        unit = problem.n / self.batch_size
        if self.counts.size:
            return self.counts[start:stop] * (unit / max(self.iteration, 1))
        g = problem.examples["alpha"][start:stop]
        scaled = self.scale * g
        if isinstance(self.averaging, Averaging) and self.averaging.has_mean:
            scaled = self.averaging.mean(g, start, stop)
        return scaled * (problem.lam * unit)

    def alpha_of(self, start: int, stop: int) -> np.ndarray:
        """A block of the dual point, inside the box."""
        loss = self.problem.loss
        relative = np.clip(self._relative_alpha(start, stop), loss.lower, loss.upper)
        return relative * self.problem.weights(start, stop) if self.problem.weighted else relative

    def primal_point(self) -> np.ndarray:
        """w, or the average of the w's where one is kept."""
        if not (isinstance(self.averaging, Averaging) and self.averaging.has_mean):
            return self.iterate
        if self.counts.size:
            return self.averaging.primal_mean()
        weights = self.problem.weights
        return self.problem.w_of_alpha(
            lambda start, stop: self._relative_alpha(start, stop) * weights(start, stop)
        )


def start_pegasos(
    problem: Problem,
    batch_size: int,
    averaging: str | None,
    alpha: np.ndarray | None,
    workers: int = 1,
) -> PegasosState:
    """The state before the first iteration.

    From a given alpha, training goes on as if one epoch had led to w(alpha).
    """
    v = np.zeros(problem.d)
    iteration = 0
    scale = 1.0 / problem.lam
    if alpha is not None:
        iteration = -(-problem.n // batch_size)
        scale /= iteration
        problem.set_alpha(alpha)
        problem.examples["alpha"] *= batch_size * iteration / problem.n
        v = problem.confine(problem.w_of_alpha(lambda start, stop: alpha[start:stop])) / scale
    projects = np.isfinite(problem.radius)
    counts = problem.examples["alpha"].copy() if projects else np.zeros(0)
    averages = make_averaging(averaging, problem.n, scale, scale * v if projects else None)
    return PegasosState(
        problem, v, counts, averages, batch_size, iteration=iteration,
        workers=1 if projects else workers,
    )  # fmt: skip
