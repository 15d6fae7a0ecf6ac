"""The reference engine: plain NumPy, the oracle of the tests."""

from batchsvm.engines.reference.dataset import ReferenceDataset, place

__all__ = ["ReferenceDataset", "place"]
