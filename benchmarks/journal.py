"""What a race has measured, on disk as it goes, so that it can be interrupted and continued."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from benchmarks import results
from benchmarks.cells import Cell, cell_of
from benchmarks.judging import OURS, Entry, entry_of

SECTION = "race"
KEYS = ("set", "loss", "intercept", "solver", "threads", "knob", "seed", "goal")


class BudgetSpentError(Exception):
    """The time that the race may take is over."""


class Journal:
    """The rows of a race; each is appended to the file when it has been measured."""

    def __init__(self, folder: Path, budget: float = inf) -> None:
        self.folder, self.ends = folder, time.monotonic() + budget
        self.rows = {key_of(row): row for row in results.read(folder, SECTION)}

    def known(self, cell: Cell, entry: Entry, knob: float, seed: int, goal: float | str):
        """The row of this fit, or None if it has not been made."""
        return self.rows.get((*cell, *entry, knob, seed, goal))

    def of(self, cell: Cell) -> list[dict]:
        return [row for row in self.rows.values() if cell_of(row) == cell]

    def add(self, measure: Callable[[], dict]) -> dict:
        """Measure a row and keep it, with the digits that the file has."""
        if time.monotonic() > self.ends:
            raise BudgetSpentError
        row = {key: results.rounded(value) for key, value in measure().items()}
        results.append(self.folder, SECTION, row)
        self.rows[key_of(row)] = row
        return row

    def forget_ours(self, cells: list[Cell]) -> None:
        """Keep of these cells only the ways of the peers along their settings."""
        self.rows = {
            key: row
            for key, row in self.rows.items()
            if cell_of(row) not in cells or (entry_of(row).solver != OURS and not row["goal"])
        }
        results.write_rows(self.folder, SECTION, list(self.rows.values()))


def key_of(row: dict) -> tuple:
    return tuple(row[name] for name in KEYS)
