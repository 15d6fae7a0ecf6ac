"""Placing X: which engine works on it, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from batchsvm.core import checks
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines import cpu, reference
from batchsvm.engines.protocol import Dataset

# How each engine places X.
ENGINES: dict[str, Any] = {"cpu": cpu.place, "reference": reference.place}


def place_on(
    engine: str, X: Any, jobs: int, tuning: Tuning = DEFAULT_TUNING, keeps_norms: bool = True
) -> Dataset:
    """X on the engine of this name; "auto" is the one where X lies: the cpu, so far."""
    checks.choice("engine", engine, ["auto", *ENGINES])
    return ENGINES["cpu" if engine == "auto" else engine](X, jobs, tuning, keeps_norms)


def is_placed(X: Any) -> bool:
    """Whether this is data that `place` has placed."""
    return hasattr(X, "trainer") and hasattr(X, "gram_times")


@contextmanager
def placed(
    X: Any, engine: str = "auto", n_jobs: int | None = None, once: bool = False
) -> Iterator[Dataset]:
    """X as placed data, closed afterwards if it was not placed before; `once` if for one fit."""
    if not is_placed(X):
        with place_on(engine, X, checks.read_jobs(n_jobs), keeps_norms=not once) as data:
            yield data
        return
    if not checks.is_word(engine, "auto"):
        raise ValueError(
            f"engine must be 'auto' for placed data, which have theirs, not {checks.shown(engine)}"
        )
    if n_jobs is not None:
        raise ValueError(
            f"n_jobs must be None for placed data, which have theirs, not {checks.shown(n_jobs)}"
        )
    yield X
