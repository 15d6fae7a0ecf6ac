"""The cluster: one that is there already, or one on this machine that ends with the last data set.

`enter` and `leave` are called in pairs, by data sets.  A connection that the caller has made by
`ray.init` is used and left as it is.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from threading import Lock
from typing import Any

from batchsvm.engines.ray.library import load_ray

# Ray's own messages stay in its log files.
QUIET = {"log_to_driver": False, "logging_level": logging.ERROR}
_lock = Lock()
_users = 0  # data sets on a connection that was made here


def enter() -> None:
    """Connect to a cluster, unless this process is connected."""
    global _users
    ray = load_ray()
    with _lock:
        if _users or not ray.is_initialized():
            if not _users:
                _connect(ray)
            _users += 1


def leave() -> None:
    """End a connection that was made here, with the last data set that uses it; a cluster that was
    started with it ends too."""
    global _users
    with _lock:
        if _users:
            _users -= 1
            if not _users:
                load_ray().shutdown()


def _connect(ray: Any) -> None:
    try:
        _init(ray, address="auto")
    except ConnectionError:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        _init(ray, address="local", num_cpus=cores, include_dashboard=False)
        what = f"starts a Ray cluster on this machine ({cores} CPUs), which ends with the data set"
    else:
        what = "uses the Ray cluster that is running"
    print(f"batchsvm: {what}", file=sys.stderr)


def _init(ray: Any, **how: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of changes that Ray plans
        ray.init(**how, **QUIET)


def cpus() -> int:
    """The CPUs of the cluster."""
    return int(load_ray().cluster_resources().get("CPU", 0))
