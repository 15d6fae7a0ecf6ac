"""Train on a Ray cluster: on one of this machine, or unchanged on a real one.

    python examples/cluster.py                     a cluster on this machine, started and ended here
    ray job submit -- python examples/cluster.py   the cluster that the job runs on

Where a cluster is running, or RAY_ADDRESS names one, it is used.
"""

from __future__ import annotations

import argparse

import numpy as np

import batchsvm


def rows(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of noise, and a noisy linear rule."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    noise = rng.normal(size=n)
    return X, np.where(X @ rng.normal(size=d) + np.sqrt(d) / 2 * noise > 0, 1, -1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on a Ray cluster.")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--workers", type=int, default=None)
    given = parser.parse_args()
    X, y = rows(given.rows, given.columns)
    with batchsvm.place(X, engine="ray", workers=given.workers) as data:
        print(f"{data.n:,} rows on {len(data.workers)} workers")  # type: ignore[attr-defined]
        for lam in (1e-2, 1e-3):
            solution = batchsvm.fit(data, y, lam=lam, random_state=0)
            print(f"lam = {lam:g}: {solution}")


if __name__ == "__main__":
    main()
