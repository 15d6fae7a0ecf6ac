"""What to expect before training: sigma^2, the speed-up of each batch size, a choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf, isnan
from typing import Any, NamedTuple

from batchsvm.core.layout import Layout
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.spectral import Sigma2, beta_b
from batchsvm.core.theory import Constants, pegasos_iterations, sdca_iterations


class PlanRow(NamedTuple):
    """One batch size: beta_b, its speed-up, and the theorems' iteration counts."""

    b: int
    beta_b: float
    speedup: float
    pegasos_T: float  # Theorem 1
    t0: float  # Theorem 2
    T0: float
    T: float


class PlanTable(Sequence[PlanRow]):
    """The rows of a plan's table, which are computed when one is asked for: a small fit takes
    less time than its table would."""

    def __init__(self, rows: Callable[[], list[PlanRow]]) -> None:
        self._compute = rows

    @cached_property
    def rows(self) -> list[PlanRow]:
        return self._compute()

    def __getitem__(self, k: Any) -> Any:
        return self.rows[k]

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.rows == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.rows)


@dataclass(frozen=True)
class Plan:
    """How far this data can be parallelised.

    Attributes
    ----------
    n, d : int
        Rows and columns.
    lam, tol : float
        What the fit is asked for; the iteration counts of the theorems are for a gap of
        tol P(0).
    sigma2 : Sigma2
        Upper bound on the spectral norm of the rows scaled to unit norm.
    batch_size : int
        The batch size chosen.
    workers : int
        The threads that run the iterations.
    reason : str
        Why, in words.
    table : sequence of PlanRow
        b, beta_b, speed-up b/beta_b and iteration counts for b = 1, 2, 4, ..., n.
    batches : int
        How many batches of that size an iteration takes at once.
    """

    n: int
    d: int
    lam: float
    tol: float
    sigma2: Sigma2
    batch_size: int
    workers: int
    reason: str
    table: Sequence[PlanRow] = field(repr=False)
    batches: int = 1

    def __str__(self) -> str:
        chance = self.sigma2.failure_probability
        relation = "about" if isnan(chance) else "<=" if chance > 0 else "="
        at_once = f", {self.batches} batches at once" if self.batches > 1 else ""
        lines = [
            f"{self.n:,} rows x {self.d:,} columns, lam = {self.lam:g}, tol = {self.tol:g}",
            f"sigma^2 {relation} {self.sigma2:.4g} ({self.sigma2.how}): about"
            f" {1 / self.sigma2:.3g} rows fit into a batch before they get in each other's way",
            f"batch size {self.batch_size}{at_once}, {_threads(self.workers)}: {self.reason}",
            "The iterations that Theorems 1 and 2 promise, in the worst case:",
            f"{'b':>9} {'beta_b':>9} {'speed-up':>9} {'Pegasos T':>12}"
            f" {'SDCA t0':>10} {'T0':>12} {'T':>12}",
        ]
        for row in self.table:
            mark = "*" if row.b == self.batch_size else " "
            counts = (row.pegasos_T, row.t0, row.T0, row.T)
            pegasos, t0, T0, T = ("-" if c == inf else f"{c:,}" for c in counts)
            lines.append(
                f"{mark}{row.b:>8,} {row.beta_b:>9.2f} {row.speedup:>9.2f} {pegasos:>12}"
                f" {t0:>10} {T0:>12} {T:>12}"
            )
        return "\n".join(lines)


def _threads(workers: int) -> str:
    return "one thread" if workers == 1 else f"{workers} threads"


def spectral_batch_size(n: int, sigma2: float) -> int:
    """The largest b with beta_b <= 2: about 1/sigma^2, the end of linear speed-up (Section 3)."""
    if n * sigma2 <= 1:
        return n
    return int(min(n, max(1.0, 1.0 + (n - 1) / (n * sigma2 - 1))))


def make_plan(
    problem: Problem, facts: Facts, columns: int, tol: float, sigma2: Sigma2,
    layout: Layout | None = None,
) -> Plan:  # fmt: skip
    """The plan for the first of the problems, with a w of so many columns; without a layout, or
    one that leaves it open, sigma^2 says the batch size."""
    n, lam, loss = facts.rows, float(problem.lam[0]), problem.loss
    size, workers, reason = (layout.batch_size, layout.workers, layout.reason) if layout else (
        None, 1, ""
    )  # fmt: skip
    batches = layout.batches if layout else 1
    if size is None:
        size = spectral_batch_size(n, sigma2)
        words = (
            f"the largest with beta_b <= 2, so that a batch does the work of"
            f" {size / beta_b(size, n, sigma2):.3g} serial steps"
            if size > 1
            else "the rows are nearly collinear, and larger batches would repeat one step"
        )
        reason = f"{words}; {reason}" if reason else words
    workers = workers if size * batches > 1 else 1
    constants = Constants(lam, loss, float(facts.radius2[0]), float(facts.primal_at_zero[0]))
    table = PlanTable(partial(_rows, n, size, sigma2, tol, constants))
    return Plan(n, columns, lam, tol, sigma2, size, workers, reason, table, batches)


def _rows(n: int, size: int, sigma2: Sigma2, tol: float, constants: Constants) -> list[PlanRow]:
    """The table for b = 1, 2, 4, ..., n and the size that was chosen."""
    sizes = {1 << k for k in range(n.bit_length()) if 1 << k <= n} | {n, size}
    eps, rows = tol * constants.first_error, []
    for b in sorted(sizes):
        beta = beta_b(b, n, sigma2)
        pegasos_T = pegasos_iterations(beta, b, eps, constants)
        counts = sdca_iterations(beta, b, n, eps, constants)
        rows.append(PlanRow(b, beta, b / beta, pegasos_T, *counts))
    return rows
