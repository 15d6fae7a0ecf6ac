"""Engines: where data lie, and who trains on them.  `protocol.py` is what each of them offers."""

from typing import Any

from batchsvm.core.checks import choice
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines import cpu, reference
from batchsvm.engines.protocol import Dataset

# How each engine places X.
ENGINES: dict[str, Any] = {"cpu": cpu.place, "reference": reference.place}


def place_on(
    engine: str, X: Any, jobs: int, tuning: Tuning = DEFAULT_TUNING, keeps_norms: bool = True
) -> Dataset:
    """X on the engine of this name; "auto" is the one where X lies: the cpu, so far."""
    choice("engine", engine, ["auto", *ENGINES])
    return ENGINES["cpu" if engine == "auto" else engine](X, jobs, tuning, keeps_norms)


__all__ = ["ENGINES", "Dataset", "place_on"]
