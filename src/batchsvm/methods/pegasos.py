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
