"""Sparse rows: text, with Snap ML beside it, and logs of clicks."""

from __future__ import annotations

from typing import Any

import numpy as np

import batchsvm
from benchmarks.gpu import generated
from benchmarks.gpu.measuring import Bench, facts_of

# Name, rows, columns, lam, and the absolute gap to stop at.
TEXTS = (
    ("text like rcv1", 20_242, 47_236, 1e-4, 1e-6),
    ("text", 400_000, 200_000, 1e-5, 1e-4),
)
TEXTS_QUICK = (("text like rcv1", 300, 500, 1e-2, 1e-3),)
SNAP_TOLS = tuple(10.0**-k for k in range(1, 9))
CLICKS, CLICKS_QUICK = (45_800_000, 1_000_000), (400, 2600)
CLICKS_LAM, CLICKS_TOL = 1e-7, 1e-3


def text(bench: Bench) -> None:
    for name, n, d, lam, goal in TEXTS_QUICK if bench.quick else TEXTS:
        X, y = generated.text(n, d)
        X = X.astype(np.float32)
        dual = time_text(bench, name, (X, y), lam, goal)
        time_snap(bench, name, (X, y), lam, goal, dual)


def time_text(bench: Bench, name: str, rows: Any, lam: float, goal: float) -> float:
    """Our fits, with X on the device and with its upload; a proven lower bound on the optimum."""
    X, y = rows
    on_device, labels = bench.device.csr(X), bench.xp.asarray(y)

    def fit(X: Any, y: Any, tol: float) -> Any:
        return batchsvm.fit(X, y, lam=lam, tol=tol, random_state=0, engine="gpu", warn=False)

    near = fit(on_device, labels, 1e-3).certificate.primal
    tol = 0.999 * goal / near  # relative to the objective, which is no larger at the end
    shape = {"rows": X.shape[0], "columns": X.shape[1], "nonzeros": int(X.nnz)}
    facts = shape | {"loss": "hinge", "lam": lam, "goal": goal, "tol": tol}
    first, _ = bench.seconds(lambda: fit(on_device, labels, tol))
    taken, solution = bench.warm(lambda: fit(on_device, labels, tol), 5)
    bench.keep(name, taken, **facts, first_seconds=first, **facts_of(solution))
    taken, solution = bench.warm(lambda: fit(X, y, tol), 5)
    bench.keep(f"{name}, with upload", taken, **facts, **facts_of(solution))
    closer = fit(on_device, labels, tol / 10)
    return float(closer.certificate.dual_below)


def primal(X: Any, y: np.ndarray, w: np.ndarray, lam: float) -> float:
    """The objective of the hinge loss in float64."""
    w = np.asarray(w, np.float64).ravel()
    margins = y * (X.astype(np.float64) @ w)
    return float(np.maximum(1 - margins, 0).mean() + lam / 2 * w @ w)


def time_snap(bench: Bench, name: str, rows: Any, lam: float, goal: float, dual: float) -> None:
    """Snap ML at its loosest tol that comes as close; its data are on the host."""
    try:
        from snapml import SupportVectorMachine
    except ImportError:
        return bench.skip(f"{name}, Snap ML", "snapml is not installed")
    X, y = rows

    def fit(tol: float) -> Any:
        model = SupportVectorMachine(
            loss="hinge", regularizer=lam * X.shape[0], tol=tol, fit_intercept=False,
            max_iter=100_000, use_gpu=True, device_ids=[0], random_state=0,
        )  # fmt: skip
        return model.fit(X, y).coef_

    fit(SNAP_TOLS[0])  # loads what it needs
    facts = {"rows": X.shape[0], "columns": X.shape[1], "loss": "hinge", "lam": lam, "goal": goal}
    for tol in SNAP_TOLS:
        seconds, w = bench.seconds(lambda tol=tol: fit(tol))
        above = primal(X, y, w, lam) - dual
        if above <= goal or seconds > 20:
            break
    taken, w = bench.warm(lambda: fit(tol), 5, budget=20)
    above = primal(X, y, w, lam) - dual
    bench.keep(
        f"{name}, Snap ML", taken, **facts, tol=tol, suboptimality=above, reached=above <= goal
    )
    return None


def clicks(bench: Bench) -> None:
    """One entry per field in each row, the logistic loss."""
    n, d = CLICKS_QUICK if bench.quick else CLICKS
    lam = 1e-2 if bench.quick else CLICKS_LAM
    columns, y = generated.clicks(n, d, xp=bench.xp)
    X = generated.clicks_csr(columns, d, bench.xp, bench.device.csr)
    del columns

    def fit() -> Any:
        return batchsvm.fit(
            X, y, "logistic", lam, tol=CLICKS_TOL, random_state=0, engine="gpu", warn=False
        )

    first, solution = bench.seconds(fit)
    del solution
    taken, solution = bench.repeated(fit, 3, budget=40)
    facts = {"rows": n, "columns": d, "nonzeros": n * generated.FIELDS, "loss": "logistic"}
    bench.keep(
        "clicks", taken, **facts, lam=lam, tol=CLICKS_TOL, first_seconds=first,
        **facts_of(solution),
    )  # fmt: skip
