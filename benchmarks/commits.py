"""Is the working tree as fast as another commit?

    python -m benchmarks.commits REVISION [--rounds 9] [--only PART_OF_A_NAME]

One process for each of the two, on the same data; they take turns, case by case and round by
round.  Reported are medians over the rounds of the ratio of times, working tree over REVISION:
below 1 is faster.  BATCHSVM_DATA names the folder of the real data sets.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SETS = ("rcv1", "arxiv", "news20", "cov")


def dense_classes(n: int, d: int, classes: int) -> tuple[Any, Any]:
    """float32 rows around the means of classes, as of images or embeddings."""
    import numpy as np

    random = np.random.default_rng(0)
    scale = np.arange(1, d + 1, dtype=np.float32) ** -0.5
    means = random.standard_normal((classes, d), dtype=np.float32) * scale
    y = random.integers(0, classes, n)
    X = random.standard_normal((n, d), dtype=np.float32) * scale + 0.5 * means[y]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def tiny() -> tuple[Any, Any]:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return X, (y == 1) * 1.0


class Cases:
    """The work that is timed, by name; data are made once."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def data(self, name: str) -> Any:
        if name not in self.kept:
            self.kept.clear()  # one set at a time
            if name in SETS:
                from benchmarks.sets import load

                found = load(name)
                self.kept[name] = found.X, found.y, found.lam
            elif name == "tiny":
                self.kept[name] = (*tiny(), 0.01)
            else:
                n, d, classes = map(int, name.split("x"))
                self.kept[name] = (*dense_classes(n, d, classes), 1e-4)
        return self.kept[name]

    def run(self, case: str) -> float:
        import batchsvm

        kind, name, *rest = case.split()
        X, y, lam = self.data(name)
        if kind == "fit":
            tol, jobs = float(rest[0]), int(rest[1])
            times = 1 if name != "tiny" else 200
            began = perf_counter()
            for _ in range(times):
                batchsvm.fit(X, y, lam=lam, tol=tol, n_jobs=jobs, random_state=0)
            return (perf_counter() - began) / times
        began = perf_counter()
        if kind == "path":
            import numpy as np

            batchsvm.path(X, y, np.geomspace(10 * lam, lam / 10, 10), random_state=0)
        elif kind == "classes":
            batchsvm.BatchSVC(lam=lam, random_state=0, n_jobs=int(rest[0])).fit(X, y)
        else:
            batchsvm.BatchSVCCV(10, random_state=0, n_jobs=int(rest[0])).fit(X, y)
        return perf_counter() - began


def cases() -> list[str]:
    found = [f"fit tiny 1e-3 {jobs}" for jobs in (1, 2)]
    for name in SETS:
        found += [f"fit {name} {tol} {jobs}" for tol in ("1e-3", "1e-5") for jobs in (1, 2)]
    found += ["path rcv1", "folds rcv1 1", "folds rcv1 2"]
    return [*found, "classes 60000x784x10 2", "classes 100000x512x100 2"]


def work() -> None:
    """The process of one commit: a case per line in, its seconds out."""
    import warnings

    warnings.simplefilter("ignore")
    ours = Cases()
    for line in sys.stdin:
        print(json.dumps(ours.run(line.strip())), flush=True)


class Worker:
    def __init__(self, source: Path, cache: str) -> None:
        path = os.pathsep.join([str(source / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": cache},
        )  # fmt: skip

    def time(self, case: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parent = Path(folder) / "parent"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(parent)], check=True)
        git = ["git", "-C", str(parent), "checkout", "--quiet", asked.revision]
        subprocess.run(git, check=True)
        old, new = Worker(parent, f"{folder}/old"), Worker(ROOT, f"{folder}/new")
        logs = []
        print(f"{'case':32} {asked.revision[:10]:>10} {'now':>10} {'ratio':>7}")
        for case in cases():
            if asked.only not in case:
                continue
            rounds = []
            for k in range(asked.rounds + 1):
                first, second = (old, new) if k % 2 else (new, old)
                a, b = first.time(case), second.time(case)
                rounds.append((a, b) if k % 2 else (b, a))
            ratios = [b / a for a, b in rounds[1:]]  # the first round compiles and reads
            logs.append(log(median(ratios)))
            before, now = (median(times) * 1e3 for times in zip(*rounds[1:], strict=True))
            print(f"{case:32} {before:8.2f}ms {now:8.2f}ms {median(ratios):7.3f}", flush=True)
        if logs:
            print(f"geometric mean of the ratios: {exp(sum(logs) / len(logs)):.3f}")
        for worker in (old, new):
            worker.process.kill()


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        main()
