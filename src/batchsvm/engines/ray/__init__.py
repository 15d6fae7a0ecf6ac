"""The ray engine: parts of the rows in actors of a Ray cluster, all trained at the same time."""

from batchsvm.engines.ray.dataset import RayDataset
from batchsvm.engines.ray.placing import place

__all__ = ["RayDataset", "place"]
