"""What concerns this library alone: start-up, certificates, memory by method, tiny data."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import batchsvm
from benchmarks.sets import load

FIRST_FIT = """
import numpy as np, batchsvm
X = np.random.default_rng(0).normal(size=(1000, 20))
batchsvm.fit(X, np.sign(X[:, 0]), lam=1e-2, random_state=0)
"""


def seconds(call, *args, **kwargs) -> float:
    began = time.perf_counter()
    call(*args, **kwargs)
    return time.perf_counter() - began


def start_up(rounds: int) -> list[dict]:
    """A new process imports the library and makes a first fit on 1,000 rows."""
    rows = []
    for turn in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            for cache in ("cold", "warm"):
                taken = seconds(
                    subprocess.run, [sys.executable, "-c", FIRST_FIT], env=environment, check=True,
                    capture_output=True,
                )  # fmt: skip
                rows.append({"cache": cache, "turn": turn, "seconds": taken})
    return rows


def certifying(names: list[str], threads: list[int], rounds: int, console: Console) -> list[dict]:
    """How much of the time of a whole fit its certificates take, all defaults; seeds differ."""
    rows = []
    for name in track(names, "Certificates", console=console, transient=True):
        data = load(name)
        for jobs in threads:
            batchsvm.fit(data.X, data.y, lam=data.lam, n_jobs=jobs, random_state=0)  # compiles
            for tol in (1e-3, 1e-5, 1e-6):
                shares, histories = [], []
                for seed in range(rounds):
                    began = time.perf_counter()
                    history = batchsvm.fit(
                        data.X, data.y, lam=data.lam, tol=tol, n_jobs=jobs, random_state=seed
                    ).history
                    shares.append(history.certify_seconds[-1] / (time.perf_counter() - began))
                    histories.append(history)
                rows.append({
                    "set": name, "threads": jobs, "tol": tol,
                    "epochs": float(np.median([history.epoch[-1] for history in histories])),
                    "certificates": int(np.median([len(history) - 1 for history in histories])),
                    "share": float(np.median(shares)),
                })  # fmt: skip
    return rows


def methods_memory(names: list[str], console: Console) -> list[dict]:
    """The peak of what NumPy allocates in a fit, by method."""
    rows = []
    for name in track(names, "Memory by method", console=console, transient=True):
        data = load(name)
        n, d = data.X.shape
        for method, b in (("auto", 1), ("safe", 64), ("aggressive", 64), ("pegasos", 64)):
            arguments = {"lam": data.lam, "method": method, "batch_size": b, "max_epochs": 2}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                batchsvm.fit(data.X, data.y, **arguments)  # compiled before it is measured
                tracemalloc.start()
                batchsvm.fit(data.X, data.y, **arguments)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            rows.append({
                "set": name, "method": method, "batch_size": b, "peak_bytes": peak,
                "vectors": peak / 8 / (n + d),
            })  # fmt: skip
    return rows


def tiny(rounds: int) -> list[dict]:
    """150 x 4: a fit against LinearSVC's, taking turns, everything compiled.

    Both as they come, and LinearSVC also for the very problem that ours solves.
    """
    X, y = load_iris(return_X_y=True)
    y = np.where(y == 2, 1, -1)
    lam = 1 / X.shape[0]  # LinearSVC's C = 1
    contestants = {
        "batchsvm.fit": lambda: batchsvm.fit(X, y, lam=lam, random_state=0),
        "LinearSVC()": lambda: LinearSVC(random_state=0).fit(X, y),
        "LinearSVC, hinge, no intercept": lambda: LinearSVC(
            loss="hinge", fit_intercept=False, random_state=0
        ).fit(X, y),
    }
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for turn in range(-5, 20 * rounds):  # the first few warm up
            for name, call in contestants.items():
                taken = seconds(call)
                if turn >= 0:
                    rows.append({"solver": name, "turn": turn, "seconds": taken})
    return rows
