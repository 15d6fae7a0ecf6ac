"""Rows, problems and small functions that the tests of this folder share."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace

import numpy as np

from batchsvm.core.layout import Schedule
from batchsvm.core.problem import make_problem
from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines.ray import placing
from batchsvm.losses import LOSSES
from batchsvm.methods import Safe

LAM = 1e-3
SMALL = replace(DEFAULT_TUNING, min_part_rows=4)


def rows(n=600, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)


def place(X, workers=2, **options):
    options = {"deterministic": True, "timeout": 20.0, **options}
    return placing.place(X, 1, SMALL, workers=workers, **options)


def problem_of(data, y, lam=LAM, loss="hinge"):
    return make_problem(data.targets(y), LOSSES[loss](), lam)


def serial(seed=0):
    return Schedule(Safe(skips=False), 1, seed=seed)


def pids(data):
    return [where.pid for where in data.workers.places]


def send(pid, what=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):  # it may have been hit before
        os.kill(pid, what)


def is_alive(pid):
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(processes, seconds=20.0):
    """Whether all of these end within some seconds."""
    end = time.monotonic() + seconds
    while any(is_alive(pid) for pid in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
