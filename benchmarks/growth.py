"""How a fit grows with the data: seconds per epoch per non-zero, and memory beside the data.

    python -m benchmarks.growth 1e6 1e7 1e8      one JSON line a size

Columns and non-zeros a row stay what they are, and rows are added.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from statistics import median

import batchsvm
from benchmarks.generated import sparse_set
from benchmarks.peers.worker import forget_peak, status

FEATURES, PER_ROW, LAM = 100_000, 100, 1e-5
EPOCHS, REPEATS = 4, 3
SIZES = (1e6, 3e6, 1e7, 3e7, 1e8, 3e8)


def grow(sizes: list[float], threads: list[int]) -> list[dict]:
    """Each size in a process of its own, so that its peak is its own."""
    rows = []
    for size in sizes:
        for jobs in threads:
            command = [sys.executable, "-m", "benchmarks.growth", str(size), "--jobs", str(jobs)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            rows += [json.loads(line) for line in done.stdout.splitlines()]
    return rows


def measure(nonzeros: float, jobs: int) -> dict:
    rows = max(1, round(nonzeros / PER_ROW))
    X, y = sparse_set(rows, FEATURES, PER_ROW)
    arguments = {"lam": LAM, "tol": 0.0, "max_epochs": EPOCHS, "n_jobs": jobs, "random_state": 0}
    few = slice(0, 2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is told to stop early
        batchsvm.fit(X[few], y[few], **arguments)
        forget_peak()
        before, began = status("VmRSS"), time.perf_counter()
        histories = [batchsvm.fit(X, y, **arguments).history]
        whole = time.perf_counter() - began
        peak = status("VmHWM") - before
        histories += [batchsvm.fit(X, y, **arguments).history for _ in range(REPEATS - 1)]
    epochs = float(histories[0].epoch[-1])
    optimising = median(float(history.seconds[-1]) for history in histories)
    return {
        "nonzeros": X.nnz, "rows": rows, "features": FEATURES, "threads": jobs, "epochs": epochs,
        "seconds": whole, "optimising_seconds": optimising,
        "ns_per_epoch_per_nonzero": 1e9 * optimising / epochs / X.nnz,
        "peak_bytes": peak, "data_bytes": X.data.nbytes + X.indices.nbytes + X.indptr.nbytes,
        "vectors": peak / 8 / (rows + FEATURES),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nonzeros", type=float, nargs="+")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    for nonzeros in options.nonzeros:
        print(json.dumps(measure(nonzeros, options.jobs)), flush=True)


if __name__ == "__main__":
    main()
