"""The compiled engine: Numba kernels on this machine's cores."""

from batchsvm.engines.cpu.dataset import CpuDataset, place
from batchsvm.engines.cpu.labelled import LabelledDataset, place_source

__all__ = ["CpuDataset", "LabelledDataset", "place", "place_source"]
