"""Actors: how workers are started and ended."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

from batchsvm.engines.ray.library import load_ray
from batchsvm.engines.ray.worker import PartWorker, Where

# Threads of a worker: one that works, call after call, and one that answers meanwhile.  Without a
# name of its own for the first, Ray would use the thread that takes calls.
WORK, PULSE = "work", "pulse"
KILL_SECONDS = 5.0  # to wait for a process on another machine to be ended


class Actors:
    """Starts and ends the workers of one data set."""

    def __init__(self, resources: dict[str, Any], timeout: float) -> None:
        self._resources, self._timeout = resources, timeout

    def start(self) -> Any:
        """A new actor; where there is no room for it, it does not answer."""
        kind = load_ray().remote(max_restarts=0, concurrency_groups={WORK: 1, PULSE: 1})(PartWorker)
        options = {"scheduling_strategy": "SPREAD", **self._resources}
        return kind.options(**options).remote(self._timeout)

    def stop(self, actor: Any) -> None:
        """End an actor that answers, or one that is gone."""
        with contextlib.suppress(Exception):  # it may be gone already
            load_ray().kill(actor)

    def end(self, actor: Any, where: Where | None) -> None:
        """End an actor that may not answer: its process would keep its CPUs."""
        self.stop(actor)
        if where is None:
            return
        ray = load_ray()
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            where.node, soft=False
        )
        end = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=strategy)(_end_process)
        with contextlib.suppress(ray.exceptions.RayError):  # its machine may be gone
            ray.get(end.remote(where.pid), timeout=KILL_SECONDS)


def _end_process(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
