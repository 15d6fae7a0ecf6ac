"""Raw numbers on disk: one CSV file a section, beside the page that is written from them."""

from __future__ import annotations

import csv
import json
from pathlib import Path


def write(folder: Path, section: str, rows: list[dict], facts: dict) -> None:
    """Keep the rows of a section, and on what machine and with which versions they came."""
    if not rows:
        return
    write_rows(folder, section, rows)
    write_facts(folder, section, facts)


def write_rows(folder: Path, section: str, rows: list[dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not rows:
        (folder / f"{section}.csv").unlink(missing_ok=True)
        return
    with (folder / f"{section}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: short(value) for key, value in row.items()} for row in rows)


def write_facts(folder: Path, section: str, facts: dict) -> None:
    known = read_facts(folder)
    known[section] = facts
    (folder / "facts.json").write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


def append(folder: Path, section: str, row: dict) -> None:
    """Add a row to a section, so that what has been measured outlives an interruption."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{section}.csv"
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow({key: short(value) for key, value in row.items()})


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


def rounded(value: object) -> object:
    """A value as it is after it was written and read."""
    return float(short(value)) if isinstance(value, float) else value


def number(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
