"""The compiled engine: Numba kernels on this machine's cores."""

from batchsvm.engines.cpu.dataset import CpuDataset, place

__all__ = ["CpuDataset", "place"]
