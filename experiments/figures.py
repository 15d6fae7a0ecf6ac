"""Figures 1 and 2 of the paper, and the losses and variants beyond it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import batchsvm
from experiments.cells import FIGURE_1, PAPER

COLOURS = {
    "pegasos": "tab:grey", "naive": "tab:red", "safe": "tab:blue", "aggressive": "tab:green",
    "gram": "tab:purple",
}  # fmt: skip
LOSS_LINES = {"hinge": "-", "logistic": "--", "smoothed_hinge": ":"}
MARKERS = {"pegasos": "o", "naive": "v", "safe": "s", "aggressive": "D", "gram": "P"}


def save(figure, folder: Path, name: str) -> None:
    """As SVG and PNG, without the date, so that the same numbers give the same file."""
    plt.rcParams["svg.hashsalt"] = name
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=110)
    plt.close(figure)


def panel(axes: Axes, rows: list[dict], n: int, sigma2: float, title: str) -> None:
    """Iterations against b for each method: median and range over seeds, failures marked."""
    sizes = sorted({row["b"] for row in rows})
    top = 3 * max((row["iterations"] for row in rows if row["iterations"]), default=1)
    for shift, method in enumerate(FIGURE_1):
        mine = [row for row in rows if row["method"] == method]
        if not mine:
            continue
        found, missed = by_size(mine)
        colour, height = COLOURS[method], top * 1.6**shift
        middle = [np.median(found.get(b, np.nan)) for b in sizes]  # a line breaks where b failed
        axes.loglog(sizes, middle, color=colour, marker=MARKERS[method], markersize=4, label=method)
        low, high = ([pick(found.get(b, [np.nan])) for b in sizes] for pick in (min, max))
        axes.fill_between(sizes, low, high, color=colour, alpha=0.2, linewidth=0)
        for end, marker in (("failed", "x"), ("unfinished", "^")):
            at = [b for b, outcome in missed.items() if outcome == end]
            axes.plot(at, [height] * len(at), marker, color=colour, markersize=5, fillstyle="none")
    axes.axvline(1 / sigma2, color="black", linewidth=0.7, linestyle=":")
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("b")
    right = axes.twinx()
    betas = [batchsvm.beta_b(b, n, sigma2) / b for b in sizes]
    right.loglog(sizes, betas, color="black", linewidth=0.9, linestyle="--")
    right.set_ylabel("β_b / b (dashed)", fontsize=8)
    axes.legend(fontsize=7, loc="lower left")


def by_size(rows: list[dict]) -> tuple[dict[int, list[int]], dict[int, str]]:
    """Iterations by b where most runs got there, and elsewhere how most of the others ended."""
    found, missed = {}, {}
    for b in sorted({row["b"] for row in rows}):
        there = [row for row in rows if row["b"] == b]
        values = [row["iterations"] for row in there if row["iterations"] is not None]
        if 2 * len(values) > len(there):
            found[b] = values
        else:
            ends = [row["outcome"] for row in there if row["iterations"] is None]
            missed[b] = max(sorted(set(ends)), key=ends.count)
    return found, missed


def losses(folder: Path, rows: list[dict], names: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    """Iterations against b: colours are methods, lines are losses; medians over seeds."""
    figure, grid = plt.subplots(
        1, len(names), figsize=(5.2 * len(names), 4.4), squeeze=False, constrained_layout=True
    )
    for axes, name in zip(grid.flat, names, strict=True):
        for loss, line in LOSS_LINES.items():
            for method in PAPER:
                found, _ = by_size(
                    [
                        row for row in rows
                        if (row["data"], row["loss"], row["method"]) == (name, loss, method)
                        and row["b"] in sizes
                    ]
                )  # fmt: skip
                axes.loglog(
                    sizes, [np.median(found.get(b, np.nan)) for b in sizes], line,
                    color=COLOURS[method], marker=MARKERS[method], markersize=3,
                    label=method if loss == "hinge" else None,
                )  # fmt: skip
        for loss, line in LOSS_LINES.items():
            axes.plot([], [], line, color="black", label=loss.replace("_", " "))
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("b")
        axes.set_ylabel("iterations to 0.001")
        axes.legend(fontsize=7)
    save(figure, folder, "losses")


def panels(names: Iterable[str]) -> Iterator[tuple[str, Axes]]:
    """A panel of a new figure for each name, two beside each other; others stay empty."""
    names = list(names)
    across = min(2, len(names))
    down = -(-len(names) // across)
    _, grid = plt.subplots(
        down, across, figsize=(5.2 * across, 4 * down), squeeze=False, constrained_layout=True
    )
    for axes in grid.flat[len(names) :]:
        axes.axis("off")
    return zip(names, grid.flat, strict=False)


def figure1(
    folder: Path, name: str, rows: list[dict], facts: dict[str, tuple[int, float]], what: str
) -> None:
    """One panel a set; a cross or triangle above the curves: most runs did not get there."""
    for data, axes in panels(facts):
        panel(axes, [row for row in rows if row["data"] == data], *facts[data], data)
        axes.set_ylabel("iterations to 0.001")
    plt.gcf().suptitle(what, fontsize=10)
    save(plt.gcf(), folder, name)


def clock(folder: Path, spent: dict[tuple, float], names: tuple[str, ...]) -> None:
    """Seconds to the accuracy against b: one thread solid, more of them dashed."""
    threads = sorted({jobs for *_, jobs in spent})
    for name, axes in panels(names):
        sizes = sorted({b for data, _, b, _ in spent if data == name})
        for method in PAPER:
            for jobs in threads:
                found = [spent.get((name, method, b, jobs), np.nan) for b in sizes]
                if not np.isnan(found).all():
                    axes.loglog(
                        sizes, found,
                        "-" if jobs == 1 else "--", color=COLOURS[method],
                        marker=MARKERS[method], markersize=4,
                        label=f"{method}, {jobs} thread{'s' * (jobs > 1)}",
                    )  # fmt: skip
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("b")
        axes.set_ylabel("seconds to 0.001")
        axes.legend(fontsize=7, handlelength=4)
    save(plt.gcf(), folder, "clock")


def figure2(folder: Path, paths: list[dict]) -> None:
    """Primal (solid) and dual (dashed) sub-optimality, and test error, along a run."""
    cases = sorted({(row["data"], row["b"]) for row in paths})
    figure, grid = plt.subplots(
        2, len(cases), figsize=(4.2 * len(cases), 6.4), squeeze=False, constrained_layout=True
    )
    for column, (data, b) in enumerate(cases):
        for method in PAPER:
            rows = [
                row for row in paths
                if (row["data"], row["b"], row["method"]) == (data, b, method) and row["iteration"]
            ]  # fmt: skip
            at = [row["iteration"] for row in rows]
            colour = COLOURS[method]
            primal = [max(row["primal"], 1e-7) for row in rows]
            dual = [max(row["dual"], 1e-7) for row in rows]
            grid[0, column].loglog(at, primal, color=colour, label=method)
            grid[0, column].loglog(at, dual, color=colour, linestyle="--", linewidth=0.9)
            grid[1, column].semilogx(at, [row["test_error"] for row in rows], color=colour)
        grid[0, column].set_title(f"{data}, b = {b:,}", fontsize=10)
        grid[0, column].set_ylim(1e-6, 10)
        grid[1, column].set_xlabel("iterations")
        errors = sorted(row["test_error"] for row in paths if (row["data"], row["b"]) == (data, b))
        grid[1, column].set_ylim(0.9 * errors[0], min(1.0, 4 * errors[len(errors) // 2]))
    grid[0, 0].set_ylabel("sub-optimality: primal solid, dual dashed")
    grid[1, 0].set_ylabel("test error")
    grid[0, 0].legend(fontsize=8)
    save(figure, folder, "figure2")
