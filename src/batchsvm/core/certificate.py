"""The certificate of a point (w, alpha): primal, dual and gap, from scratch, and a proven bound.

By weak duality D(alpha) <= P* <= P(w) for every w and every alpha in the box, so that the
gap P(w) - D(alpha) bounds how far w is from optimal, whoever computed w and alpha and
however.  Nothing here comes from a method's running sums.  Everything is float64,
whatever the type of the data.

A `Dataset` returns `Sums` over its rows, of a full pass at w, and sum_i alpha_i s_i x_i, of a
second one; `assemble` makes certificates of them, with the same lines for every engine.  P depends
on w alone and D on alpha alone, and so do their rounding errors, so that the best w and the best
alpha of different points go together.  `docs/certificates.md` proves the bounds on rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batchsvm.core import rounding as bounds
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.rounding import INFLATION, UNDERFLOW, UNIT
from batchsvm.core.vectors import column_norms

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset, Dual


class CertificateError(ArithmeticError):
    """The dual came out above the primal by more than rounding: a bug, never bad data."""


@dataclass(frozen=True)
class Certificate:
    """A proven bound on the distance of a point from the optimum, and what it is made of.

    Attributes
    ----------
    primal : float
        P(w), the training objective, as computed.
    dual : float
        D(alpha), as computed: no w has a smaller P.
    primal_rounding : float
        P(w) is at most primal + primal_rounding.
    dual_rounding : float
        D(alpha) is at least dual - dual_rounding.
    support_vectors : int
        How many alpha_i are not zero.
    """

    primal: float
    dual: float
    primal_rounding: float
    dual_rounding: float
    support_vectors: int

    @property
    def primal_above(self) -> float:
        """Proven: P(w) is at most this."""
        return bounds.above(self.primal + self.primal_rounding)

    @property
    def dual_below(self) -> float:
        """Proven: no w has a P below this."""
        return -bounds.above(self.dual_rounding - self.dual)

    @property
    def gap(self) -> float:
        """primal - dual, as computed; infinite for an iterate that overflowed."""
        gap = self.primal - self.dual
        return gap if isfinite(gap) else inf

    @property
    def rounding(self) -> float:
        """A bound on the rounding error of `gap`."""
        return bounds.above(self.primal_rounding + self.dual_rounding + UNIT * abs(self.gap))

    @property
    def bound(self) -> float:
        """Proven: w is at most this far above the optimum, all rounding errors included."""
        return max(0.0, bounds.above(self.gap + self.rounding))

    @property
    def relative_gap(self) -> float:
        """bound / P(w), which is compared with `tol`.  If P(w) is 0, it is 0 or infinite, depending
        on whether the gap is within its rounding error."""
        if self.primal > 0.0:
            return self.bound / self.primal
        return 0.0 if self.gap <= self.rounding < inf else inf

    def has_better_w(self, other: Certificate) -> bool:
        """Whether a smaller P is proven of this w than of the other."""
        return self.primal_above < other.primal_above

    def has_better_alpha(self, other: Certificate) -> bool:
        """Whether this alpha proves a larger lower bound on the optimum than the other."""
        return self.dual_below > other.dual_below

    def joined(self, other: Certificate) -> Certificate:
        """Of the two w the better one, with the better alpha of the two: the certificate of that
        pair, since P(w) >= D(alpha) for any w and any alpha."""
        primal = other if other.has_better_w(self) else self
        dual = other if other.has_better_alpha(self) else self
        return Certificate(
            primal.primal, dual.dual, primal.primal_rounding, dual.dual_rounding,
            dual.support_vectors,
        )  # fmt: skip

    def __str__(self) -> str:
        return (
            f"primal {self.primal:.6g}, dual {self.dual:.6g}: proven at most {self.bound:.3g} above"
            f" the optimum ({self.relative_gap:.3g} of the primal, rounding {self.rounding:.1g}),"
            f" {self.support_vectors} support vectors"
        )


# In the place of the certificate of a point that was not certified: it proves nothing.
UNPROVEN = Certificate(inf, -inf, 0.0, 0.0, 0)


def allowed_bound(tol: float, primal: float, at_zero: float) -> float:
    """The bound at which a problem is solved: tol P(w), or tol^2 P0 where that is more."""
    return tol * max(primal, tol * at_zero)


# What rows contribute to P, D and the bounds on their rounding: the lines of `Sums.values`.
LOSSES, DUALS = 0, 1
SLACK = 2  # sum c_i e_i max |phi'(a_i +- e_i)|: what errors e_i of the responses can add to P
MAGNITUDE = 3  # sum of |c_i phi*| + |alpha_i o_i|: what summation rounds in D
PULL = 4  # sum |alpha_i| ||x_i||: bounds the terms of w(alpha)
ALPHAS = 5  # sum |alpha_i|
SUPPORT_VECTORS = 6
SUM_COUNT = 7


class Sums(NamedTuple):
    """The sums of a full pass at (W, alpha); those of parts of the rows add up to those of all."""

    values: np.ndarray  # (7, K)
    norms: np.ndarray  # (K,): ||w||
    facts: Facts

    def plus(self, other: Sums) -> Sums:
        """The sums over the rows of both, at the same W."""
        return Sums(self.values + other.values, self.norms, self.facts.plus(other.facts))

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
            regulariser = float(lam[k]) * size * size / 2
            yield values[LOSSES][k] / weight, values[DUALS][k] / weight, regulariser


def certify_point(
    data: Dataset, problem: Problem, W: np.ndarray, dual: Dual
) -> tuple[Certificate, ...]:
    """The certificates of (W, alpha), one for each problem, in two passes over the data.

    Raises CertificateError if a gap is below minus its rounding error.
    """
    return assemble(problem, *data.point_sums(problem, W, dual))


def assemble(problem: Problem, sums: Sums, combination: np.ndarray) -> tuple[Certificate, ...]:
    """Certificates from the sums at (W, alpha) and from sum_i alpha_i s_i x_i, (p, K)."""
    return tuple(assemble_some(problem, sums, combination, range(problem.k)).values())


def assemble_some(
    problem: Problem, sums: Sums, combination: np.ndarray, which: Iterable[int]
) -> dict[int, Certificate]:
    """The certificates of some of the problems, by their numbers."""
    # As Python's numbers, of which all are taken out at once.
    values, norms = sums.values.T.tolist(), sums.norms.tolist()
    norms_v, found = column_norms(combination).tolist(), {}
    for k in which:
        place = _Place(problem, k, sums.facts, len(combination))
        found[k] = _certificate(place, values[k], norms[k], norms_v[k])
        if not found[k].gap >= -found[k].rounding:
            raise CertificateError(
                f"dual {found[k].dual!r} is above primal {found[k].primal!r} by more than the"
                f" rounding error {found[k].rounding:.3g}; the loss {problem.loss} or the point is"
                " not what it should be"
            )
    return found


def certify_zero(problem: Problem, facts: Facts, columns: int) -> dict[int, Certificate]:
    """The certificates of w = 0, alpha = 0, where no offset was rounded; they need no pass over
    the data."""
    conjugate, found = float(problem.loss.conjugate(0.0)), {}
    for k in range(problem.k):
        values = [0.0] * SUM_COUNT
        values[LOSSES] = float(facts.losses_at_zero[k])
        values[DUALS] = 0.0 - float(facts.total_weight[k]) * conjugate
        values[MAGNITUDE] = abs(values[DUALS])
        found[k] = _certificate(_Place(problem, k, facts, columns), values, 0.0, 0.0)
    return found


class _Place(NamedTuple):
    """Which problem a certificate is of."""

    problem: Problem
    k: int
    facts: Facts
    columns: int


def _certificate(place: _Place, values: list[float], norm_w: float, norm_v: float) -> Certificate:
    primal, primal_rounding = _primal(place, values, norm_w)
    dual, dual_rounding = _dual(place, values, norm_v)
    if not isfinite(primal + primal_rounding):  # what has overflowed certifies nothing
        primal_rounding = inf
    if not isfinite(dual + dual_rounding):
        dual_rounding = inf
    return Certificate(primal, dual, primal_rounding, dual_rounding, int(values[SUPPORT_VECTORS]))


def _primal(place: _Place, values: list[float], size: float) -> tuple[float, float]:
    """P(w), and how much more it may be (docs/certificates.md, steps 1 to 4)."""
    facts, lam = place.facts, float(place.problem.lam[place.k])
    weight = float(facts.total_weight[place.k])
    losses, regulariser = values[LOSSES] / weight, lam * size * size / 2
    share = bounds.summation(facts.rows, facts.depth + bounds.VALUE_ROUNDINGS)
    above = bounds.norm_above(size, place.columns)
    rounding = (
        INFLATION * values[SLACK] / weight
        + share * losses
        + (lam * above * above / 2 - regulariser)
        + bounds.FEW * UNIT * (losses + regulariser)
        + UNDERFLOW * (facts.rows / weight + size + 1)
    )
    return losses + regulariser, INFLATION * rounding


def _dual(place: _Place, values: list[float], norm_v: float) -> tuple[float, float]:
    """D(alpha), and how much less it may be (docs/certificates.md, steps 5 to 8)."""
    problem, k, facts, columns = place
    lam, radius = float(problem.lam[k]), problem.radius
    weight, rows, alphas = float(facts.total_weight[k]), facts.rows, values[ALPHAS]
    conjugate = _regulariser_conjugate(lam, radius, norm_v / weight)
    dual = values[DUALS] / weight - conjugate

    share = bounds.summation(rows, facts.depth + bounds.CONJUGATE_ROUNDINGS)
    scale = float(getattr(problem.loss, "scale", 1.0)) + abs(float(problem.offset[k]))
    pull = values[PULL] + alphas * bounds.least_length(facts.longest_row)
    off = INFLATION * bounds.gamma(rows + bounds.ALPHA_ROUNDINGS) * pull
    off += sqrt(columns) * rows * UNDERFLOW
    norm_above = (bounds.norm_above(norm_v, columns) + off) / weight
    norm_above *= 1 + bounds.summation(rows, facts.depth)
    worst = _regulariser_conjugate(lam, radius, norm_above) * (1 + bounds.FEW * UNIT)
    rounding = (
        share * (values[MAGNITUDE] + scale * alphas) / weight
        + max(0.0, worst - conjugate)
        + bounds.FEW * UNIT * abs(dual)
        + UNDERFLOW * (rows / weight + rows) * (1 + scale)
    )
    return dual, INFLATION * rounding


def _regulariser_conjugate(lam: float, radius: float, norm: float) -> float:
    """max over ||w|| <= radius of <u, w> - lam/2 ||w||^2, for a u of this norm; it grows with the
    norm."""
    if norm <= lam * radius:
        return norm / lam * norm / 2
    return radius * (norm - lam * radius / 2)
