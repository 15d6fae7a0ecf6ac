"""The ray engine on a small cluster on this machine, which the tests of a session share."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import warnings
from dataclasses import replace

from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines.ray import actors, placing

WORKERS = 2
ROWS = 12  # the rows of a part are a multiple of this
HAS_RAY = importlib.util.find_spec("ray") is not None
MISSING = "Ray is not installed: make test-ray has an environment with it"


@contextlib.contextmanager
def small_cluster(cpus=32):
    """A cluster with more CPUs than there are: idle workers of tests hold theirs."""
    import ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False,
            logging_level=logging.ERROR, object_store_memory=200_000_000,
        )  # fmt: skip
    try:
        yield
    finally:
        IDLE.clear()
        ray.shutdown()


# Actors that no data set uses: a process takes seconds to start.
IDLE: list = []


class ReusedActors(actors.Actors):
    """Actors that serve one data set after another."""

    def start(self):
        return IDLE.pop() if IDLE else super().start()

    def stop(self, actor):
        try:
            actor.clear.remote()
        except Exception:
            return
        IDLE.append(actor)


def place_on_small_cluster(
    X, jobs=1, tuning=DEFAULT_TUNING, keeps_norms=True, deterministic=True, **options
):
    """As the engine does, with two workers, small parts, and rounds of a fixed size."""
    if tuning.min_part_rows == DEFAULT_TUNING.min_part_rows:
        tuning = replace(tuning, min_part_rows=ROWS)
    options = {"workers": WORKERS, **options}
    return placing.place(X, jobs, tuning, keeps_norms, True, **options)
