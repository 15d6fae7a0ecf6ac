"""The section about the race: the best peer of each cell against ours, and the screening."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from benchmarks import figures, results
from benchmarks.cells import Cell
from benchmarks.cells import cells as all_cells
from benchmarks.judging import (
    GOALS,
    OURS,
    Entry,
    best_peer,
    by_cell,
    entries_in,
    entry_of,
    geometric_mean,
    loosest,
    screened,
    times,
)
from benchmarks.words import length, table

METHOD = """One row is one problem: a data set, a loss, and no intercept or a free one, which is not
penalised. All solvers have the same λ. A solver takes part where it has exactly this objective:
one whose intercept is penalised is not in the rows with a free intercept.

Each solver runs in an environment of its own, in a process that has read the data and has been
warmed up. The time is that of the fit alone; ours includes checks, plan and certificates. Peers
with a data format of their own get the data converted beforehand. The sub-optimality is computed
outside the solver, in float64, from the coefficients that it returned. It is relative to the
optimum, which is certified to 1e-8.

First all solvers go along their settings, from loose to tight, one fit each. A peer stops when a
fit misses a goal that two others have reached in a third of its time, or takes longer than allowed.
Then the two fastest peers to each goal and ours take turns, each at the loosest setting that
reaches the goal with every seed. Times are medians over the rounds. In brackets: how many times
faster than the best peer ours is, the median of the ratios of all rounds.
"""
SCREENING = """Seconds to 1e-3 and to 1e-6, one fit each. A dash means that no setting that was
tried reached the goal: there was none left, or two other peers needed a third of the time of a fit
that missed it.
"""


def race(folder: Path) -> str:
    """The table of all cells, the screening, the curves."""
    cells = by_cell(results.read(folder, "race"))
    if not cells:
        return ""
    # A cell that has not got beyond the screening is not compared yet.
    found = {
        cell: {goal: times(rows, goal) for goal in GOALS}
        for cell, rows in cells.items()
        if any(row["goal"] for row in rows)
    }
    text = [
        "## Against the best peer\n",
        METHOD,
        *(summary(cells, found) if found else []),
        "## All solvers\n",
        SCREENING,
    ]
    for kind in dict.fromkeys((cell.loss, cell.intercept) for cell in cells):
        mine = {cell.set: rows for cell, rows in cells.items() if cell[1:] == kind}
        text += [f"### {words(*kind)}\n", screening(mine)]
    text += curves(
        folder, {cell.set: rows for cell, rows in cells.items() if cell == Cell(cell.set)}
    )
    return "\n".join([*text, "Raw numbers: [race.csv](race.csv).\n"])


def words(loss: str, intercept: str) -> str:
    name = loss.replace("_", " ")
    return f"{name}, free intercept" if intercept == "free" else f"{name}, no intercept"


def power(goal: float) -> str:
    return f"{goal:.0e}".replace("e-0", "e-")


def summary(cells: dict[Cell, list[dict]], found: dict[Cell, dict]) -> list[str]:
    """A row per cell, the geometric means, and where ours is not first."""
    ours = sorted({
        entry for rows in cells.values() for entry in entries_in(rows) if entry.solver == OURS
    })  # fmt: skip
    heads, lines, last = ["set", "loss", "intercept"], [], ["geometric mean", "", ""]
    for goal in GOALS:
        heads += [f"{power(goal)}: best peer", *(f"batchsvm, {count(entry)}" for entry in ours)]
        ratios = {entry: known_ratios(entry, found, goal) for entry in ours}
        means = [
            f"**{geometric_mean(mine):.2f}** of {len(mine)}" if mine else "–"
            for mine in ratios.values()
        ]
        last += ["", *means]
    behind = []
    for cell, goals in found.items():
        line = [cell.set, cell.loss.replace("_", " "), cell.intercept]
        for goal in GOALS:
            second = is_behind(goals[goal])
            if second:
                behind.append(f"{cell.set}, {words(*cell[1:])}, to {power(goal)}")
            line.append(peer_cell(goals[goal]))
            line += [our_cell(entry, goals[goal], cells[cell], second) for entry in ours]
        lines.append(line)
    verdict = (
        f"batchsvm is **not first** in {len(behind)} of {len(found) * len(GOALS)} comparisons: "
        + "; ".join(behind)
        if behind
        else f"batchsvm is first in all {len(found) * len(GOALS)} comparisons"
    )
    return [table(heads, [*lines, last]), verdict + ".\n", not_raced(found)]


def not_raced(found: dict[Cell, dict]) -> str:
    """Which cells are missing; a trial has cells of its own."""
    missing = [cell for cell in all_cells() if cell not in found]
    if not missing or not set(found) <= set(all_cells()):
        return ""
    listed = "; ".join(f"{cell.set}, {words(*cell[1:])}" for cell in missing)
    return f"{len(missing)} of {len(all_cells())} cells have not been raced: {listed}.\n"


def count(entry: Entry) -> str:
    return "1 thread" if entry.threads == 1 else f"{entry.threads} threads"


def known_ratios(entry: Entry, found: dict[Cell, dict], goal: float) -> list[float]:
    """The ratios to the best peer, of the cells where there is one and ours reached the goal."""
    mine = [goals[goal][entry].ratio for goals in found.values() if entry in goals[goal]]
    return [ratio for ratio in mine if isfinite(ratio)]


def best_of(reached: dict) -> Entry | None:
    return best_peer({entry: {0: {"seconds": time.seconds}} for entry, time in reached.items()})


def is_behind(reached: dict) -> bool:
    """Whether a peer is faster than ours with any number of threads."""
    ratios = [time.ratio for entry, time in reached.items() if entry.solver == OURS]
    return best_of(reached) is not None and max(ratios, default=0.0) < 1.0


def peer_cell(reached: dict) -> str:
    best = best_of(reached)
    return f"{best}: {timed(best, reached)}" if best else "none reached it"


def our_cell(entry: Entry, reached: dict, rows: list[dict], second: bool) -> str:
    mark = ", **not first**" if second else ""
    if entry not in reached:
        return "–" + complaint(entry, rows) + mark
    ratio = reached[entry].ratio
    times_faster = f" ({ratio:.2f}{mark})" if isfinite(ratio) else ""
    return timed(entry, reached) + times_faster


def timed(entry: Entry, reached: dict) -> str:
    missed = reached[entry].missed
    return length(reached[entry].seconds) + (f", missed {missed} times" if missed else "")


def complaint(entry: Entry, rows: list[dict]) -> str:
    """Why an entry stopped before it reached a goal, if it did not run out of settings."""
    for row in rows:
        if entry_of(row) == entry and row["outcome"] == "too slow":
            return f" (more than {length(row['seconds'])})"
        if entry_of(row) == entry and row["outcome"] != "fitted":
            return f" ({row['outcome']})"
    return ""


def screening(sets: dict[str, list[dict]]) -> str:
    """All entries on all sets, for one loss and intercept."""
    entries = entries_in(row for rows in sets.values() for row in rows)
    lines = []
    for entry in entries:
        line = [str(entry)]
        for rows in sets.values():
            fits = [loosest(rows, entry, goal) for goal in GOALS]
            why = "" if all(fits) else complaint(entry, screened(rows))
            line.append(" / ".join(length(fit["seconds"]) if fit else "–" for fit in fits) + why)
        lines.append(line)
    return table(["solver", *sets], lines)


def curves(folder: Path, sets: dict[str, list[dict]]) -> list[str]:
    text = []
    for name, rows in sets.items():
        figures.curves(folder, name, rows)
        text.append(f"![seconds against sub-optimality on {name}]({name}.png)\n")
    return text and ["### Along the settings: hinge, no intercept\n", *text]
