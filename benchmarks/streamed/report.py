"""The section "Larger than memory" of the page, from streamed.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.words import length, table

FILE = "streamed.jsonl"
SHOWN = ("full", "peers")


def streamed(folder: Path) -> str:
    """The last measurement of each size and solver."""
    rows = {(row["size"], row["name"]): row for row in results.read_lines(folder / FILE)}
    mine = {size: rows.pop((size, "batchsvm")) for size in SHOWN if (size, "batchsvm") in rows}
    if not mine:
        return ""
    text = [
        "## Larger than memory\n",
        "Generated text in files (`benchmarks/streamed/parts.py`), float32, hinge, λ ="
        f" {_first(mine)['lam']:g}, tol = {_first(mine)['tol']:g}. What was read is dropped from"
        " the page cache, so that each read comes from the disk. *Computing alone* is the same fit"
        " with all parts in the page cache. The first pass parses the files and writes packed"
        " parts.\n",
        table(
            ["rows × columns", "packed", "max_memory", "anonymous memory", "first pass", "reads",
             "fit", "reading alone", "computing alone", "ratio to the larger one", "gap"],
            [_cells(row) for row in mine.values()],
        ),
    ]  # fmt: skip
    if "peers" in mine:
        text += _peers(
            mine["peers"], {name: row for (size, name), row in rows.items() if size == "peers"}
        )
    spark = rows.get(("parquet", "Spark LinearSVC"))
    if spark is not None:
        text.append(_spark(spark))
    return "\n".join([*text, f"*{_first(mine)['machine']}; {_first(mine)['date']}.*\n"])


def _first(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return next(iter(rows.values()))


def _cells(row: dict[str, Any]) -> list[str]:
    reading = row["read_seconds"] * row["reads"]
    return [
        f"{row['rows']:,} × {row['columns']:,}", f"{row['packed_bytes'] / 1e9:.2f} GB",
        row["max_memory"], f"{row['peak_bytes'] / 1e6:.0f} MB", length(row["first_pass_seconds"]),
        f"{row['reads']:.0f}", length(row["seconds"]), length(reading),
        length(row["warm_seconds"]), f"{row['seconds'] / max(reading, row['warm_seconds']):.2f}",
        f"{row['gap']:.1e}",
    ]  # fmt: skip


def _peers(mine: dict[str, Any], theirs: dict[str, dict[str, Any]]) -> list[str]:
    if not theirs:
        return []
    whole = mine["first_pass_seconds"] + mine["seconds"]
    cells = [["batchsvm", length(whole), f"{mine['reads'] + 1:.0f}", "yes", "0"]]
    for name, row in theirs.items():
        above = min(row["objectives"]) / mine["primal"] - 1
        reached = "yes" if row["reached"] else "no"
        cells.append([name, length(row["seconds"]), str(row["epochs"]), reached, f"{above:.1e}"])
    return [
        f"Other solvers over the {mine['rows']:,} rows, until their objective is at most"
        f" {mine['tol']:g} above ours. Our time is that of the first pass and the fit; that of"
        " Vowpal Wabbit does not include writing rows in its format.\n",
        table(["solver", "time", "passes", "reached", "above ours"], cells),
    ]


def _spark(row: dict[str, Any]) -> str:
    return (
        f"A folder of {row['files']} Parquet files, {row['rows']:,} × {row['columns']}, hinge, λ ="
        f" {row['lam']:g}, two cores: batchsvm takes {length(row['ours_seconds'])}, reading"
        f" included, to a certified gap of {row['gap']:.1e}. Spark's LinearSVC takes"
        f" {length(row['seconds'])} and {row['epochs']} iterations until its objective is at most"
        f" {row['tol']:g} above that, {row['seconds'] / row['ours_seconds']:.1f} times as long"
        f" ({length(row['cached_seconds'])} of it after its rows are in memory; the start of the"
        " JVM is not counted). Medians of"
        f" {row['runs']}.\n"
    )
