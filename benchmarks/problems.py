"""A cell with its data: the objective, whoever found the point, and the certified optimum."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from benchmarks.cells import Cell
from benchmarks.sets import OUTPUT, Set, load

CERTIFIED = 1e-8  # the relative gap of an optimum


class Problem(NamedTuple):
    data: Set
    cell: Cell


def problem_of(cell: Cell) -> Problem:
    return Problem(load(cell.set), cell)


def losses(name: str, margins: np.ndarray) -> np.ndarray:
    if name == "logistic":
        return np.logaddexp(0, -margins)
    return np.maximum(0, 1 - margins) ** (2 if name == "squared_hinge" else 1)


def objective(problem: Problem, point: np.ndarray) -> float:
    """P in float64; the point is w and, as its last entry, the intercept."""
    data, cell = problem
    w, intercept = np.asarray(point[:-1], dtype=float), float(point[-1])
    margins = data.y * (data.X @ w + intercept)
    return float(losses(cell.loss, margins).mean() + data.lam / 2 * (w @ w))


def optimum(problem: Problem) -> float:
    """A lower bound on the smallest P, certified to 1e-8 of it; found once and kept.

    Sub-optimality is measured from it, so that it is never understated.
    """
    data, cell = problem
    kept = OUTPUT / "optima.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    key = f"{cell}, lambda {data.lam:g}"
    if key not in known:
        known[key] = certified_bound(problem)
        OUTPUT.mkdir(exist_ok=True)
        kept.write_text(json.dumps(known, indent=1))
    return known[key]


def certified_bound(problem: Problem) -> float:
    from batchsvm import BatchSVC

    data, cell = problem
    # In float64, since the model of float32 rows is rounded to float32.
    exact = BatchSVC(
        cell.loss, lam=data.lam, tol=CERTIFIED, fit_intercept=cell.intercept == "free",
        intercept="free", max_epochs=100_000, n_jobs=-1, random_state=0,
    ).fit(data.X.astype(np.float64), data.y)  # fmt: skip
    certificate = exact.certificate_
    if certificate.gap > 1.1 * CERTIFIED * certificate.primal:
        raise SystemExit(f"the optimum of {cell} was not certified to {CERTIFIED:g}")
    return certificate.dual
