"""Losses and shapes other than the hinge on text: ours against scikit-learn's solvers.

    python -m benchmarks.shapes [--rounds 5] [--only NAME ...] [--out FOLDER]

Each shape is generated.  A peer is fitted with some values of its tol; the largest one with which
its objective is at most 1e-3 above the optimum is its best setting.  Then ours, with tol 1e-3, and
the peers take turns, and the medians of the rounds are compared: a ratio above 1 says that ours is
faster than the fastest peer.  The optimum is that of a fit with tol 1e-9.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_sample_weight

from batchsvm import BatchSVC, losses
from benchmarks import results

GOAL = 1e-3  # how far above its optimum an objective may be, as a part of it
PAUSE = 0.05  # seconds before a fit, in which threads of BLAS that spin while they wait go to sleep
PEER_TOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


class Shape(NamedTuple):
    """A problem, and the peers that solve the same one."""

    make: Callable[[], tuple[Any, np.ndarray]]
    loss: str
    lam: float
    peers: dict[str, Callable[[float, float], Any]]  # from C and tol to an estimator
    intercept: str = "penalised"
    class_weight: str | None = None


def rare(n: int = 200_000, d: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """One row in a thousand is of the rare class."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) / d**0.5
    score = X @ rng.standard_normal(d) + 2.0 * rng.standard_normal(n)
    return X, np.where(score > np.quantile(score, 0.999), 1, -1)


def raw_columns(n: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Like covertype before scaling: ten columns in hundreds and thousands, 44 of 0 and 1."""
    rng = np.random.default_rng(0)
    sizes = rng.uniform(100, 3000, 10)
    numbers = sizes * (1.0 + 0.3 * rng.standard_normal((n, 10)))
    groups = np.zeros((n, 44))
    groups[np.arange(n), rng.integers(0, 4, n)] = 1.0
    groups[np.arange(n), 4 + rng.integers(0, 40, n)] = 1.0
    scaled = (numbers - sizes) / (0.3 * sizes)
    rule = np.concatenate([rng.standard_normal(10), rng.standard_normal(44)])
    score = np.hstack([scaled, groups]) @ rule
    noise = 0.25 * score.std() * rng.standard_normal(n)
    return np.hstack([numbers, groups]), np.where(score + noise > np.median(score), 1, -1)


def some_positive(n: int, d: int, share: float, density: float = 1.0) -> tuple[Any, np.ndarray]:
    """A share of the rows is positive."""
    rng = np.random.default_rng(0)
    if density < 1.0:
        X: Any = sp.random(n, d, density, "csr", random_state=0, data_rvs=rng.standard_normal)
    else:
        X = rng.standard_normal((n, d))
    score = X @ rng.standard_normal(d)
    score = score + score.std() * rng.standard_normal(n)
    return X, np.where(score > np.quantile(score, 1 - share), 1, -1)


def linear_svc(C: float, tol: float, **options: Any) -> LinearSVC:
    return LinearSVC(C=C, tol=tol, dual=False, max_iter=10_000, **options)


def logistic(solver: str, **options: Any) -> Callable[[float, float], LogisticRegression]:
    return lambda C, tol: LogisticRegression(
        C=C, tol=tol, solver=solver, max_iter=10_000, **options
    )


def both_logistic(**options: Any) -> dict[str, Callable[[float, float], Any]]:
    return {
        f"LogisticRegression({solver})": logistic(solver, **options)
        for solver in ("lbfgs", "newton-cholesky")
    }


SHAPES = {
    "rare, squared hinge": Shape(
        rare, "squared_hinge", 1e-4,
        {"LinearSVC(dual=False)": lambda C, tol: linear_svc(C, tol, class_weight="balanced")},
        class_weight="balanced",
    ),
    "rare, logistic": Shape(
        rare, "logistic", 1e-4, both_logistic(class_weight="balanced"), "free", "balanced"
    ),
    "raw columns, logistic": Shape(raw_columns, "logistic", 1e-4, both_logistic(), "free"),
    "50 k x 22, logistic": Shape(
        lambda: some_positive(50_000, 22, 0.1), "logistic", 1e-4, both_logistic(), "free"
    ),
    "sparse 50 k x 300, logistic": Shape(
        lambda: some_positive(50_000, 300, 0.03, 0.05), "logistic", 1e-4, both_logistic(), "free"
    ),
}  # fmt: skip


def ours(shape: Shape, tol: float, n_jobs: int) -> BatchSVC:
    return BatchSVC(
        shape.loss, lam=shape.lam, tol=tol, intercept=shape.intercept, n_jobs=n_jobs,
        class_weight=shape.class_weight, random_state=0,
    )  # fmt: skip


def objective(shape: Shape, X: Any, y: np.ndarray, model: Any) -> float:
    """P of a fitted model, whoever fitted it."""
    weight = compute_sample_weight(shape.class_weight, y)
    responses = y * (X @ np.ravel(model.coef_) + float(np.ravel(model.intercept_)[0]))
    mean = weight @ losses.LOSSES[shape.loss]().value(responses) / weight.sum()
    square = float(np.sum(np.square(model.coef_)))
    if shape.intercept == "penalised":
        square += float(np.sum(np.square(model.intercept_)))
    return float(mean + shape.lam / 2 * square)


def seconds(model: Any, X: Any, y: np.ndarray) -> float:
    time.sleep(PAUSE)
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began


def best_settings(
    shape: Shape, X: Any, y: np.ndarray, optimum: float
) -> dict[str, Callable[[], Any]]:
    """Each peer that gets close enough, with the largest tol for which it does."""
    found: dict[str, Callable[[], Any]] = {}
    C = 1 / (shape.lam * compute_sample_weight(shape.class_weight, y).sum())
    for name, peer in shape.peers.items():
        for tol in PEER_TOLS:
            try:
                model = peer(C, tol).fit(X, y)
            except (ValueError, TypeError):
                break
            if objective(shape, X, y, model) <= optimum * (1 + GOAL):
                found[f"{name}, tol {tol:g}"] = lambda peer=peer, tol=tol: peer(C, tol)
                break
    return found


def race(name: str, shape: Shape, rounds: int, n_jobs: int) -> list[dict]:
    X, y = shape.make()
    optimum = objective(shape, X, y, ours(shape, 1e-9, n_jobs).fit(X, y))
    runners = {"batchsvm": lambda: ours(shape, GOAL, n_jobs)}
    runners |= best_settings(shape, X, y, optimum)
    times: dict[str, list[float]] = {who: [] for who in runners}
    last: dict[str, Any] = {}
    for _ in range(rounds):
        for who, make in runners.items():
            last[who] = make()
            times[who].append(seconds(last[who], X, y))
    fastest = min(median(times[who]) for who in runners if who != "batchsvm")
    rows = []
    for who in runners:
        above = objective(shape, X, y, last[who]) / optimum - 1
        rows.append(
            {"shape": name, "solver": who, "median_s": median(times[who]),
             "least_s": min(times[who]),
             "above": above, "ratio": fastest / median(times[who])}
        )  # fmt: skip
    model = last["batchsvm"]
    print(
        f"{name}: optimum {optimum:.6g}, accuracy {model.score(X, y):.4f}, {model.n_iter_} epochs"
    )
    print(f"  {model.plan_.reason}")
    for row in rows:
        print(
            f"  {row['solver']:48} {row['median_s']:8.3f} s  above {row['above']:9.2e}"
            f"  ratio {row['ratio']:.2f}",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--only", nargs="*", default=list(SHAPES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict] = []
    for name in options.only:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rows += race(name, SHAPES[name], options.rounds, options.jobs)
    if options.out is not None:
        results.write(options.out, "shapes", rows, {"rounds": options.rounds})


if __name__ == "__main__":
    main()
