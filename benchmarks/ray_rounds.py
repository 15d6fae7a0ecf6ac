"""What a round on a Ray cluster costs: the exchange, against the columns of w and the workers.

    python -m benchmarks.ray_rounds --workers 1 2 4 --columns 1000 100000 1000000

A round sends w to all workers, lets each take one step, adds up their changes, in pairs and by the
workers, and brings the sum to the driver.  The median of some rounds is shown, in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from math import inf

import numpy as np
import scipy.sparse as sp

from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.tuning import Tuning
from batchsvm.engines.ray import place
from batchsvm.losses import LOSSES
from batchsvm.methods import Safe

ROWS = 256  # of a worker: so few that their steps take no time


def rows(workers: int, columns: int) -> tuple[sp.csr_array, np.ndarray]:
    rng = np.random.default_rng(0)
    n = ROWS * workers
    indices = rng.integers(0, columns, size=(n, 4))
    indices.sort(axis=1)
    X = sp.csr_array((np.full(4 * n, 0.5), indices.ravel(), 4 * np.arange(n + 1)), (n, columns))
    X.sum_duplicates()
    return X, rng.choice([-1.0, 1.0], size=n)


def seconds_per_round(workers: int, columns: int, rounds: int) -> float:
    """The median of some rounds."""
    X, y = rows(workers, columns)
    resources = {"num_cpus": 0}  # more workers than CPUs can be tried
    with place(
        X, 1, Tuning(min_part_rows=ROWS), deterministic=True, workers=workers,
        worker_resources=resources,
    ) as data:  # fmt: skip
        trainer = data.trainer(make_problem(data.targets(y), LOSSES["hinge"](), 1e-3))
        trainer.start(Schedule(Safe(skips=False), 1))
        trainer.round_size.iterations = workers
        times = []
        for k in range(rounds + 3):  # the first ones warm up
            began = time.perf_counter()
            trainer.run((k + 1) * workers, np.array([-inf]), StopFlag())
            times.append(time.perf_counter() - began)
    return statistics.median(times[3:])


def main() -> None:
    parser = argparse.ArgumentParser(description="What a round on a Ray cluster costs.")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--columns", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print("| columns | " + " | ".join(f"{p} workers" for p in given.workers) + " |")
    print("| --- " * (1 + len(given.workers)) + "|")
    for columns in given.columns:
        found = [seconds_per_round(p, columns, given.rounds) for p in given.workers]
        print(f"| {columns:,} | " + " | ".join(f"{1e3 * s:.1f} ms" for s in found) + " |")


if __name__ == "__main__":
    main()
