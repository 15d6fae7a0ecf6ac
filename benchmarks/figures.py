"""Seconds against sub-optimality, one figure a set: the hinge without an intercept."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.judging import GOALS, OURS, along, entries_in, screened

FLOOR = 1e-8  # what the optimum is certified to: less means nothing


def curves(folder: Path, name: str, rows: list[dict]) -> None:
    """Each entry along its settings, in the screening; ours black, peers in a colour each."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    entries = entries_in(rows)
    peers = list(dict.fromkeys(entry.solver for entry in entries if entry.solver != OURS))
    for entry in entries:
        points = [
            (fit["seconds"], max(FLOOR, fit["suboptimality"]))
            for [fit] in along(screened(rows), entry).values()
            if fit["outcome"] == "fitted"
        ]
        if not points:
            continue
        ours = entry.solver == OURS
        colour = "black" if ours else f"C{peers.index(entry.solver) % 10}"
        axes.loglog(
            *zip(*points, strict=True), color=colour, label=str(entry), marker="o", markersize=3,
            linewidth=2 if ours else 1, linestyle="-" if entry.threads == 1 else "--",
        )  # fmt: skip
    for goal in GOALS:
        axes.axhline(goal, color="grey", linewidth=0.5, linestyle=":")
    axes.set(title=name, xlabel="seconds", ylabel="sub-optimality of the primal, relative")
    axes.set_ylim(top=1)
    axes.legend(fontsize=7)
    save(figure, folder, name)


def save(figure, folder: Path, name: str) -> None:
    """As SVG and PNG, without the date, so that the same numbers give the same file."""
    plt.rcParams["svg.hashsalt"] = name
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=110)
    plt.close(figure)
