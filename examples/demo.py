"""The main job, on two data sets: plan, train with the methods of the paper, certify, plot.

Run by `make demo`.  The first set ships with scikit-learn; the second is generated and
looks like text: sparse, wide, with frequent and rare words.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import batchsvm
from batchsvm.datasets import text

OUTPUT = Path("demo-output")
METHODS = ("pegasos", "naive", "safe", "aggressive")
COLOURS = dict(zip(METHODS, ("tab:grey", "tab:red", "tab:blue", "tab:green"), strict=True))
console = Console()


def breast_cancer():
    data = load_breast_cancer()
    return StandardScaler().fit_transform(data.data), data.target


def show_plan(plan):
    console.print(
        f"{plan.n:,} rows x {plan.d:,} columns; sigma^2: {plan.sigma2:.4g} ({plan.sigma2.how})"
    )
    table = Table("b", "beta_b", "predicted speed-up", title="How far batches can go")
    for row in plan.table:
        style = "bold green" if row.b == plan.batch_limit else None
        table.add_row(f"{row.b:,}", f"{row.beta_b:.2f}", f"{row.speedup:.2f}x", style=style)
    console.print(table)
    console.print(f"fit alone takes {plan.method_in_words}: {plan.reason}.")
    console.print(f"Batches pay up to b = {plan.batch_limit}, where beta_b is 2.\n")


def run(name, X, y, lam, tol):
    console.rule(f"[bold]{name}")
    plan = batchsvm.plan(X, lam=lam, tol=tol)
    show_plan(plan)
    sizes = [1, plan.batch_limit, plan.n // 2]
    cases = [("pegasos", 1), ("safe", 1)] + [(method, b) for b in sizes[1:] for method in METHODS]
    table = Table(
        "method", "b", "iterations", "ms", "primal", "dual", "bound/P", "verdict",
        title=f"Certificates: lam = {lam:g}, tol = {tol:g}", box=box.SIMPLE_HEAD, padding=0,
    )  # fmt: skip
    solutions = {}
    for method, b in track(cases, description="Training", console=console, transient=True):
        solution = solutions[method, b] = train(X, y, lam, tol, method, b)
        certificate, history = solution.certificate, solution.history
        good = solution.status.converged
        table.add_row(
            label(method, b),
            f"{b:,}",
            f"{history.iteration[-1]:,.0f}",
            f"{1000 * history.seconds[-1]:.1f}",
            f"{certificate.primal:.4f}",
            f"{certificate.dual:.4f}",
            f"{certificate.relative_gap:.1e}",
            "certified" if good else "open",
            style=None if good else "yellow",
        )
    console.print(table)
    return plan, sizes, solutions


def train(X, y, lam, tol, method, b, epochs=100):
    """A fit with thirty certificates along the way, for the plot."""
    n = X.shape[0]
    arguments = {"lam": lam, "tol": tol, "method": method, "batch_size": b, "random_state": 0}
    with warnings.catch_warnings():
        # Pegasos takes its time and naive may fail: the table says so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        batchsvm.fit(X, y, max_epochs=b / n, **arguments)  # compiles, if that is still to do
        at = np.unique(np.geomspace(1, epochs * n / b, 30).astype(int))
        return batchsvm.fit(X, y, max_epochs=epochs, checkpoints=at, **arguments)


def label(method, b):
    """With batches of one, naive, safe and aggressive are the same method."""
    return "serial SDCA" if b == 1 and method != "pegasos" else method


def plot(axes, name, plan, sizes, solutions):
    for axis, size in zip(axes, sizes, strict=True):
        for (method, b), solution in solutions.items():
            if b == size:
                history = solution.history
                axis.loglog(
                    np.maximum(history.iteration, 0.5),
                    np.maximum(history.gap / np.minimum.accumulate(history.primal), plan.tol / 10),
                    color=COLOURS[method],
                    marker=".",
                    label=label(method, b),
                )
        axis.axhline(plan.tol, color="black", linewidth=0.8, linestyle=":")
        axis.set_title(f"{name}, b = {size:,}", fontsize=10)
        axis.set_xlabel("iterations")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    axes[0].set_ylabel("gap / primal")


def main():
    began = time.perf_counter()
    OUTPUT.mkdir(exist_ok=True)
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.5), constrained_layout=True, sharey=True)
    sets = [
        ("breast cancer", *breast_cancer(), 1e-2, 1e-3),
        ("generated text", *text(8000, 20000, 40), 1e-3, 1e-3),
    ]
    for row, (name, X, y, lam, tol) in zip(axes, sets, strict=True):
        plot(row, name, *run(name, X, y, lam, tol))
    figure.savefig(OUTPUT / "convergence.png", dpi=120)
    console.print(f"\nConvergence plot: {OUTPUT / 'convergence.png'}")
    console.print(f"All of this took {time.perf_counter() - began:.1f} s.")


if __name__ == "__main__":
    main()
