"""The cells of the race: a data set, a loss, and no intercept or a free one."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

LOSSES = ("hinge", "squared_hinge", "logistic")
INTERCEPTS = ("none", "free")
SETS = ("rcv1", "arxiv", "news20", "cov", "dense")
SMALL_SETS = ("small-sparse", "small-dense")  # of a trial


class Cell(NamedTuple):
    """A problem that solvers are compared on.  A free intercept is not penalised."""

    set: str
    loss: str = "hinge"
    intercept: str = "none"

    def __str__(self) -> str:
        return "/".join(self)


def cell_of(row: dict) -> Cell:
    return Cell(row["set"], row["loss"], row["intercept"])


def cells(sets: Iterable[str] = SETS) -> list[Cell]:
    return [
        Cell(name, loss, intercept) for name in sets for loss in LOSSES for intercept in INTERCEPTS
    ]


def select(found: list[Cell], patterns: Iterable[str]) -> list[Cell]:
    """The cells that match one of the patterns, such as "rcv1/*" or "*/logistic/free"."""
    patterns = list(patterns)
    for pattern in patterns:
        if not any(fnmatchcase(str(cell), pattern) for cell in found):
            raise ValueError(f"no cell matches {pattern!r}; a cell is named like {found[0]}")
    return [cell for cell in found if any(fnmatchcase(str(cell), p) for p in patterns)]
