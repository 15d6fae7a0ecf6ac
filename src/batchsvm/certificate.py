"""The certificate of a point (w, alpha): primal, dual and gap, from scratch.

By weak duality D(alpha) <= P* <= P(w) for every w and every alpha in the box, so that the
gap P(w) - D(alpha) bounds how far w is from optimal, whoever computed w and alpha and
however.  Nothing here comes from a method's running sums.  Everything is float64,
whatever the type of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, log2

import numpy as np

from batchsvm.compiled import Kernel
from batchsvm.matrix import BLOCK, CHUNK, norm
from batchsvm.problem import Problem

UNIT_ROUNDOFF = 2.0**-53
AlphaOf = Callable[[int, int], np.ndarray]
Show = Callable[[int, np.ndarray], object]


class CertificateError(ArithmeticError):
    """The dual came out above the primal by more than rounding: a bug, never bad data."""


@dataclass(frozen=True)
class Certificate:
    """How good a point is, and how sure that is.

    Attributes
    ----------
    primal : float
        P(w), the training objective.
    dual : float
        D(alpha), which no w can get below.
    gap : float
        primal - dual: w is at most this far above the optimum.
    relative_gap : float
        gap / P(0): what `tol` is compared with.  P(0) is 1 for the hinge.
    rounding : float
        A bound on the rounding error of `gap`.
    support_vectors : int
        How many alpha_i are not zero.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    rounding: float
    support_vectors: int

    def __str__(self) -> str:
        relative = max(0.0, self.relative_gap)  # below zero by rounding alone
        return (
            f"primal {self.primal:.6g}, dual {self.dual:.6g}: at most"
            f" {max(0.0, self.gap + self.rounding):.3g} above the optimum ({relative:.3g} of P(0),"
            f" rounding {self.rounding:.1g}),"
            f" {self.support_vectors} support vectors"
        )


# What rows contribute to P, D and the bound on their rounding.
LOSSES, DUALS = 0, 1
MAGNITUDE = 2  # sum of absolute values of all terms: what summation rounds
SENSITIVITY = 3  # sum c_i |phi'(a_i)| ||x_i||: what an error of <w, x_i> does
PULL = 4  # sum |alpha_i| ||x_i||: bounds the terms of w(alpha)
SUPPORT_VECTORS = 5


@Kernel
def point_sums(rows, examples, loss, lower, upper, start, alpha, w, out, responses):
    """The sums over a block of rows that starts at `start`; alpha is that block's, and so are the
    responses that are returned."""
    for begin in range(0, alpha.size, CHUNK):
        losses, duals, magnitude, sensitivity, pull, support = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(begin, min(begin + CHUNK, alpha.size)):
            i = start + k
            offset, length = examples[i].offset, np.sqrt(examples[i].norm2)
            weight = abs(examples[i].signed_weight)
            a = np.copysign(1.0, examples[i].signed_weight) * rows.dot(i, w) - offset
            responses[k] = a
            relative = min(max(alpha[k] / weight, lower), upper) if weight > 0.0 else 0.0
            value, linear = weight * loss.value(a), alpha[k] * offset
            conjugate = weight * loss.conjugate(relative)
            losses += value
            duals += linear - conjugate
            magnitude += value + abs(conjugate) + abs(linear)
            sensitivity += weight * abs(loss.subgradient(a)) * length
            pull += abs(alpha[k]) * length
            support += alpha[k] != 0.0
        out[LOSSES] += losses
        out[DUALS] += duals
        out[MAGNITUDE] += magnitude
        out[SENSITIVITY] += sensitivity
        out[PULL] += pull
        out[SUPPORT_VECTORS] += support


@dataclass(frozen=True)
class Look:
    """The first half of a certificate: a pass over all rows at the point (w, alpha).

    What is missing is w(alpha), from scratch: another pass.  Where w should be w(alpha), `gap`
    says beforehand what the certificate will find.
    """

    problem: Problem
    w: np.ndarray
    alpha_of: AlphaOf
    sums: np.ndarray

    @property
    def primal(self) -> float:
        """P(w)."""
        return float(self.sums[LOSSES]) / self.problem.total_weight + self._regulariser

    @property
    def gap(self) -> float:
        """The gap, should w be w(alpha)."""
        dual = float(self.sums[DUALS]) / self.problem.total_weight - self._regulariser
        return self.primal - dual

    @cached_property
    def _regulariser(self) -> float:
        size = norm(self.w)
        return self.problem.lam / 2 * size * size

    def certify(self) -> Certificate:
        """The certificate.

        Raises CertificateError if the gap is below minus its rounding error.
        """
        v = self.problem.combination(self.alpha_of)
        return _assemble(self.problem, self.w, self.sums, v)


def look_at(problem: Problem, w: np.ndarray, alpha_of: AlphaOf, show: Show | None = None) -> Look:
    """Pass over all rows; `alpha_of(start, stop)` gives a block of alpha, and `show(start, a)`
    is given the responses of each block."""
    sums = problem.matrix.over_blocks(
        lambda start, stop: _block_sums(problem, w, alpha_of, start, stop, show)
    )
    return Look(problem, w, alpha_of, np.array(sums).sum(axis=0))


def certify_point(problem: Problem, w: np.ndarray, alpha_of: AlphaOf) -> Certificate:
    """The certificate of (w, alpha), both passes."""
    return look_at(problem, w, alpha_of).certify()


def _block_sums(
    problem: Problem, w: np.ndarray, alpha_of: AlphaOf, start: int, stop: int, show: Show | None
) -> np.ndarray:
    out, loss = np.zeros(6), problem.loss
    alpha = np.ascontiguousarray(alpha_of(start, stop))
    responses = np.empty(stop - start)
    bounds = float(loss.lower), float(loss.upper)
    point_sums(problem.rows, problem.examples, loss, *bounds, start, alpha, w, out, responses)
    if show is not None:
        show(start, responses)
    return out


@np.errstate(over="ignore", invalid="ignore")
def _assemble(problem: Problem, w: np.ndarray, sums: np.ndarray, v: np.ndarray) -> Certificate:
    weight, lam = problem.total_weight, problem.lam
    norm_w, norm_v = norm(w), norm(v) / weight
    primal = float(sums[LOSSES]) / weight + lam / 2 * norm_w * norm_w
    dual = float(sums[DUALS]) / weight - _regulariser_conjugate(problem, norm_v)
    at_zero = problem.primal_at_zero

    # First-order worst cases: a sum of m terms is off by at most m units of its magnitude
    # (NumPy's pairwise sums: log2 m + 8), and w(alpha)_j is a sum of at most n terms.
    depth = log2(max(problem.n, problem.d, 2)) + 16 + CHUNK + BLOCK // CHUNK
    dots = (problem.longest_row + 2) * norm_w * sums[SENSITIVITY] / weight
    w_of_alpha = (problem.n + 2) * min(norm_v / lam, problem.radius)
    sideways = w_of_alpha * sums[PULL] / weight
    plain = depth * (
        sums[MAGNITUDE] / weight + lam * norm_w * norm_w + norm_v * norm_v / lam + at_zero
    )
    rounding = float(UNIT_ROUNDOFF * (dots + sideways + plain))

    gap = primal - dual
    support_vectors = int(sums[SUPPORT_VECTORS])
    if not np.isfinite(gap):  # an iterate that overflowed certifies nothing
        return Certificate(primal, dual, inf, inf, inf, support_vectors)
    if not gap >= -rounding:
        raise CertificateError(
            f"dual {dual!r} is above primal {primal!r} by more than the rounding error"
            f" {rounding:.3g}; the loss {problem.loss} or the point is not what it should be"
        )
    relative = gap / at_zero if at_zero > 0 else (inf if gap > rounding else 0.0)
    return Certificate(primal, dual, gap, relative, rounding, support_vectors)


def certify_nothing(problem: Problem, w: np.ndarray, alpha_of: AlphaOf, show: Show) -> None:
    """Pass over no rows at all, which compiles what a pass needs."""
    _block_sums(problem, w, alpha_of, 0, 0, show)
    problem.matrix.compile()


def certify_zero(problem: Problem) -> Certificate:
    """The certificate of w = 0, alpha = 0, which needs no pass over the data."""
    primal = problem.primal_at_zero
    dual = 0.0 - float(problem.loss.conjugate(0.0))
    gap = primal - dual
    rounding = UNIT_ROUNDOFF * (problem.n + 2) * primal
    return Certificate(primal, dual, gap, gap / primal if primal > 0 else 0.0, rounding, 0)


def _regulariser_conjugate(problem: Problem, norm: float) -> float:
    """max over ||w|| <= radius of <u, w> - lam/2 ||w||^2, for a u of this norm."""
    if norm <= problem.lam * problem.radius:
        return norm * norm / (2 * problem.lam)
    return problem.radius * norm - problem.lam / 2 * problem.radius**2
