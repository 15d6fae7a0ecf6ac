"""Seconds against sub-optimality, one figure a set."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.judging import GOALS, along, entries_in

FLOOR = 1e-8  # what the optimum is certified to: less means nothing


def curves(folder: Path, name: str, rows: list[dict]) -> None:
    """The medians of each entry along its settings; ours black, peers in a colour each."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    entries = entries_in(rows)
    peers = list(dict.fromkeys(entry.solver for entry in entries if entry.solver != "batchsvm"))
    for entry in entries:
        steps = [
            [fit for fit in fits if fit["outcome"] == "fitted"]
            for fits in along(rows, entry).values()
        ]
        points = [
            (
                median(fit["seconds"] for fit in fits),
                max(FLOOR, median(fit["suboptimality"] for fit in fits)),
            )
            for fits in steps
            if fits
        ]
        if not points:
            continue
        ours = entry.solver == "batchsvm"
        colour = "black" if ours else f"C{peers.index(entry.solver)}"
        axes.loglog(
            *zip(*points, strict=True), color=colour, label=str(entry), marker="o", markersize=3,
            linewidth=2 if ours else 1, linestyle="-" if entry.threads == 1 else "--",
        )  # fmt: skip
    for goal in GOALS:
        axes.axhline(goal, color="grey", linewidth=0.5, linestyle=":")
    axes.set(title=name, xlabel="seconds", ylabel="sub-optimality of the primal")
    axes.set_ylim(top=1)
    axes.legend(fontsize=7)
    save(figure, folder, name)


def save(figure, folder: Path, name: str) -> None:
    """As SVG and PNG, without the date, so that the same numbers give the same file."""
    plt.rcParams["svg.hashsalt"] = name
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=110)
    plt.close(figure)
