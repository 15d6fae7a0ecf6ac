"""Spark's LinearSVC and ours on one folder of Parquet files, each with two cores.

    python -m benchmarks.streamed.parquet --out docs/benchmarks/streamed.jsonl

Both minimise the same objective: hinge, no intercept, columns as they are.  Spark gets the least
number of iterations with which its objective is within the tolerance of ours.  It needs Java.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

import batchsvm
from benchmarks.environments import python_of
from benchmarks.gpu.generated import two_classes
from benchmarks.peers.registry import Peer
from benchmarks.sets import OUTPUT
from experiments.machine import machine, versions

SPARK = Peer("Spark LinearSVC", "", "pyspark", (("pyspark==4.3.0", "numpy"),), "iterations", ())
WORKER = Path(__file__).parent / "spark_worker.py"
FILES, ROWS, COLUMNS = 20, 50_000, 50
LAM, TOL, LABEL = 1e-4, 1e-3, "label"
ITERATIONS = (5, 10, 20, 40, 80, 160, 320)
PAUSE = 3.0  # seconds before a fit of ours, in which the JVM ends what it does after its own


def write_tables(
    folder: Path, files: int, rows: int, columns: int
) -> tuple[np.ndarray, np.ndarray]:
    """A folder of Parquet files, written unless it is there; all of its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = two_classes(files * rows, columns)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"x{j}" for j in range(columns)]
    for number in range(files):
        path = folder / f"part{number:03d}.parquet"
        if path.exists():
            continue
        own = slice(number * rows, (number + 1) * rows)
        # Spark takes the labels 0 and 1.
        columns_of = [*X[own].T, (y[own] > 0).astype(np.float64)]
        unfinished = path.with_suffix(".partial")
        pq.write_table(pa.table(columns_of, names=[*names, LABEL]), unfinished)
        unfinished.rename(path)
    return X, y


def primal(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    return float(np.maximum(1 - y * (X @ w), 0).mean() + LAM / 2 * (w @ w))


def ours(folder: Path) -> tuple[float, Any]:
    sleep(PAUSE)
    began = perf_counter()
    solution = batchsvm.fit(
        str(folder), LABEL, lam=LAM, tol=TOL, random_state=0, n_jobs=2, warn=False
    )
    return perf_counter() - began, solution


class Spark:
    """A session in a process of its own: one line of JSON asks, one answers."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [str(python_of(SPARK)), str(WORKER), str(folder), LABEL, str(LAM)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.about = self._answer()

    def fit(self, iterations: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{iterations}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("Spark has ended; its messages are above")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streamed.parquet")
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, help="the file that the measurement is appended to")
    parser.add_argument("--runs", type=int, default=5, help="runs of each, by turns")
    options = parser.parse_args(arguments)
    folder = OUTPUT / "streamed" / f"{FILES}x{ROWS}x{COLUMNS}.parquet"
    X, y = write_tables(folder, FILES, ROWS, COLUMNS)
    _, solution = ours(folder)  # compiles
    goal = solution.certificate.primal * (1 + TOL)
    spark = Spark(folder)
    try:
        for iterations in ITERATIONS:
            found = primal(X, y, np.array(spark.fit(iterations)["w"]))
            print(f"Spark, {iterations} iterations: {found / goal - 1:+.1e} beside the goal")
            if found <= goal:
                break
        turns = [(ours(folder)[0], spark.fit(iterations)) for _ in range(options.runs)]
    finally:
        spark.close()
    row = {
        "size": "parquet", "name": SPARK.name, "files": FILES, "rows": X.shape[0],
        "columns": COLUMNS, "lam": LAM, "tol": TOL, "runs": options.runs,
        "reached": found <= goal, "epochs": iterations, "objective": found, "goal": goal,
        "ours_seconds": statistics.median(mine for mine, _ in turns),
        "seconds": statistics.median(theirs["seconds"] for _, theirs in turns),
        "cached_seconds": statistics.median(theirs["cached_seconds"] for _, theirs in turns),
        "gap": solution.certificate.relative_gap, "spark": spark.about["version"],
        "machine": machine(), "versions": versions(), "date": date.today().isoformat(),
    }  # fmt: skip
    print({name: value for name, value in row.items() if name not in ("versions", "machine")})
    if options.out is not None:
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
