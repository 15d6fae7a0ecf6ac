"""What kernels are given, in few structs; and the methods of structs that they call.

Losses, averages, samplers and screening are plain Python elsewhere: here they become callable in
compiled code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batchsvm.compiled import callable_in_kernels, struct_methods, summed_in_order
from batchsvm.engines.averaging import Averaging
from batchsvm.engines.cpu import elementary  # noqa: F401  # exp and log of losses, in kernels
from batchsvm.engines.sampling import BlockSampler, Sampler
from batchsvm.engines.screening import Screening
from batchsvm.engines.visit_order import Random, VisitOrder
from batchsvm.losses import TINY, Hinge, Loss
from batchsvm.losses.classification import (
    log_of_one_plus,
    long_logistic_step,
    short_logistic_step,
)
from batchsvm.methods import (
    best_theta,
    joint_theta,
    next_beta,
    next_block_beta,
    next_joint_beta,
)

struct_methods(
    Hinge.value, Hinge.subgradient, Hinge.conjugate, Hinge.dual_step,
    Averaging.observe, Averaging.observe_primal, Averaging.note, Averaging.fade,
    Random.uniform, Random.permute, VisitOrder.redraw, VisitOrder.list_rows_kept,
    VisitOrder.longest_segment,
    Sampler.active_rows, Sampler.is_spent, Sampler.shuffle, Sampler.renew, Sampler.epoch_is_over,
    BlockSampler.list_rows,
    Screening.store, Screening.slack, Screening.visits_per_term, Screening.looks_at_rise,
    Screening.kept_promise, Screening.gap_at_end, Screening.end_epoch,
)  # fmt: skip
for rule in (best_theta, next_beta, next_block_beta, joint_theta, next_joint_beta):
    callable_in_kernels(rule)
for step in (short_logistic_step, long_logistic_step):
    callable_in_kernels(step)
summed_in_order(log_of_one_plus)


class Visits(NamedTuple):
    """Which rows are visited when, and what is remembered of the visits."""

    sampler: Sampler | BlockSampler
    screening: Screening | None  # None for Pegasos, which visits all rows
    averaging: Any


class Budget(NamedTuple):
    """What a call may do."""

    iterations: int
    target: float  # N times the gap whose estimate ends the call, at the end of an epoch


class Rule(NamedTuple):
    """How long the steps of a batch are (`methods/sdca.py`)."""

    beta: float
    beta_b: float
    guards: bool  # double beta when D rises by less than half of what was promised
    gamma: float  # of the aggressive rule
    rounds: int


class FoundSums(NamedTuple):
    """What a full pass fills for a block of rows."""

    sums: np.ndarray
    responses: np.ndarray
    combination: np.ndarray  # sum_i alpha_i s_i x_i is added to it, unless it is empty


class PrimalPoint(NamedTuple):
    """w, and how wrong computed responses may be there (`core/rounding.py`)."""

    w: np.ndarray
    per_length: float
    relative: float
    constant: float


class DualProblem(NamedTuple):
    """The dual problem as a kernel sees it; entry i of each array belongs to row i."""

    examples: np.ndarray
    loss: Loss
    lower: float  # the box of the loss
    upper: float
    unit: float  # 1/(lam N)
    least_norm2: float

    def weight_of(self, i):
        return abs(self.examples[i].signed_weight)

    def response(self, i, product):
        """a_i, where <x_i, w> is known."""
        return np.copysign(1.0, self.examples[i].signed_weight) * product - self.examples[i].offset

    def curvature(self, i, beta):
        """q of the losses: beta ||x_i||^2 c_i / (lam N)."""
        norm2 = max(self.examples[i].norm2, self.least_norm2)
        return max(beta * norm2 * self.weight_of(i) * self.unit, TINY)

    def step(self, i, a, beta):
        """alpha_i / c_i after the step of eq. (MBalphai), at the response a."""
        return self.loss.dual_step(self.examples[i].alpha, a, self.curvature(i, beta))

    def gain(self, i, new, a):
        """By how much N D rises if alpha_i / c_i alone becomes `new`."""
        alpha, weight = self.examples[i].alpha, self.weight_of(i)
        change = weight * (new - alpha)
        lower = weight * (self.loss.conjugate(alpha) - self.loss.conjugate(new)) - change * a
        return lower - 0.5 * self.unit * self.examples[i].norm2 * change * change

    def gap_of(self, i, a):
        """The term of row i in the duality gap, at the response a."""
        alpha = self.examples[i].alpha
        return self.weight_of(i) * (self.loss.value(a) + self.loss.conjugate(alpha) + alpha * a)

    def stays(self, i, a, beta, slack):
        """Whether alpha_i would stay where it is if its response were off by `slack`."""
        alpha, q = self.examples[i].alpha, self.curvature(i, beta)
        down = self.loss.dual_step(alpha, a - slack, q) == alpha
        up = self.loss.dual_step(alpha, a + slack, q) == alpha
        return down & up  # not "and": guessing wrong costs more than the second step


struct_methods(
    DualProblem.weight_of, DualProblem.response, DualProblem.curvature, DualProblem.step,
    DualProblem.gain, DualProblem.gap_of, DualProblem.stays,
)  # fmt: skip
