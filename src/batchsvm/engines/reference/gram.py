"""The rounds of `methods/gram.py` in plain NumPy, row by row."""

from __future__ import annotations

import numpy as np

from batchsvm.engines.batch_order import BatchOrder
from batchsvm.engines.reference.problem import ReferenceProblem
from batchsvm.engines.screening import GAP
from batchsvm.engines.state import DualState
from batchsvm.methods import Gram, joint_theta, next_joint_beta


def gram_round(
    problem: ReferenceProblem, method: Gram, state: DualState, order: BatchOrder
) -> None:
    """Serial steps in each batch of a round, from the same w; then their sum, scaled by theta."""
    loss, lam_n = problem.loss, problem.lam * problem.total_weight
    kappa = getattr(loss, "conjugate_curvature", 0.0)
    all_alpha = problem.examples["alpha"]
    before = all_alpha.copy()
    Delta = np.zeros(problem.d)
    first_order = curved = sum_of_squares = 0.0
    for slot, number in enumerate(order.upcoming(1)):
        A = order.batch(number)
        X = problem.rows_of(A)
        G = X @ X.T
        sign, weight, offset = problem.parts(A)
        q = problem.curvature(A, state.beta, state.least_norm2)
        m_start = X @ state.w
        a, alpha = sign * m_start - offset, before[A]
        gaps = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
        state.screening.sums[slot, GAP] += gaps.sum()

        m, new = m_start.copy(), alpha.copy()
        for _ in range(method.sweeps):
            for i in range(A.size):
                old = new[i]
                new[i] = loss.dual_step(old, sign[i] * m[i] - offset[i], q[i])
                m += state.beta * sign[i] * weight[i] * (new[i] - old) / lam_n * G[:, i]
        all_alpha[A] = new

        v = sign * weight * (new - alpha) / lam_n
        Delta += X.T @ v
        sum_of_squares += v @ (m - m_start) / state.beta  # ||X' v||^2 = v' G v
        conjugates = loss.conjugate(alpha) - loss.conjugate(new)
        first_order += np.sum(weight * (conjugates - (new - alpha) * a))
        curved += kappa * np.sum(weight * (new - alpha) ** 2)
    if order.batches > 1:
        square = float(Delta @ Delta)
        theta = joint_theta(first_order, square * lam_n, curved, order.batches)
        state.beta = next_joint_beta(state.beta, square, sum_of_squares, order.batches)
        if theta < 1:
            state.refused += 1
            all_alpha[:] = before + theta * (all_alpha - before)
            Delta *= theta
    state.w += Delta
