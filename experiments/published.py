"""The results of an earlier report, read back from its files, so that a study can be completed."""

from __future__ import annotations

import csv
from dataclasses import fields
from pathlib import Path

from experiments.cells import Cell


def published(folder: Path) -> dict[str, dict]:
    """The results of the report in this folder by key, as `run.Kept` has them."""
    return {**_cells(folder), **_trajectories(folder), **_times(folder)}


def _cells(folder: Path) -> dict[str, dict]:
    entries: dict[str, dict] = {}
    for row in _read(folder / "cells.csv"):
        key = "/".join(row[field.name] for field in fields(Cell))
        where = {name: row[name] for name in ("machine", "versions", "code")}
        entry = entries.setdefault(key, {"seconds": float(row["seconds"]), **where, "result": {}})
        entry["result"][row["averaging"]] = {
            "iterations": int(row["iterations"]) if row["iterations"] else None,
            "outcome": row["outcome"],
            "sub_optimality": float(row["sub_optimality"]),
        }
    return entries


def _trajectories(folder: Path) -> dict[str, dict]:
    entries: dict[str, dict] = {}
    for row in _read(folder / "trajectories.csv"):
        key = f"trajectory/{row['data']}/{row['method']}/{row['b']}"
        whole = {name: int(row[name]) for name in ("b", "iteration")}
        real = {name: float(row[name]) for name in ("primal", "dual", "test_error")}
        entries.setdefault(key, {"result": []})["result"].append({**row, **whole, **real})
    return entries


def _times(folder: Path) -> dict[str, dict]:
    entries: dict[str, dict] = {}
    for row in _read(folder / "times.csv"):
        key = f"clock/{row['data']}/{row['method']}/{row['b']}"
        entry = entries.setdefault(key, {"machine": row["machine"], "result": {}})
        entry["result"][row["threads"]] = float(row["seconds"])
    return entries


def _read(path: Path) -> list[dict[str, str]]:
    """The rows of a table; none where the report has no such table."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
