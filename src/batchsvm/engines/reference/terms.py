"""Terms of single rows, for the reference engine's steppers."""

from __future__ import annotations


def gains_of(problem, A, new, a):
    """By how much N D rises, for each row of A, if its alpha / c alone becomes `new`."""
    _, weight, _ = problem.parts(A)
    alpha, loss = problem.examples["alpha"][A], problem.loss
    change = weight * (new - alpha)
    unit = 1 / (problem.lam * problem.total_weight)
    lower = weight * (loss.conjugate(alpha) - loss.conjugate(new)) - change * a
    return lower - unit / 2 * problem.examples["norm2"][A] * change**2


def stays(loss, alpha, a, q, slack):
    """Whether alpha would stay where it is if responses were off by the slack."""
    down, up = loss.dual_step(alpha, a - slack, q), loss.dual_step(alpha, a + slack, q)
    return (down == alpha) & (up == alpha)
