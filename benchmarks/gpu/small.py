"""Data so small that the threads of the host may be done first, and what the plan says of it."""

from __future__ import annotations

from typing import Any

import batchsvm
from benchmarks.gpu import generated
from benchmarks.gpu.measuring import Bench, facts_of

# Rows, columns, classes, lam.
SIZES = ((60_000, 784, 10, 1e-4), (150, 4, 3, 1e-2))
SIZES_QUICK = ((200, 8, 3, 0.1), (150, 4, 3, 0.1))
WARNING = "is likely to be faster"  # of core/device_layout.py
ENGINES = {"gpu": None, "cpu": -1}  # with so many threads


def small(bench: Bench) -> None:
    """The gpu engine, with the upload of X, against the cpu engine on all cores."""
    for size in SIZES_QUICK if bench.quick else SIZES:
        time_engines(bench, *size)


def time_engines(bench: Bench, n: int, d: int, classes: int, lam: float) -> None:
    X, labels = generated.embeddings(n, d, classes)
    said = WARNING in batchsvm.plan(X, lam=lam, engine="gpu").reason
    shape = {"rows": n, "columns": d, "classes": classes, "loss": "hinge", "lam": lam}
    for engine, jobs in ENGINES.items():

        def fit(engine: str = engine, jobs: int | None = jobs) -> Any:
            return batchsvm.fit_many(
                X, labels, lam=lam, random_state=0, engine=engine, n_jobs=jobs, warn=False
            )

        first, _ = bench.seconds(fit)
        taken, solutions = bench.repeated(fit, 5)
        bench.keep(
            f"{n:,} x {d}, {classes} classes, {engine}", taken, **shape, engine=engine,
            first_seconds=first, said_beforehand=said, **facts_of(solutions),
        )  # fmt: skip
