"""The section about the race, from rows that are made up."""

from __future__ import annotations

import csv
import re

import numpy as np

from benchmarks import report, results
from benchmarks.cells import Cell
from benchmarks.judging import GOALS
from race_rows import CELL, canned, row


def test_the_report_of_the_race_is_written_from_the_numbers(tmp_path):
    facts = {"how": "Rounds: 2.", "machine": "2 cores of X", "versions": "Python 3"}
    free = Cell("cov", "squared_hinge", "free")
    rows = [
        *canned(Cell("rcv1"), {"batchsvm": 1.0, "a": 2.0, "b": 3.0}),
        row("slow", seconds=7.0, error=np.nan, cell=Cell("rcv1")) | {"outcome": "too slow"},
        *canned(free, {"batchsvm": 4.0}),
        *canned(free, {"a": 2.0}, GOALS[:1]),
        row("broken", error=np.nan, cell=free) | {"outcome": "failed: ImportError: no x"},
    ]
    results.write(tmp_path, "race", rows, facts)
    text = report.write(tmp_path).read_text()
    assert (
        "| set | loss | intercept | 1e-3: best peer | batchsvm, 1 thread"
        " | 1e-6: best peer | batchsvm, 1 thread |\n"
    ) in text
    assert (
        "| rcv1 | hinge | none | a, 1 thread: 9 s | 4.5 s (2.00) | a, 1 thread: 18 s | 9 s (2.00) |"
    ) in text
    assert (
        "| cov | squared hinge | free | a, 1 thread: 9 s | 18 s (0.50, **not first**)"
        " | none reached it | 36 s |"
    ) in text
    assert "| geometric mean |  |  |  | **1.00** of 2 |  | **2.00** of 1 |" in text
    assert (
        "batchsvm is **not first** in 1 of 4 comparisons:"
        " cov, squared hinge, free intercept, to 1e-3.\n"
    ) in text
    assert "### squared hinge, free intercept\n" in text
    assert "| a, 1 thread | 6 s / – |" in text
    assert "| slow, 1 thread | – / – (more than 7 s) |" in text
    assert "| broken, 1 thread | – / – (failed: ImportError: no x) |" in text
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (tmp_path / target).stat().st_size > 100
    assert (tmp_path / "rcv1.svg").exists()
    assert not (tmp_path / "cov.svg").exists()  # curves are of the hinge without an intercept
    with (tmp_path / "race.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)


def test_a_race_that_ours_does_not_finish_is_lost(tmp_path):
    slow = row("batchsvm", seconds=9.0, error=np.nan, cell=Cell("rcv1")) | {"outcome": "too slow"}
    results.write(tmp_path, "race", [slow, *canned(Cell("rcv1"), {"a": 1.0})], {})
    text = report.write(tmp_path).read_text()
    assert "| a, 1 thread: 4.5 s | – (more than 9 s), **not first** |" in text
    assert "not first** in 2 of 2 comparisons" in text
    assert "29 of 30 cells have not been raced: " in text


def test_a_race_that_ours_wins_says_so(tmp_path):
    results.write(tmp_path, "race", list(canned(CELL, {"batchsvm": 1.0, "a": 2.0})), {})
    assert "batchsvm is first in all 2 comparisons.\n" in report.write(tmp_path).read_text()


def test_a_cell_that_is_not_finished_is_not_compared(tmp_path):
    rows = list(canned(CELL, {"batchsvm": 1.0, "a": 2.0}))
    rows += [r for r in canned(Cell("cov"), {"a": 1.0}) if not r["goal"]]
    results.write(tmp_path, "race", rows, {})
    text = report.write(tmp_path).read_text()
    assert "first in all 2 comparisons" in text
    assert "| cov | hinge" not in text
    assert "| a, 1 thread | 6 s / 12 s | 3 s / 6 s |" in text  # of the screening
    results.write(tmp_path, "race", [r for r in rows if not r["goal"]], {})
    assert "comparisons" not in report.write(tmp_path).read_text()
