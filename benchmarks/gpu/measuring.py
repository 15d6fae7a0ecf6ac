"""The device, the clock, and the file of results."""

from __future__ import annotations

import gc
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from math import inf
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse

import batchsvm
from batchsvm.core.checks import read_loss
from batchsvm.core.reading import read_many
from benchmarks.words import length
from experiments.machine import machine

WARM_SECONDS = 0.5  # of fits that take milliseconds, before those that are timed
PACKAGES = ("numpy", "scipy", "cupy", "torch", "snapml")
SHOWN = (  # of the facts of a measurement, on its line
    "epochs", "ms_per_epoch", "worst_gap", "converged", "problems", "first_seconds",
    "certificate_seconds", "read_seconds", "ratio", "suboptimality", "reached", "said_beforehand",
)  # fmt: skip


@dataclass(frozen=True)
class Device:
    """Where data are generated and trained on."""

    xp: Any
    csr: Any  # the class of CSR matrices
    name: str
    cuda: str
    driver: str

    def synchronize(self) -> None:
        if self.xp is not np:
            self.xp.cuda.Device().synchronize()

    def to_host(self, array: Any) -> np.ndarray:
        return array.get() if hasattr(array, "get") else np.asarray(array)


def on_host() -> Device:
    """NumPy in the place of a device, to try the benchmarks where there is none."""
    return Device(np, scipy.sparse.csr_matrix, "no device", "none", "none")


def on_cuda() -> Device:
    """CuPy's current device; raises DeviceError where there is none."""
    from batchsvm.engines.gpu.device import device_count

    device_count()
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(runtime.getDevice())["name"].decode()
    return Device(cupy, csr_matrix, name, _dotted(runtime.runtimeGetVersion()), _driver(runtime))


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _driver(runtime: Any) -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return f"for CUDA {_dotted(runtime.driverGetVersion())}"


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "batchsvm": batchsvm.__version__}
    for name in PACKAGES:
        for package in (name, f"{name}-cuda13x", f"{name}-cuda12x"):
            try:
                found[name] = metadata.version(package)
                break
            except metadata.PackageNotFoundError:
                continue
    return found


@dataclass
class Bench:
    """One run of the benchmarks."""

    device: Device
    out: Path | None = None
    quick: bool = False
    part: str = ""

    @property
    def xp(self) -> Any:
        return self.device.xp

    def times(self, count: int) -> int:
        return 1 if self.quick else count

    def seconds(self, work: Callable[[], Any], collects: bool = True) -> tuple[float, Any]:
        """How long the work takes until the device is done with it, and its result."""
        if collects:
            gc.collect()
        self.device.synchronize()
        began = perf_counter()
        result = work()
        self.device.synchronize()
        return perf_counter() - began, result

    def repeated(
        self,
        work: Callable[[], Any],
        count: int,
        budget: float = inf,
        collects: bool = True,
    ) -> tuple[list[float], Any]:
        """The times of some repetitions, fewer where these seconds are spent, and the last result.
        One result at a time is kept, since it may hold memory of the device."""
        taken: list[float] = []
        result = None
        while len(taken) < self.times(count) and sum(taken) < budget:
            result = None
            seconds, result = self.seconds(work, collects)
            taken.append(seconds)
        return taken, result

    def warm(
        self, work: Callable[[], Any], count: int, budget: float = inf
    ) -> tuple[list[float], Any]:
        """The same for work of some milliseconds, after it has been repeated for a while.  Garbage
        is collected once, before the repetitions: it leaves the caches of the host cold."""
        began = perf_counter()
        while not self.quick and perf_counter() - began < WARM_SECONDS:
            work()
        gc.collect()
        return self.repeated(work, count, budget, collects=False)

    def keep(self, name: str, taken: list[float], **facts: Any) -> None:
        """Append a measurement to the file, and print a line."""
        row = {
            "part": self.part, "name": name, "seconds": median(taken), "all": taken, **facts,
            "quick": self.quick, "device": self.device.name, "machine": machine(),
            "versions": versions() | {"CUDA": self.device.cuda, "driver": self.device.driver},
            "date": date.today().isoformat(),
        }  # fmt: skip
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            with self.out.open("a") as file:
                file.write(json.dumps(row, default=float) + "\n")
        words = [f"{key} {_short(facts[key])}" for key in SHOWN if key in facts]
        print(
            f"{self.part:12} {name:36} {length(median(taken)):>8}  {', '.join(words)}", flush=True
        )

    def skip(self, name: str, why: str) -> None:
        print(f"{self.part:12} {name:36} skipped: {why}", file=sys.stderr, flush=True)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def facts_of(solutions: Any) -> dict[str, Any]:
    """What a fit of one or many problems has reached, and at what pace."""
    solutions = [solutions] if isinstance(solutions, batchsvm.Solution) else list(solutions)
    last = max(solutions, key=lambda solution: solution.history.epoch[-1])
    epochs, history = float(last.history.epoch[-1]), last.history
    train = float(history.seconds[-1])
    return {
        "problems": len(solutions),
        "converged": sum(solution.status.converged for solution in solutions),
        "worst_gap": max(solution.certificate.relative_gap for solution in solutions),
        "worst_bound": max(solution.certificate.bound for solution in solutions),
        "epochs": epochs,
        "ms_per_epoch": 1000 * train / epochs if epochs else 0.0,
        "train_seconds": train,
        "certify_seconds": float(history.certify_seconds[-1]),
        "batch_size": last.batch_size,
        "batches": last.plan.batches,
        "plan": last.plan.reason,
    }


def certificate_seconds(bench: Bench, data: Any, y: Any, fit: dict[str, Any]) -> list[float]:
    """The times of the two passes of one certificate of all problems, at the end of a fit."""
    solutions = batchsvm.fit_many(data, y, warn=False, **fit)
    loss, lam = read_loss(fit["loss"]), np.atleast_1d(float(fit["lam"]))
    problem, _ = read_many(data, y, loss, lam, None)
    dual = data.joined_dual([solution.dual for solution in solutions])
    W = np.ascontiguousarray(np.array([solution.w for solution in solutions]).T)

    def certify() -> None:
        data.sums(problem, W, dual)
        data.combination(problem, dual)

    certify()
    return bench.repeated(certify, 5)[0]
