"""Gram: batches whose steps know of each other through the Gram matrix of the batch.

Section 4.2 of the paper names the joint update over a batch "very powerful" and sets it aside,
since it cannot be distributed to machines that hold one row each, and bounds what steps taken
at the same w do to each other by beta_b.  But where a batch B lies together, that is known: it is
in G = X_B X_B'.  With m = X_B w at the start, the rows of the batch are visited one after another,

    a_i = s_i m_i - o_i,   new alpha_i = dual_step(alpha_i, a_i, ||x_i||^2 c_i / (lam N)),
    v_i = s_i c_i (new alpha_i - alpha_i) / (lam N),   m += v_i G[:, i],

and at the end w += X_B' v.  That is serial SDCA, number for number up to rounding, and all the
work is in the products X_B w, G and X_B' v.  More sweeps over the batch come closer to the
maximum of D over the alphas of the batch.

The rows are shuffled once and cut into batches, so that G is the same in every epoch; an epoch
visits the batches in a fresh order (`engines/batch_order.py`).

S batches at once start from the same w.  Each multiplies its quadratic term by beta, the price
of not seeing the others (curvature beta ||x_i||^2 c_i / (lam N), and m += beta v_i G[:, i]).
Their changes Delta_s = X_s' v_s are added up,

    rho = ||sum_s Delta_s||^2 / sum_s ||Delta_s||^2, between 1 and S,

moves beta as in Algorithm 2, with batches in the place of rows, and w and alpha go the part
theta of the way for which D is largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from batchsvm.methods.blocks import best_theta
from batchsvm.methods.sdca import DualMethod

GAMMA = 0.9  # how slowly beta follows what the rounds show
LARGEST_FIRST_BETA = 4.0


def next_joint_beta(beta, square_of_sum, sum_of_squares, batches):
    """beta of the next round, from ||sum_s Delta_s||^2 and sum_s ||Delta_s||^2 of this one."""
    if not sum_of_squares > 0.0:
        return beta
    rho = min(max(square_of_sum / sum_of_squares, 1.0), float(batches))
    return beta**GAMMA * rho ** (1.0 - GAMMA)


def joint_theta(first_order, quadratic, curved, batches):
    """The theta in (0, 1] for which D is largest along the step of all batches.

    N D rises by theta (L + K/2) - theta^2 (Q + K)/2 with L = `first_order`, what all rows gain to
    first order for theta = 1, Q = `quadratic` = ||sum_s Delta_s||^2 lam N, and K = `curved`, which
    is sum_i c_i (change of alpha_i / c_i)^2 times the second derivative of the conjugate.  Where
    that is not constant, K = 0 makes it a lower bound, since conjugates are convex.
    """
    return best_theta(first_order + 0.5 * curved, quadratic + curved, batches)


@dataclass(frozen=True)
class Gram(DualMethod):
    """Serial steps within each batch, by means of its Gram matrix; several batches at once.

    Parameters
    ----------
    sampling, step, sigma2
        As for all dual methods; `sampling` must be "permutation".
    skips : bool
        Has no effect: batches are not divided.
    batches : "auto" or int
        The number of batches at once; `batch_size` is the number of rows of one batch.  Fewer
        threads than batches give the same result.
    sweeps : int
        The number of visits of each row of a batch before w changes.
    """

    batches: int | str = "auto"
    sweeps: int = 1

    name: ClassVar[str] = "gram"

    def may_skip(self, batch_size: int, averages: bool) -> bool:
        return False

    def first_beta(self, beta_b: float, batches: int = 1) -> float:
        return min(float(batches), LARGEST_FIRST_BETA)
