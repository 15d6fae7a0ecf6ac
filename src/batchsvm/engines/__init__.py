"""Engines: where data lie, and who trains on them.  `protocol.py` is what each of them offers."""

from batchsvm.engines.placing import ENGINES, is_placed, place_on, placed
from batchsvm.engines.protocol import Dataset

__all__ = ["ENGINES", "Dataset", "is_placed", "place_on", "placed"]
