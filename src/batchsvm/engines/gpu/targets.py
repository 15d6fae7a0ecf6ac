"""Targets, weights and offsets on the device, beside those on the host that they came as."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.targets import HostTargets


@dataclass(frozen=True, eq=False)
class DeviceColumns:
    """The targets of K problems as kernels read them: each array is (K, n), or (1, n) for all."""

    codes: Any  # (n,) of int32, or None
    y: Any
    weights: Any
    offsets: Any


@dataclass(frozen=True, eq=False)
class GpuTargets(HostTargets):
    """`HostTargets` that are uploaded once, and converted to each type of numbers that kernels ask
    for."""

    device: CudaDevice = field(kw_only=True)
    as_given: dict[str, Any] = field(kw_only=True, default_factory=dict)
    uploaded: dict[str, DeviceColumns] = field(kw_only=True, default_factory=dict)
    chosen_columns: dict[bytes, Any] = field(kw_only=True, default_factory=dict)

    def columns(self, real: str) -> DeviceColumns:
        """All problems' targets; that of problem k is its column, whatever `only` has chosen."""
        if real not in self.uploaded:
            coded = self.classes > 0
            self.uploaded[real] = DeviceColumns(
                self._placed("y", "int32")[0] if coded else None,
                None if coded else self._placed("y", real),
                self._placed("sample_weight", real),
                self._placed("offset", real),
            )
        return self.uploaded[real]

    def problems(self, count: int) -> Any:
        """Which column each of so many problems has, as kernels read it."""
        columns = self.columns_of(count)
        key = columns.tobytes()
        if key not in self.chosen_columns:
            self.chosen_columns[key] = self.device.upload(columns)
        return self.chosen_columns[key]

    def _placed(self, name: str, kind: str) -> Any:
        """The attribute of this name, (K, n) or (1, n), as numbers of this kind."""
        array = getattr(self, name)
        if array is None:
            return None
        if name not in self.as_given:
            rows = array[np.newaxis] if array.ndim == 1 else array.T
            self.as_given[name] = self.device.upload_large(rows)[0]
        return self.as_given[name].astype(kind, copy=False)
