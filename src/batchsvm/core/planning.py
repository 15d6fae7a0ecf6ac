"""What training does, and what to expect of it: method, batch size, sigma^2, the speed-up of each
batch size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf, isnan
from typing import Any, NamedTuple

from batchsvm.core.forecast import Forecast
from batchsvm.core.layout import Layout
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.spectral import LaterSigma2, Sigma2, beta_b
from batchsvm.core.theory import Constants, pegasos_iterations, sdca_iterations
from batchsvm.methods import Newton


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
    """What training does on this data, and how far the data can be parallelised.

    Attributes
    ----------
    n, d : int
        Rows and columns.
    lam, tol : float
        What the fit is asked for; the iteration counts of the theorems are for a gap of
        tol P(0).
    spectral : Sigma2 or LaterSigma2
        `sigma2`, or what measures it when it is first asked for.
    batch_size : int
        Rows in a batch.
    workers : int
        The threads that run the iterations.
    reason : str
        Why, in words.
    table : sequence of PlanRow
        b, beta_b, speed-up b/beta_b in iterations, and iteration counts for b = 1, 2, 4, ..., n.
    batches : int
        How many batches of that size an iteration takes at once.
    method : str
        The name of the method.
    fallback : str
        The name of the method that takes over if the gap falls too slowly; empty if none does.
    is_trial : bool
        Whether `method` is tried first although `fallback` is likely to be faster.
    times : tuple of Forecast
        How long training is likely to take on each engine; `batchsvm.plan` fills it.
    """

    n: int
    d: int
    lam: float
    tol: float
    spectral: Sigma2 | LaterSigma2 = field(repr=False, compare=False)
    batch_size: int
    workers: int
    reason: str
    table: Sequence[PlanRow] = field(repr=False)
    batches: int = 1
    method: str = ""
    fallback: str = ""
    is_trial: bool = False
    times: tuple[Forecast, ...] = field(default=(), repr=False, compare=False)

    @property
    def sigma2(self) -> Sigma2:
        """The spectral norm of the rows scaled to unit norm; `sigma2.how` says whether it is exact,
        an upper bound or an estimate."""
        return self.spectral.value

    @property
    def batch_limit(self) -> int:
        """The largest batch size with beta_b <= 2, where the linear speed-up of batches ends."""
        return spectral_batch_size(self.n, self.sigma2)

    @property
    def method_in_words(self) -> str:
        """The method as people call it: batches of one row are serial SDCA."""
        return method_in_words(self.method, self.batch_size)

    def __str__(self) -> str:
        return self.describe()

    def describe(self, theory: bool = False) -> str:
        """The plan in lines; with `theory`, the worst-case counts of Theorems 1 and 2 too."""
        rows = f"{self.n:,} rows x {self.d:,} columns, lam = {self.lam:g}, tol = {self.tol:g}"
        return "\n".join([rows, *self._training(), *self._batches(), *self._table(theory)])

    def _training(self) -> list[str]:
        at_once = f", {self.batches} batches at once" if self.batches > 1 else ""
        whole = self.batch_size == 1 or self.method == Newton.name
        size = "" if whole else f", batches of {self.batch_size:,} rows"
        then = f", then {method_in_words(self.fallback, None)} if needed" if self.fallback else ""
        what = f"{self.method_in_words}{size}{at_once}{then}, {_threads(self.workers)}"
        lines = [f"training: {what}: {self.reason}"]
        if self.times:
            lines.append("expected time of one fit, roughly:")
            lines += [f"  {forecast}" for forecast in self.times]
        return lines

    def _batches(self) -> list[str]:
        chance = self.sigma2.failure_probability
        relation = "about" if isnan(chance) else "<=" if chance > 0 else "="
        return [
            f"sigma^2 {relation} {self.sigma2:.4g} ({self.sigma2.how}): about"
            f" {1 / self.sigma2:.3g} rows fit into a batch before they get in each other's way"
        ]

    def _table(self, theory: bool) -> list[str]:
        words = "what batches could bring, in iterations (not in seconds)"
        head = f"{'b':>9} {'beta_b':>9} {'speed-up':>9}"
        if theory:
            words += ", and the worst cases of Theorems 1 and 2"
            head += f" {'Pegasos T':>12} {'SDCA t0':>10} {'T0':>12} {'T':>12}"
        lines = [f"{words}:", head]
        for row in self.table:
            mark = "*" if row.b == self.batch_size else " "
            line = f"{mark}{row.b:>8,} {row.beta_b:>9.2f} {row.speedup:>9.2f}"
            if theory:
                counts = (row.pegasos_T, row.t0, row.T0, row.T)
                pegasos, t0, T0, T = ("-" if c == inf else f"{c:,}" for c in counts)
                line += f" {pegasos:>12} {t0:>10} {T0:>12} {T:>12}"
            lines.append(line)
        return lines


def method_in_words(name: str, batch_size: int | None) -> str:
    """A method as people call it: batches of one row are serial SDCA."""
    if name == Newton.name:
        return "Newton's method"
    return "serial SDCA" if batch_size == 1 and name != "pegasos" else name


def _threads(workers: int) -> str:
    return "one thread" if workers == 1 else f"{workers} threads"


def spectral_batch_size(n: int, sigma2: float) -> int:
    """The largest b with beta_b <= 2: about 1/sigma^2, the end of linear speed-up (Section 3)."""
    if n * sigma2 <= 1:
        return n
    return int(min(n, max(1.0, 1.0 + (n - 1) / (n * sigma2 - 1))))


def make_plan(
    problem: Problem,
    facts: Facts,
    columns: int,
    tol: float,
    spectral: Sigma2 | LaterSigma2,
    layout: Layout,
) -> Plan:
    """The plan for the first of the problems, with a w of so many columns; where the layout leaves
    it open, sigma^2 says the batch size."""
    n, lam, loss = facts.rows, float(problem.lam[0]), problem.loss
    size, reason = layout.batch_size, layout.reason
    if size is None:
        size = spectral_batch_size(n, spectral.value)
        words = (
            f"the largest with beta_b <= 2, so that a batch does the work of"
            f" {size / beta_b(size, n, spectral.value):.3g} serial steps"
            if size > 1
            else "the rows are nearly collinear, and larger batches would repeat one step"
        )
        reason = f"{words}; {reason}" if reason else words
    workers = layout.workers if size * layout.batches > 1 else 1
    constants = Constants(lam, loss, float(facts.radius2[0]), float(facts.primal_at_zero[0]))
    table = PlanTable(partial(_rows, n, size, spectral, tol, constants))
    trial = layout.trial
    return Plan(
        n, columns, lam, tol, spectral, size, workers, reason, table, layout.batches,
        layout.method.name, "" if trial is None else Newton.name,
        trial is not None and not trial.is_late,
    )  # fmt: skip


def _rows(
    n: int, size: int, spectral: Sigma2 | LaterSigma2, tol: float, constants: Constants
) -> list[PlanRow]:
    """The table for b = 1, 2, 4, ..., n, the size that was chosen, and the limit of batches."""
    sigma2 = spectral.value
    sizes = {1 << k for k in range(n.bit_length()) if 1 << k <= n}
    sizes |= {n, size, spectral_batch_size(n, sigma2)}
    eps, rows = tol * constants.first_error, []
    for b in sorted(sizes):
        beta = beta_b(b, n, sigma2)
        pegasos_T = pegasos_iterations(beta, b, eps, constants)
        counts = sdca_iterations(beta, b, n, eps, constants)
        rows.append(PlanRow(b, beta, b / beta, pegasos_T, *counts))
    return rows
