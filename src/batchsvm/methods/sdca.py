"""Stochastic dual coordinate ascent with mini-batches: naive, safe and aggressive.

Maximises D(alpha) of `core/problem.py`, keeping w = w(alpha).  An iteration draws a batch A of
b rows; for each i in A, with a_i the response at the current w,

    alpha_i + delta_i = dual_step(alpha_i, a_i, beta ||x_i||^2 c_i / (lam N))

eq. (MBalphai) of the paper.  All deltas of a batch are computed from the same w, and what
tells the rules apart is beta, the price of that:

    Naive       beta = 1: the serial step (eq. (alphai), Section 4.1).  May fail for b > 1.
    Safe        beta = beta_b (Section 4.2): guaranteed by Theorem 2.
    Guarded     beta = 1, doubled after each epoch in which D rose by less than half of what
                the steps promised one by one, up to b, which no beta_b exceeds: what "auto"
                takes for small batches, which seldom fail.
    Aggressive  beta adapts between 1 and beta_b (Algorithm 2, Section 4.3); a step that
                would not raise D is refused.
    Blocks      serial steps on blocks of rows side by side (`methods/blocks.py`).
    Gram        serial steps in a batch, by its Gram matrix (`methods/gram.py`).
    Asynchronous  serial steps on many rows at once, without waiting
                (`methods/asynchronous.py`).

For b = 1 all are one method, serial SDCA.

The step is the *general* one of the appendix, beta ||x_i||^2, for rows of any norm, with
sigma^2 taken of the rows scaled to unit norm; or the *literal* one of eq. (MBalphai),
beta alone, which needs ||x_i|| <= 1 and takes shorter steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

STEPS = ("general", "literal")
# Where D rises by less than this part of what the steps promise one by one, the rows are so
# much alike that steps half as long do better.
MIN_KEPT_PROMISE = 0.5


def next_beta(beta, kept, largest):
    """beta of the guarded rule for the next epoch, `kept` being the part of the promised rise of
    D that the last one kept; no more than `largest`."""
    return min(2.0 * beta, largest) if kept < MIN_KEPT_PROMISE else beta


@dataclass(frozen=True)
class DualMethod:
    """What the dual methods have in common.

    Parameters
    ----------
    sampling : {"permutation", "subsets", "replacement"}
        How batches are drawn.  Theorem 2 is about "subsets", the paper's Rand(b);
        "permutation" usually needs fewer epochs.
    step : {"general", "literal"}
        Divide by beta ||x_i||^2, or by beta as in the paper's eq. (MBalphai).
    sigma2 : float, optional
        An upper bound on sigma^2 that is already known; measured if missing.
    skips : bool
        Skip rows whose alpha is at a bound and would not move in some epochs
        (`engines/screening.py`).  This requires permuted order, batches of one, the guarded rule
        or blocks, and no averages.
    """

    sampling: str = "permutation"
    step: str = "general"
    sigma2: float | None = None
    skips: bool = True

    name: ClassVar[str]

    skips_in_batches: ClassVar[bool] = False

    def may_skip(self, batch_size: int, averages: bool) -> bool:
        """Whether rows may be left out of epochs."""
        fits = (batch_size == 1 or self.skips_in_batches) and not averages
        return self.skips and fits and self.sampling == "permutation"

    def first_beta(self, beta_b: float, batches: int = 1) -> float:
        """beta of the first iteration, of so many batches at once."""
        return beta_b


@dataclass(frozen=True)
class Naive(DualMethod):
    """The serial step for every row of the batch (Section 4.1)."""

    name: ClassVar[str] = "naive"

    def first_beta(self, beta_b: float, batches: int = 1) -> float:
        return 1.0


@dataclass(frozen=True)
class Safe(DualMethod):
    """Steps shortened by beta_b (Section 4.2, Theorem 2)."""

    name: ClassVar[str] = "safe"


@dataclass(frozen=True)
class Guarded(DualMethod):
    """Naive steps, halved after each epoch in which D rose by less than half of what the steps
    promised one by one."""

    name: ClassVar[str] = "guarded"
    skips_in_batches: ClassVar[bool] = True

    def first_beta(self, beta_b: float, batches: int = 1) -> float:
        return 1.0


@dataclass(frozen=True)
class Aggressive(DualMethod):
    """Algorithm 2.

    Parameters
    ----------
    sampling, step, sigma2, skips
        As for all dual methods.
    gamma : float
        How slowly beta adapts to the batches, between 0 and 1.
    rounds : int
        How often rho and the step are adapted to each other in an iteration.  The paper found
        that more than one round does not pay (Section 4.3).
    """

    gamma: float = 0.95
    rounds: int = 1

    name: ClassVar[str] = "aggressive"
