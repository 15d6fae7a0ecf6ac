"""Rows of a race as tests make them up."""

from __future__ import annotations

import numpy as np

from benchmarks.cells import Cell
from benchmarks.judging import GOALS

CELL = Cell("small")


def row(solver="a", threads=1, knob=1.0, seed=0, goal="", seconds=1.0, error=0.0, cell=CELL):
    return {
        **cell._asdict(), "solver": solver, "threads": threads, "knob": knob, "seed": seed,
        "seconds": seconds, "suboptimality": error, "outcome": "fitted", "goal": goal,
    }  # fmt: skip


def canned(cell, paces, goals=GOALS):
    """Fits of the screening and two rounds, of which the second takes twice as long."""
    for solver, pace in paces.items():
        for goal in goals:
            point = {"knob": goal, "error": goal / 2, "cell": cell}
            seconds = -pace * np.log10(goal)
            yield row(solver, seconds=seconds, **point)
            for seed in range(2):
                yield row(solver, seed=seed, goal=goal, seconds=seconds * (1 + seed), **point)
