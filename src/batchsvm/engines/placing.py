"""Placing X: which engine works on it, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from batchsvm.core import checks
from batchsvm.core.arrays import is_device_array
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines import cpu, reference, streamed
from batchsvm.engines.protocol import Dataset
from batchsvm.engines.streamed.memory import read_memory
from batchsvm.files.source import Source
from batchsvm.files.sources import is_ray_dataset

IN_MEMORY_SHARE = 0.5  # of the memory for rows: while they are put together, they are there twice
MAX_SHRINKAGE = 4.0  # text takes up to so many times the memory of its rows


def _place_on_cpu(X: Any, jobs: int, tuning: Tuning, keeps_norms: bool) -> Dataset:
    if hasattr(X, "one_pass"):
        found = cpu.place_source(X, jobs, tuning)
        assert found is not None  # there is no limit
        return found
    return cpu.place(X, jobs, tuning, keeps_norms)


def _place_on_gpu(X: Any, *how: Any, **options: Any) -> Dataset:
    from batchsvm.engines import gpu  # CuPy is imported where a device is asked for

    return gpu.place(X, *how, **options)


def _place_on_ray(X: Any, *how: Any, **options: Any) -> Dataset:
    from batchsvm.engines import ray  # which needs an extra

    return ray.place(X, *how, **options)


# How each engine places X.
ENGINES: dict[str, Any] = {
    "cpu": _place_on_cpu,
    "reference": reference.place,
    "gpu": _place_on_gpu,
    "streamed": streamed.place,
    "ray": _place_on_ray,
}

# What each of them takes beside X, and which of them read sources.
OPTIONS = {
    "gpu": ("device", "deterministic"),
    "streamed": ("max_memory", "cache", "progress"),
    "ray": (
        "deterministic", "workers", "worker_resources", "timeout", "y", "sample_weight", "columns",
    ),
}  # fmt: skip
SOURCES = ("cpu", "streamed", "ray")


def place_on(
    engine: str,
    X: Any,
    jobs: int,
    tuning: Tuning = DEFAULT_TUNING,
    keeps_norms: bool = True,
    device: int | None = None,
    deterministic: bool = False,
    **options: Any,
) -> Dataset:
    """X on the engine of this name; "auto" is the one where X lies: a CUDA device, the disk, the
    cluster of a `ray.data.Dataset`, or the cpu, also for a source that fits into memory.  Engines
    of this host are deterministic whether it is asked for or not.  `options` are those of one
    engine."""
    checks.choice("engine", engine, ["auto", *ENGINES])
    from_source = hasattr(X, "one_pass")
    if engine == "auto":
        on_device = is_device_array(X) or device is not None
        on_disk, on_ray = (
            any(options.get(name) is not None for name in OPTIONS[taker])
            for taker in ("streamed", "ray")
        )
        if is_ray_dataset(X) or on_ray:
            engine = "ray"
        else:
            engine = "gpu" if on_device else "streamed" if from_source or on_disk else "cpu"
        if engine == "streamed" and not on_disk:
            in_memory = _in_memory(X, jobs, tuning)
            if in_memory is not None:
                return in_memory
    given = {name: value for name, value in options.items() if value is not None}
    if engine == "gpu":
        given |= {"device": device, "deterministic": deterministic}
    elif engine == "ray":
        given["deterministic"] = deterministic
    if engine != "gpu" and device is not None:
        raise ValueError(f'device must be None for engine="{engine}", not {device!r}')
    for name in given:
        if name not in OPTIONS.get(engine, ()):
            takers = [taker for taker, names in OPTIONS.items() if name in names]
            raise ValueError(
                f'{name} must be None for engine="{engine}", not {checks.shown(given[name])}: it is'
                f' for engine="{takers[0]}"'
            )
    if from_source and engine not in SOURCES:
        raise ValueError(
            'engine must be "auto", "cpu", "streamed" or "ray" for a source, not'
            f' "{engine}": read it by batchsvm.files.read to have it as an array'
        )
    return ENGINES[engine](X, jobs, tuning, keeps_norms, **given)


def _in_memory(source: Source, jobs: int, tuning: Tuning) -> Dataset | None:
    """A source on the cpu engine, if its rows fit into memory: trained on there, they are read
    once.  Of a large source no more is read than it takes to know that."""
    limit = IN_MEMORY_SHARE * read_memory(None)
    files = getattr(source, "file_bytes", None)
    if files is not None and files > MAX_SHRINKAGE * limit:
        return None
    return cpu.place_source(source, jobs, tuning, limit)


def is_placed(X: Any) -> bool:
    """Whether this is data that `place` has placed."""
    return hasattr(X, "trainer") and hasattr(X, "gram_times")


@contextmanager
def placed(
    X: Any,
    engine: str = "auto",
    n_jobs: int | None = None,
    once: bool = False,
    device: int | None = None,
    **options: Any,
) -> Iterator[Dataset]:
    """X as placed data, closed afterwards if it was not placed before; `once` if for one fit."""
    if not is_placed(X):
        jobs = checks.read_jobs(n_jobs)
        with place_on(engine, X, jobs, keeps_norms=not once, device=device, **options) as data:
            data.duals_outlive = True  # nobody could ask for alpha before it is closed
            yield data
        return
    options |= {"device": device, "n_jobs": n_jobs}
    options["engine"] = None if checks.is_word(engine, "auto") else engine
    for name, value in options.items():
        if value is not None:
            nothing = "'auto'" if name == "engine" else "None"
            raise ValueError(
                f"{name} must be {nothing} for placed data, which have theirs, not"
                f" {checks.shown(value)}"
            )
    yield X
