"""How fast, how large, how soon: serial SDCA against scikit-learn's LinearSVC.

    BATCHSVM_DATA=<folder> make bench

Everything is measured in one run, the two solvers taking turns, medians of seven.
Sub-optimality is computed here from the returned w, against an optimum certified to
1e-7; a fit of ours is timed whole: checks, plan, iterations, certificates.  The tolerance
of each solver is the loosest of its grid that reaches 1e-3.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from statistics import median

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import batchsvm
from sets import LAM, Set, load

TARGET = 1e-3
REPEATS = 7
SVC_TOLS = (3.0, 2.0, 1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)
OUR_TOLS = (4e-3, 3e-3, 2e-3, 1.5e-3, 1e-3)
console = Console()


def objective(data: Set, w: np.ndarray) -> float:
    return np.maximum(0, 1 - data.y * (data.X @ w)).mean() + data.lam / 2 * w @ w


def svc(data: Set, tol: float, seed: int) -> np.ndarray:
    model = LinearSVC(
        loss="hinge", C=1 / (data.lam * data.X.shape[0]), fit_intercept=False, tol=tol,
        random_state=seed,
    )  # fmt: skip
    return model.fit(data.X, data.y).coef_[0]


def ours(data: Set, tol: float, seed: int) -> np.ndarray:
    return batchsvm.fit(data.X, data.y, lam=data.lam, batch_size=1, tol=tol, random_state=seed).w


def loosest(data: Set, solver, tols, optimum: float) -> float:
    """The loosest tolerance that reaches the target with each of three seeds."""
    for tol in tols:
        if all(objective(data, solver(data, tol, seed)) - optimum <= TARGET for seed in range(3)):
            return tol
    raise SystemExit(f"no tolerance of {solver.__name__} reaches {TARGET} on {data.name}")


def seconds(call, *args) -> float:
    began = time.perf_counter()
    call(*args)
    return time.perf_counter() - began


def speed(sets: list[Set]) -> None:
    table = Table(
        "set", "LinearSVC tol", "ms", "our tol", "ms", "ours / LinearSVC", "of it certifying",
        title=f"Time to a sub-optimality of {TARGET:g}, median of {REPEATS}",
    )  # fmt: skip
    for data in track(sets, "Speed", console=console, transient=True):
        exact = batchsvm.fit(data.X, data.y, lam=data.lam, tol=1e-7, max_epochs=5000)
        optimum = exact.certificate.primal
        svc_tol = loosest(data, svc, SVC_TOLS, optimum)
        our_tol = loosest(data, ours, OUR_TOLS, optimum)
        pairs = [
            (seconds(svc, data, svc_tol, seed), seconds(ours, data, our_tol, seed))
            for seed in range(REPEATS)
        ]
        theirs, mine = (median(column) for column in zip(*pairs, strict=True))
        ratio = median(b / a for a, b in pairs)
        history = batchsvm.fit(
            data.X, data.y, lam=data.lam, batch_size=1, tol=our_tol, random_state=0
        ).history
        share = history.certify_seconds[-1] / (history.seconds[-1] + history.certify_seconds[-1])
        table.add_row(
            data.name, f"{svc_tol:g}", f"{1000 * theirs:.0f}", f"{our_tol:g}",
            f"{1000 * mine:.0f}", f"{ratio:.2f}", f"{share:.0%}",
        )  # fmt: skip
    console.print(table)


def certifying(sets: list[Set]) -> None:
    table = Table(
        "set", "tol", "epochs", "certificates", "share of the run",
        title="What certificates cost in longer runs",
    )  # fmt: skip
    for data in track(sets, "Certificates", console=console, transient=True):
        for tol in (1e-5, 1e-6):
            history = batchsvm.fit(
                data.X, data.y, lam=data.lam, batch_size=1, tol=tol, random_state=0
            ).history
            total = history.seconds[-1] + history.certify_seconds[-1]
            table.add_row(
                data.name, f"{tol:g}", f"{history.epoch[-1]:.0f}", f"{len(history) - 1}",
                f"{history.certify_seconds[-1] / total:.1%}",
            )  # fmt: skip
    console.print(table)


def memory(sets: list[Set]) -> None:
    table = Table(
        "set", "method", "peak beside the data", "in vectors of n + d", title="Memory of a fit"
    )
    for data in track(sets, "Memory", console=console, transient=True):
        n, d = data.X.shape
        for method, b in (("auto", 1), ("safe", 64), ("aggressive", 64), ("pegasos", 64)):
            arguments = {"lam": data.lam, "method": method, "batch_size": b, "max_epochs": 2}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                batchsvm.fit(data.X, data.y, **arguments)  # compiled before it is measured
                tracemalloc.start()
                batchsvm.fit(data.X, data.y, **arguments)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            table.add_row(
                data.name, f"{method}, b = {b}", f"{peak / 2**20:.1f} MiB",
                f"{peak / 8 / (n + d):.2f}",
            )  # fmt: skip
    console.print(table)


FIRST_FIT = """
import numpy as np, batchsvm
X = np.random.default_rng(0).normal(size=(1000, 20))
batchsvm.fit(X, np.sign(X[:, 0]), lam=1e-2, random_state=0)
"""


def start_up() -> None:
    table = Table("cache", "seconds", title="A new process: import and first fit on 1,000 rows")
    with tempfile.TemporaryDirectory() as folder:

        def fresh(cache: str) -> float:
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            command = [sys.executable, "-c", FIRST_FIT]
            return seconds(
                lambda: subprocess.run(command, env=environment, check=True, capture_output=True)
            )

        cold = [fresh(os.path.join(folder, str(k))) for k in range(5)]
        warm = [fresh(os.path.join(folder, "0")) for _ in range(5)]
    table.add_row("cold", f"{median(cold):.2f}")
    table.add_row("warm", f"{median(warm):.2f}")
    console.print(table)


SECTIONS = {"speed": speed, "certifying": certifying, "memory": memory}


def main() -> None:
    """All sections, or those named on the command line."""
    wanted = sys.argv[1:] or ["start_up", *SECTIONS]
    if "start_up" in wanted:
        start_up()
    sets = [load(name) for name in LAM]
    for name, section in SECTIONS.items():
        if name in wanted:
            section(sets)


if __name__ == "__main__":
    main()
