"""Other solvers that read the same rows from files, one pass after another.

The time of each is that of its passes alone: what it takes to evaluate its objective, and to write
rows in a format of its own, is not counted.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.environments import python_of
from benchmarks.peers.registry import Peer
from benchmarks.streamed.parts import read_part

SGD_EPOCHS = 30
VOWPAL = Peer(
    "Vowpal Wabbit", "", "vowpalwabbit", (("vowpalwabbit==9.11.9",),), "passes", (1, 2, 4, 8, 16)
)
RATES = (10.0, 30.0, 100.0)  # 0.5, its default, is too low for rows of norm 1
FIRST_ROWS = 1000


@dataclass(frozen=True)
class Task:
    """Which rows, and when a solver is done: its objective is at most `goal`, or it has taken
    `limit` seconds."""

    paths: list[Path]
    lam: float
    goal: float
    limit: float


def drop(path: Path) -> None:
    """Drop a file from the page cache: the next read comes from the disk."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def primal(task: Task, w: np.ndarray) -> float:
    losses, n = 0.0, 0
    for path in task.paths:
        X, y = read_part(path)
        losses += float(np.maximum(1 - y * (X @ w), 0).sum())
        n += y.size
    return losses / n + task.lam / 2 * float(w @ w)


def partial_fit(task: Task, scratch: Path) -> dict[str, Any]:
    """scikit-learn's SGDClassifier, one call of partial_fit per file."""
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(
        alpha=task.lam, fit_intercept=False, shuffle=True, random_state=0, average=False
    )
    taken, epoch, reached, values = 0.0, 0, False, []
    while epoch < SGD_EPOCHS and taken < task.limit and not reached:
        for path in task.paths:
            began = perf_counter()
            X, y = read_part(path)
            model.partial_fit(X, y, classes=np.array([-1.0, 1.0]))
            taken += perf_counter() - began
            drop(path)
        epoch += 1
        values.append(primal(task, model.coef_.ravel()))
        reached = values[-1] <= task.goal
    return {"seconds": taken, "epochs": epoch, "reached": reached, "objectives": values}


def vowpal(task: Task, scratch: Path) -> dict[str, Any]:
    """Vowpal Wabbit with its own cache file, at the best of three learning rates: more and more
    passes, each time from the beginning.  Plain gradient steps, since its default ones, adaptive
    and normalised, end further away with `--l2`."""
    began = perf_counter()
    files = _write_vowpal(task.paths, scratch)
    writing = perf_counter() - began
    found = [_vowpal_at(task, files, rate) for rate in RATES]
    best = min(found, key=lambda one: (not one["reached"], min(one["objectives"])))
    return best | {"writing_seconds": writing}


class VowpalFiles(NamedTuple):
    """The rows as text, and the first of them."""

    rows: Path
    first: Path


def _vowpal_at(task: Task, files: VowpalFiles, rate: float) -> dict[str, Any]:
    values: list[float] = []
    model, columns = files.rows.with_suffix(".model"), read_part(task.paths[0])[0].shape[1]
    for passes in map(int, VOWPAL.knobs):
        began = perf_counter()
        _run_vowpal(
            "--data", files.rows, "--cache", "--kill_cache", "--passes", passes, "--sgd",
            "--loss_function", "hinge", "--l2", task.lam, "--noconstant", "--holdout_off",
            "--bit_precision", max(columns - 1, 1).bit_length(), "--learning_rate", rate,
            "--readable_model", model.with_suffix(".txt"), "--final_regressor", model,
        )  # fmt: skip
        taken = perf_counter() - began
        values.append(primal(task, _weights(task, files, model, columns)))
        if values[-1] <= task.goal or taken > task.limit:
            break
    return {
        "seconds": taken, "epochs": passes, "reached": values[-1] <= task.goal,
        "objectives": values, "learning_rate": rate,
    }  # fmt: skip


def _run_vowpal(*arguments: Any) -> None:
    command = [str(python_of(VOWPAL)), "-m", "vowpalwabbit", "--quiet", *map(str, arguments)]
    subprocess.run(command, check=True)


def _write_vowpal(paths: list[Path], folder: Path) -> VowpalFiles:
    """Columns are numbers, which it uses as they are."""
    files = VowpalFiles(folder / "rows.vw", folder / "first.vw")
    with open(files.rows, "w", encoding="ascii") as file:
        for path in paths:
            X, y = read_part(path)
            entries = list(map("%d:%.7g".__mod__, zip(X.indices, X.data, strict=True)))
            for i, label in enumerate(y):
                start, stop = X.indptr[i], X.indptr[i + 1]
                file.write(f"{label:g} | {' '.join(entries[start:stop])}\n")
    with open(files.rows, encoding="ascii") as file:
        files.first.write_text("".join(islice(file, FIRST_ROWS)))
    return files


def _weights(task: Task, files: VowpalFiles, model: Path, columns: int) -> np.ndarray:
    """The weights of a model: lines "column:weight" of its readable file, times a factor.

    With `--l2` the file lacks the factor by which all weights have shrunk.  It is found by
    comparing scores of rows with what the model itself predicts.
    """
    w = np.zeros(2 ** max(columns - 1, 1).bit_length())
    text = model.with_suffix(".txt").read_text()
    for column, weight in re.findall(r"^(\d+):(\S+)", text, re.MULTILINE):
        w[int(column)] = float(weight)
    w = w[:columns]
    raw = model.with_suffix(".scores")
    _run_vowpal("--testonly", "--data", files.first, "-i", model, "--raw_predictions", raw)
    theirs = np.array([float(line.split()[0]) for line in raw.read_text().splitlines()])
    scores = (read_part(task.paths[0])[0] @ w)[:FIRST_ROWS]
    return w * (theirs @ scores) / (scores @ scores)


PEERS: dict[str, Callable[[Task, Path], dict[str, Any]]] = {
    "SGDClassifier.partial_fit": partial_fit,
    "Vowpal Wabbit": vowpal,
}
