"""Placing X: which engine works on it, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from batchsvm.core import checks
from batchsvm.core.arrays import is_device_array
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines import cpu, reference
from batchsvm.engines.protocol import Dataset


def _place_on_gpu(X: Any, *how: Any, **options: Any) -> Dataset:
    from batchsvm.engines import gpu  # CuPy is imported where a device is asked for

    return gpu.place(X, *how, **options)


# How each engine places X.
ENGINES: dict[str, Any] = {"cpu": cpu.place, "reference": reference.place, "gpu": _place_on_gpu}


def place_on(
    engine: str,
    X: Any,
    jobs: int,
    tuning: Tuning = DEFAULT_TUNING,
    keeps_norms: bool = True,
    device: int | None = None,
    deterministic: bool = False,
) -> Dataset:
    """X on the engine of this name; "auto" is the one where X lies: a CUDA device or the cpu.
    Engines of this host are deterministic whether it is asked for or not."""
    checks.choice("engine", engine, ["auto", *ENGINES])
    if engine == "auto":
        engine = "gpu" if is_device_array(X) or device is not None else "cpu"
    if engine == "gpu":
        options = {"device": device, "deterministic": deterministic}
        return ENGINES[engine](X, jobs, tuning, keeps_norms, **options)
    if device is not None:
        raise ValueError(f'device must be None for engine="{engine}", not {device!r}')
    return ENGINES[engine](X, jobs, tuning, keeps_norms)


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
) -> Iterator[Dataset]:
    """X as placed data, closed afterwards if it was not placed before; `once` if for one fit."""
    if not is_placed(X):
        jobs = checks.read_jobs(n_jobs)
        with place_on(engine, X, jobs, keeps_norms=not once, device=device) as data:
            data.duals_outlive = True  # nobody could ask for alpha before it is closed
            yield data
        return
    if device is not None:
        raise ValueError(f"device must be None for placed data, which have theirs, not {device!r}")
    if not checks.is_word(engine, "auto"):
        raise ValueError(
            f"engine must be 'auto' for placed data, which have theirs, not {checks.shown(engine)}"
        )
    if n_jobs is not None:
        raise ValueError(
            f"n_jobs must be None for placed data, which have theirs, not {checks.shown(n_jobs)}"
        )
    yield X
