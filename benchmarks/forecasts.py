"""The time that `batchsvm.plan` predicts, beside the time that a fit takes.

    python -m benchmarks.forecasts [--rounds 5] [--out FOLDER]

Every problem is generated.  The ratio is that of the median of the fits to the forecast for the
cpu engine on one thread; a forecast is meant to be within a factor of two.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import batchsvm
from benchmarks import results
from benchmarks.gpu.generated import text
from benchmarks.shapes import raw_columns, some_positive

LOSSES = ("hinge", "squared_hinge", "logistic")
LAM_N = (0.3, 3.0, 30.0)  # times the largest ||x_i||^2


def gaussian(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm about 1, and labels by a noisy linear rule."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / d**0.5
    score = X @ rng.standard_normal(d)
    return X, np.where(score + score.std() * rng.standard_normal(n) > 0, 1, -1)


DATA: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "text 20,242 x 47,236": text,
    "text 100,000 x 100,000": lambda: text(100_000, 100_000),
    "dense 2,000 x 20": lambda: gaussian(2_000, 20),
    "dense 50,000 x 300": lambda: gaussian(50_000, 300),
    "dense 500,000 x 50": lambda: gaussian(500_000, 50),
    "sparse 50,000 x 300": lambda: some_positive(50_000, 300, 0.3, 0.05),
    "raw columns 40,000 x 54": raw_columns,
}


def measure(X: Any, y: np.ndarray, loss: str, lam: float, rounds: int) -> dict[str, Any]:
    plan = batchsvm.plan(X, y, lam=lam, loss=loss)
    [predicted] = [one.seconds for one in plan.times if (one.engine, one.threads) == ("cpu", 1)]
    taken = []
    for seed in range(rounds + 1):  # the first one may compile
        began = time.perf_counter()
        solution = batchsvm.fit(X, y, loss, lam, random_state=seed, warn=False)
        taken.append(time.perf_counter() - began)
    seconds = median(taken[1:])
    return {
        "method": plan.method_in_words, "predicted_s": predicted, "seconds": seconds,
        "ratio": seconds / predicted, "converged": solution.status.converged,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict] = []
    warnings.simplefilter("ignore")
    for name, make in DATA.items():
        X, y = make()
        norms2 = X.multiply(X).sum(axis=1) if hasattr(X, "multiply") else (X * X).sum(axis=1)
        for loss in LOSSES:
            for lam_n in LAM_N:
                lam = lam_n * float(np.max(norms2)) / X.shape[0]
                found = measure(X, y, loss, lam, options.rounds)
                rows.append({"data": name, "loss": loss, "lam_n": lam_n} | found)
                print(
                    f"{name:24} {loss:14} lam N {lam_n:<4g} {found['method']:16}"
                    f" predicted {found['predicted_s']:8.4f} s, took {found['seconds']:8.4f} s,"
                    f" ratio {found['ratio']:.2f}",
                    flush=True,
                )
    ratios = np.array([row["ratio"] for row in rows])
    within = int(((ratios <= 2) & (ratios >= 0.5)).sum())
    print(f"{within} of {len(rows)} within a factor of two; the ratios lie between"
          f" {ratios.min():.2f} and {ratios.max():.2f}")  # fmt: skip
    if options.out is not None:
        results.write(options.out, "forecasts", rows, {"rounds": options.rounds})


if __name__ == "__main__":
    main()
