"""The streamed engine: rows on a disk, in parts that are read one after another."""

from batchsvm.engines.streamed.dataset import StreamedDataset, place

__all__ = ["StreamedDataset", "place"]
