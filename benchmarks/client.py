"""The driver's half of a worker: starts it, asks it, ends it when it takes too long."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.cells import Cell
from benchmarks.environments import python_of
from benchmarks.peers.registry import Peer
from benchmarks.problems import Problem
from benchmarks.sets import path_of

WORKERS = Path(__file__).parent / "peers"
# Threads of BLAS would spin while others are timed; workers that gain from them ask for them.
# OpenMP threads (liblinear-multicore, Snap ML) sleep soon after a fit; the thread counts
# themselves are the solvers' own arguments.
QUIET = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "KMP_BLOCKTIME": "1"}
WARM_UP_LIMIT = 120.0  # seconds, compiling included
CONVERTING = 10.0  # seconds in which a worker converts the data to its own format


class TooSlowError(Exception):
    """A fit that did not end in the time it was given."""


class SolverError(Exception):
    """A fit that failed; the message is the solver's own."""


class Client:
    """One worker process.  Closing it, or leaving its `with` block, ends the process."""

    def __init__(self, peer: Peer, cache: Path | None = None, script: Path | None = None) -> None:
        self.peer = peer
        self.command = [str(python_of(peer)), str(script or WORKERS / peer.worker)]
        self.environment = {**os.environ, **QUIET}
        self.environment.pop("OMP_NUM_THREADS", None)
        if cache is not None:
            self.environment["NUMBA_CACHE_DIR"] = str(cache)
        self.folder = tempfile.TemporaryDirectory()
        self.process: subprocess.Popen | None = None
        self.import_seconds = float("nan")
        self.warm: set[tuple[Cell, int, float]] = set()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
        self.folder.cleanup()

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None
            self.warm.clear()

    def start(self, limit: float = 600.0) -> None:
        self.process = subprocess.Popen(
            self.command, env=self.environment, text=True, bufsize=1, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.import_seconds = self._answer(limit)["import_seconds"]

    def fit(
        self, problem: Problem, knob: float, threads: int, seed: int, limit: float = 600.0,
        peak: bool = False, cold: bool = False,
    ) -> tuple[np.ndarray, dict]:  # fmt: skip
        """The point of one fit, which is w and the intercept, and what the worker says about it.

        Unless `cold`, a solver that has not fitted this problem with so many threads since its
        process began does so first, unmeasured: a part of the set at a middle setting, and the
        whole set at the loosest one.  What a solver compiles may depend on the setting; one that
        compiles fits the whole set at the very setting that is asked for.
        """
        knobs, compiles = self.peer.knobs, self.peer.compiles
        warm = (problem.cell, threads, knob if compiles else knobs[0])
        if not cold and warm not in self.warm:
            self._ask(problem, knobs[len(knobs) // 2], threads, seed, WARM_UP_LIMIT, part=True)
            if not peak:  # whose process must not have fitted the whole set before
                longest = WARM_UP_LIMIT if compiles else CONVERTING + limit
                self._ask(problem, warm[-1], threads, seed, longest)
                self.warm.add(warm)
        return self._ask(problem, knob, threads, seed, limit, peak)

    def _ask(
        self, problem: Problem, knob: float, threads: int, seed: int, limit: float,
        peak: bool = False, part: bool = False,
    ) -> tuple[np.ndarray, dict]:  # fmt: skip
        if self.process is None:
            self.start()
        place = Path(self.folder.name) / "point.npy"
        data, cell = problem
        request = {
            "set": data.name, "data": str(path_of(data.name)), "lam": data.lam,
            "loss": cell.loss, "intercept": cell.intercept == "free", "knob": knob,
            "threads": threads, "seed": seed, "peak": peak, "part": part, "point": str(place),
        }  # fmt: skip
        self.process.stdin.write(json.dumps(request) + "\n")
        answer = self._answer(limit)
        if "error" in answer:
            raise SolverError(answer["error"])
        return np.load(place), answer

    def _answer(self, limit: float) -> dict:
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(limit):
                self.close()  # a fresh one is started for the next fit
                raise TooSlowError(f"{self.peer.name} took more than {limit:g} s")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.close()
            raise SolverError(f"the worker ended with status {code}")
        return json.loads(line)
