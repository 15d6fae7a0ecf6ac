"""The gpu engine: rows on a CUDA device, K problems at once."""

from batchsvm.engines.gpu.dataset import GpuDataset, place

__all__ = ["GpuDataset", "place"]
