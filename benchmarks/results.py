"""Raw numbers on disk: one CSV file a section, beside the page that is written from them."""

from __future__ import annotations

import csv
import json
from pathlib import Path


def write(folder: Path, section: str, rows: list[dict], facts: dict) -> None:
    """Keep the rows of a section, and on what machine and with which versions they came."""
    if not rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{section}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: short(value) for key, value in row.items()} for row in rows)
    known = read_facts(folder)
    known[section] = facts
    (folder / "facts.json").write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


def read(folder: Path, section: str) -> list[dict]:
    """The rows of a section, numbers as numbers; none if it has not been run."""
    path = folder / f"{section}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: number(text) for key, text in row.items()} for row in csv.DictReader(file)]


def read_facts(folder: Path) -> dict:
    path = folder / "facts.json"
    return json.loads(path.read_text()) if path.exists() else {}


def read_lines(path: Path) -> list[dict]:
    """What benchmarks/scaling.py printed, perhaps on another machine."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def number(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
