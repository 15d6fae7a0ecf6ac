"""The certificate of a point (w, alpha): primal, dual and gap, from scratch.

By weak duality D(alpha) <= P* <= P(w) for every w and every alpha in the box, so that the
gap P(w) - D(alpha) bounds how far w is from optimal, whoever computed w and alpha and
however.  Nothing here comes from a method's running sums.  Everything is float64,
whatever the type of the data.

A `Dataset` returns `Sums` over its rows, of a full pass at w, and sum_i alpha_i s_i x_i, of a
second one; `assemble` makes certificates of them, with the same lines for every engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite, log2
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batchsvm.core.problem import Facts, Problem
from batchsvm.core.vectors import norm

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset, Dual

UNIT_ROUNDOFF = 2.0**-53


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


# What rows contribute to P, D and the bound on their rounding: the lines of `Sums.values`.
LOSSES, DUALS = 0, 1
MAGNITUDE = 2  # sum of absolute values of all terms: what summation rounds
SENSITIVITY = 3  # sum c_i |phi'(a_i)| ||x_i||: what an error of <w, x_i> does
PULL = 4  # sum |alpha_i| ||x_i||: bounds the terms of w(alpha)
SUPPORT_VECTORS = 5
SUM_COUNT = 6


class Sums(NamedTuple):
    """The sums of a full pass at (W, alpha); those of parts of the rows add up to those of all."""

    values: np.ndarray  # (6, K)
    norms: np.ndarray  # (K,): ||w||
    facts: Facts
    depth: float  # how many roundings a term of a sum goes through, at the most

    def plus(self, other: Sums) -> Sums:
        """The sums over the rows of both, at the same W."""
        depth = max(self.depth, other.depth) + 1
        return Sums(self.values + other.values, self.norms, self.facts.plus(other.facts), depth)

    def primals(self, lam: np.ndarray) -> list[float]:
        """P(w) of each problem."""
        return [losses + regulariser for losses, _, regulariser in self._terms(lam)]

    def gaps(self, lam: np.ndarray) -> list[float]:
        """The gap of each problem, should w be w(alpha): what a certificate will find."""
        return [
            (losses + regulariser) - (duals - regulariser)
            for losses, duals, regulariser in self._terms(lam)
        ]

    def _terms(self, lam: np.ndarray) -> Iterator[tuple[float, float, float]]:
        """The mean loss, its dual, and lam/2 ||w||^2 of each problem, as Python's numbers: there
        are few of them, and NumPy takes a microsecond for each operation."""
        values, weights = self.values.tolist(), self.facts.total_weight.tolist()
        for k, (size, weight) in enumerate(zip(self.norms.tolist(), weights, strict=True)):
            regulariser = float(lam[k]) / 2 * size * size
            yield values[LOSSES][k] / weight, values[DUALS][k] / weight, regulariser


def certify_point(
    data: Dataset, problem: Problem, W: np.ndarray, dual: Dual
) -> tuple[Certificate, ...]:
    """The certificates of (W, alpha), one for each problem, in two passes over the data.

    Raises CertificateError if a gap is below minus its rounding error.
    """
    return assemble(problem, data.sums(problem, W, dual), data.combination(problem, dual))


def assemble(problem: Problem, sums: Sums, combination: np.ndarray) -> tuple[Certificate, ...]:
    """Certificates from the sums at (W, alpha) and from sum_i alpha_i s_i x_i, (p, K)."""
    return tuple(_assemble_one(problem, k, sums, combination[:, k]) for k in range(problem.k))


def _assemble_one(problem: Problem, k: int, sums: Sums, v: np.ndarray) -> Certificate:
    facts, radius = sums.facts, problem.radius
    losses, duals, magnitude, sensitivity, pull, support = sums.values[:, k].tolist()
    weight, lam = float(facts.total_weight[k]), float(problem.lam[k])
    norm_w, norm_v = float(sums.norms[k]), norm(v) / weight
    primal = losses / weight + lam / 2 * norm_w * norm_w
    dual = duals / weight - _regulariser_conjugate(lam, radius, norm_v)
    at_zero = float(facts.losses_at_zero[k]) / weight

    # First-order worst cases: a sum of m terms is off by at most m units of its magnitude
    # (NumPy's pairwise sums: log2 m + 8), and w(alpha)_j is a sum of at most n terms.
    depth = log2(max(facts.rows, v.size, 2)) + 16 + sums.depth
    dots = (facts.longest_row + 2) * norm_w * sensitivity / weight
    w_of_alpha = (facts.rows + 2) * min(norm_v / lam, radius)
    sideways = w_of_alpha * pull / weight
    plain = depth * (magnitude / weight + lam * norm_w * norm_w + norm_v * norm_v / lam + at_zero)
    rounding = UNIT_ROUNDOFF * (dots + sideways + plain)

    gap = primal - dual
    support_vectors = int(support)
    if not isfinite(gap):  # an iterate that overflowed certifies nothing
        return Certificate(primal, dual, inf, inf, inf, support_vectors)
    if not gap >= -rounding:
        raise CertificateError(
            f"dual {dual!r} is above primal {primal!r} by more than the rounding error"
            f" {rounding:.3g}; the loss {problem.loss} or the point is not what it should be"
        )
    relative = gap / at_zero if at_zero > 0 else (inf if gap > rounding else 0.0)
    return Certificate(primal, dual, gap, relative, rounding, support_vectors)


def certify_zero(problem: Problem, facts: Facts, k: int) -> Certificate:
    """The certificate of w = 0, alpha = 0, which needs no pass over the data."""
    primal = float(facts.losses_at_zero[k]) / float(facts.total_weight[k])
    dual = 0.0 - float(problem.loss.conjugate(0.0))
    gap = primal - dual
    rounding = UNIT_ROUNDOFF * (facts.rows + 2) * primal
    return Certificate(primal, dual, gap, gap / primal if primal > 0 else 0.0, rounding, 0)


def _regulariser_conjugate(lam: float, radius: float, norm: float) -> float:
    """max over ||w|| <= radius of <u, w> - lam/2 ||w||^2, for a u of this norm."""
    if norm <= lam * radius:
        return norm * norm / (2 * lam)
    return radius * norm - lam / 2 * radius**2
