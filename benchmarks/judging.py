"""What counts, from the rows of a race: the setting of each solver, its time, the ratios.

A row is one fit: set, loss, intercept, solver, threads, knob, seed, goal, seconds, suboptimality,
outcome.  The sub-optimality is relative to the optimum.  `goal` is empty for a fit on the way along
a solver's settings, and else the sub-optimality that this fit was to reach.  Except for `by_cell`,
functions get the rows of one cell.  Nothing here runs a solver.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, inf, log
from statistics import median
from typing import NamedTuple

from benchmarks.cells import Cell, cell_of

GOALS = (1e-3, 1e-6)
FINALISTS = 2  # peers per cell and goal that are timed together with ours
OURS = "batchsvm"
LEFT_BEHIND = 3.0  # times the seconds in which enough others reached the goal


class Entry(NamedTuple):
    """A solver with so many threads."""

    solver: str
    threads: int

    def __str__(self) -> str:
        return f"{self.solver}, {self.threads} thread{'s' * (self.threads > 1)}"


class Time(NamedTuple):
    """How an entry fared on the way to a goal: medians over the rounds.

    `ratio` is how many times faster than the best peer, round by round; `missed` counts
    the rounds that did not reach the goal after all.
    """

    knob: float
    seconds: float
    ratio: float
    missed: int


def entry_of(row: dict) -> Entry:
    return Entry(row["solver"], row["threads"])


def entries_in(rows: Iterable[dict], ours: str = OURS) -> list[Entry]:
    """Ours first, then the peers by name."""
    found = {entry_of(row) for row in rows}
    return sorted(found, key=lambda e: (e.solver != ours, e.solver.lower(), e.threads))


def along(rows: Iterable[dict], entry: Entry) -> dict[float, list[dict]]:
    """The entry's fits by setting, from the loosest to the tightest."""
    steps: dict[float, list[dict]] = {}
    for row in rows:
        if entry_of(row) == entry and not row["goal"]:
            steps.setdefault(row["knob"], []).append(row)
    return steps


def by_cell(rows: Iterable[dict]) -> dict[Cell, list[dict]]:
    found: dict[Cell, list[dict]] = {}
    for row in rows:
        found.setdefault(cell_of(row), []).append(row)
    return found


def screened(rows: Iterable[dict]) -> list[dict]:
    """The fits of the screening, which has one seed."""
    return [row for row in rows if not row["goal"] and row["seed"] == 0]


def reaches(row: dict, goal: float) -> bool:
    return row["outcome"] == "fitted" and row["suboptimality"] <= goal


def loosest(rows: Iterable[dict], entry: Entry, goal: float) -> dict | None:
    """The fit of the screening with the loosest setting that reaches the goal, if there is one."""
    for fits in along(screened(rows), entry).values():
        if reaches(fits[0], goal):
            return fits[0]
    return None


def fastest(rows: list[dict], goal: float, ours: str = OURS) -> list[tuple[float, Entry]]:
    """The peers that reached the goal in the screening, each with its best thread count, and their
    seconds; the fastest first."""
    best: dict[str, tuple[float, Entry]] = {}
    for entry in entries_in(rows, ours):
        fit = loosest(rows, entry, goal)
        if entry.solver != ours and fit is not None:
            best[entry.solver] = min(best.get(entry.solver, (inf, entry)), (fit["seconds"], entry))
    return sorted(best.values())


def finalists(rows: list[dict], goal: float, ours: str = OURS) -> list[Entry]:
    return [entry for _, entry in fastest(rows, goal, ours)[:FINALISTS]]


def is_left_behind(rows: list[dict], fit: dict, ours: str = OURS) -> bool:
    """Whether a peer cannot become a finalist any more, since tighter settings take longer.

    For each goal that this fit misses, enough others have reached it in a third of the time.  Ours
    always goes on.
    """
    missed = [goal for goal in GOALS if not reaches(fit, goal)]
    return fit["solver"] != ours and all(
        sum(
            LEFT_BEHIND * seconds < fit["seconds"]
            for seconds, entry in fastest(rows, goal, ours)
            if entry.solver != fit["solver"]
        )
        >= FINALISTS
        for goal in missed
    )


def times(rows: list[dict], goal: float, ours: str = OURS) -> dict[Entry, Time]:
    """Every entry that was raced to the goal."""
    fits: dict[Entry, dict[int, dict]] = {}
    for row in rows:
        if row["goal"] == goal:
            fits.setdefault(entry_of(row), {})[row["seed"]] = row
    whole = {
        entry: by_seed
        for entry, by_seed in fits.items()
        if all(fit["outcome"] == "fitted" for fit in by_seed.values())
    }
    best = best_peer(whole, ours)
    found = {}
    for entry, by_seed in whole.items():
        ratios = [
            whole[best][seed]["seconds"] / fit["seconds"]
            for seed, fit in by_seed.items()
            if best is not None and seed in whole[best]
        ]
        found[entry] = Time(
            next(iter(by_seed.values()))["knob"],
            median(fit["seconds"] for fit in by_seed.values()),
            median(ratios) if ratios else inf,
            sum(fit["suboptimality"] > goal for fit in by_seed.values()),
        )
    return found


def best_peer(fits: dict[Entry, dict[int, dict]], ours: str = OURS) -> Entry | None:
    """The peer, at its best thread count, with the smallest median time."""
    peers = [entry for entry in fits if entry.solver != ours]
    seconds = {
        entry: median(fit["seconds"] for fit in fits[entry].values()) for entry in peers
    }  # fmt: skip
    return min(peers, key=seconds.__getitem__, default=None)


def geometric_mean(values: Iterable[float]) -> float:
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))
