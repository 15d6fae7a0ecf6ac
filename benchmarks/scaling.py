"""How a fit speeds up with threads.  One JSON line a fit on stdout.

    python benchmarks/scaling.py --rows 2000000 --features 1000000 --per-row 200
    python benchmarks/scaling.py --text
    python benchmarks/scaling.py --npz cov.npz --tol 1e-5
    python benchmarks/scaling.py --npz cov.npz --repeat-to 5000000

Needs NumPy, SciPy, scikit-learn and Numba alone, so that it can be taken to a large machine;
`cov.npz` is bench-output/parsed/cov.npz.  The output, kept as docs/benchmarks/scaling.jsonl,
is part of the report.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "src")]  # needs no installation

from benchmarks.generated import repeated, sparse_set  # noqa: E402
from benchmarks.gpu.generated import text  # noqa: E402


def machine() -> str:
    """Cores and CPU model, such as "2 cores of AMD EPYC"."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {(models or [platform.machine()])[0]}"


def thread_counts(most: int) -> list[int]:
    """1, 2, 4 and so on, and the most there are."""
    return sorted({*(1 << k for k in range(most.bit_length())), most})


def time_fits(name: str, X, y, lam: float, tol: float, counts: list[int], rounds: int) -> None:
    import batchsvm

    few = slice(0, min(X.shape[0], 5000))
    for jobs in counts:
        batchsvm.fit(X[few], y[few], lam=lam, tol=tol, n_jobs=jobs, random_state=0)  # compiles
        batchsvm.fit(X, y, lam=lam, tol=0.1, n_jobs=jobs, random_state=0)
    for turn in range(rounds):
        for jobs in counts:  # in turn, so that noise hits all alike
            began = time.perf_counter()
            solution = batchsvm.fit(X, y, lam=lam, tol=tol, n_jobs=jobs, random_state=turn)
            seconds = time.perf_counter() - began
            history = solution.history
            row = {
                "set": name, "rows": X.shape[0], "features": X.shape[1], "nonzeros": int(X.nnz),
                "lam": lam, "tol": tol, "n_jobs": jobs, "turn": turn, "seconds": seconds,
                "epochs": float(history.epoch[-1]), "gap": solution.certificate.gap,
                "train_seconds": float(history.seconds[-1]),
                "certify_seconds": float(history.certify_seconds[-1]),
                "plan": " / ".join(str(solution.plan).splitlines()[:3]), "machine": machine(),
                "versions": f"Python {platform.python_version()}, batchsvm {batchsvm.__version__}",
            }  # fmt: skip
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=0, help="of the generated set; 0: none")
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--per-row", type=int, default=200, help="non-zeros in a row")
    parser.add_argument("--float32", action="store_true", help="values of the generated set")
    parser.add_argument("--text", action="store_true", help="generated text, 400,000 x 200,000")
    parser.add_argument("--npz", type=Path, help="a set that the benchmarks have parsed")
    parser.add_argument("--repeat-to", type=int, default=0, help="rows of it; 0: as it is")
    parser.add_argument("--lam", type=float, default=1e-5)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most-threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    counts = thread_counts(options.most_threads)
    for name, X, y in sets_of(options):
        time_fits(name, X, y, options.lam, options.tol, counts, options.rounds)


def sets_of(options: argparse.Namespace) -> Iterator[tuple]:
    if options.rows:
        began = time.perf_counter()
        dtype = np.float32 if options.float32 else np.float64
        X, y = sparse_set(options.rows, options.features, options.per_row, dtype=dtype)
        print(f"generated in {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        yield "generated", X, y
    if options.text:
        yield "text", *text(400_000, 200_000)
    if options.npz:
        with np.load(options.npz) as parts:
            arrays = parts["data"], parts["indices"].astype(np.int32), parts["indptr"]
            X, y = sp.csr_matrix(arrays, shape=tuple(parts["shape"])), parts["y"]
        name = options.npz.stem
        if options.repeat_to:
            name, (X, y) = f"{name}, repeated", repeated(X, y, options.repeat_to)
        yield name, X, y


if __name__ == "__main__":
    main()
