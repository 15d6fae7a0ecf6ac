"""The half of the race that lives in a peer's environment: NumPy and SciPy are all it needs.

A worker is a process that answers JSON lines.  It reads a set once, keeps it in the peer's
own format, fits when asked to, and says how many seconds the fit alone took:

    {"set": "rcv1", "data": <npz>, "lam": 1e-4, "loss": "hinge", "intercept": false,
     "knob": 0.1, "threads": 1, "seed": 0, "point": <npy>}
    -> {"seconds": 0.078, "peak": null}

The file of the point has w and, as its last entry, the intercept.

With `"part": true` it fits a thousand rows only, so that libraries are loaded and kernels
compiled.  With `"peak": true` it also says how many bytes the process grew by at most while it
prepared the set and fitted it, which is meaningful for the first whole fit of a process.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp


def read(path):
    """A set as the benchmarks keep it; int32 indices, since LIBLINEAR takes no others."""
    with np.load(path) as parts:
        if "X" in parts:
            return parts["X"], parts["y"]
        indices, indptr = (parts[key].astype(np.int32) for key in ("indices", "indptr"))
        X = sp.csr_matrix((parts["data"], indices, indptr), shape=tuple(parts["shape"]))
        return X, parts["y"]


def wide(X):
    """Rows for a solver that works in float64 only; the conversion is not in its time."""
    return X.astype(np.float64, copy=False)


def status(field):
    """A size from /proc, in bytes: VmRSS is what the process holds, VmHWM its peak."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def forget_peak():
    """Give back what is free, so that a fit cannot hide in it, and start the peak anew."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


class Worker:
    """Answers requests with one solver.

    It has `prepare(X, y, lam, loss, intercept)`, and `fit(prepared, knob, threads, seed)`, which
    returns w and the intercept.
    """

    def __init__(self, solver):
        self.solver = solver
        self.name = self.read = self.kind = self.problem = None

    def answer(self, request):
        if request["set"] != self.name:
            self.problem = self.read = None  # one set at a time: news20 is large
            self.read = read(request["data"])
            self.name = request["set"]
        kind = request["lam"], request["loss"], request["intercept"]
        if kind != self.kind:
            self.problem, self.kind = None, kind
        settings = request["knob"], request["threads"], request["seed"]
        if request.get("part"):
            return self.fit_part(settings, request["point"])
        before = None
        if request.get("peak"):
            forget_peak()
            before = status("VmRSS")
        if self.problem is None:
            self.problem = self.solver.prepare(*self.read, *self.kind)
        began = time.perf_counter()
        w, intercept = self.solver.fit(self.problem, *settings)
        seconds = time.perf_counter() - began
        peak = None if before is None else status("VmHWM") - before
        save(request["point"], w, intercept)
        return {"seconds": seconds, "peak": peak}

    def fit_part(self, settings, place):
        X, y = self.read
        few = slice(None, None, max(1, X.shape[0] // 1000))
        save(place, *self.solver.fit(self.solver.prepare(X[few], y[few], *self.kind), *settings))
        return {"seconds": None, "peak": None}


def save(place, w, intercept):
    np.save(place, np.append(np.asarray(w, dtype=float).ravel(), intercept))


def serve(make_solver):
    """Answer until the driver closes the pipe.  What libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")  # "failed to converge" is for the driver to find out
    began = time.perf_counter()
    worker = Worker(make_solver())
    print(json.dumps({"import_seconds": time.perf_counter() - began}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)
