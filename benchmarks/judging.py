"""What counts, from the rows of a race: the setting of each solver, its time, the ratios.

A row is one fit: set, solver, threads, knob, seed, goal, seconds, suboptimality, outcome.
`goal` is empty for a fit on the way along a solver's settings, and else the sub-optimality
that this fit was to reach.  Nothing here runs a solver.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, inf, log
from statistics import median
from typing import NamedTuple

GOALS = (1e-3, 1e-4, 1e-5, 1e-6)
LEFT_BEHIND = 10.0  # times the seconds in which another peer got as far


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


def entries_in(rows: Iterable[dict], ours: str = "batchsvm") -> list[Entry]:
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


def loosest(rows: Iterable[dict], entry: Entry, goal: float, rounds: int) -> float | None:
    """The loosest setting that reaches the goal with every seed, if there is one."""
    for knob, fits in along(rows, entry).items():
        if len(fits) == rounds and all(fit["suboptimality"] <= goal for fit in fits):
            return knob
    return None


def is_over(fits: list[dict], rounds: int) -> bool:
    """Whether an entry need not go on to a tighter setting, by its fits at this one."""
    failed = any(fit["outcome"] != "fitted" for fit in fits)
    done = len(fits) == rounds and all(fit["suboptimality"] <= min(GOALS) for fit in fits)
    return failed or done


def is_left_behind(rows: list[dict], fits: list[dict], ours: str = "batchsvm") -> bool:
    """Whether a peer has got as far as these fits, at one of its settings, in a tenth of the
    time: going on would take long and could change nothing that is compared."""
    seconds = median(fit["seconds"] for fit in fits)
    error = median(fit["suboptimality"] for fit in fits)
    settings: dict[tuple, list[dict]] = {}
    for row in rows:
        if not row["goal"] and row["outcome"] == "fitted" and row["solver"] != ours:
            settings.setdefault((entry_of(row), row["knob"]), []).append(row)
    return any(
        LEFT_BEHIND * median(row["seconds"] for row in others) < seconds
        for others in settings.values()
        if median(row["suboptimality"] for row in others) <= error
    )


def times(rows: list[dict], goal: float, ours: str = "batchsvm") -> dict[Entry, Time]:
    """Every entry that was raced to the goal on the set that these rows are of."""
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


def best_peer(fits: dict[Entry, dict[int, dict]], ours: str = "batchsvm") -> Entry | None:
    """The peer, at its best thread count, with the smallest median time."""
    peers = [entry for entry in fits if entry.solver != ours]
    seconds = {
        entry: median(fit["seconds"] for fit in fits[entry].values()) for entry in peers
    }  # fmt: skip
    return min(peers, key=seconds.__getitem__, default=None)


def geometric_mean(values: Iterable[float]) -> float:
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))
