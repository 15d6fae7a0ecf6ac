"""Rows on the device: dense ones, in the numbers that they came in."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.kernels import FEW_PROBLEMS

PARTS = 64  # in which a round adds up rows
PASS_PARTS = 1024  # and a pass over all of them
ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


class DeviceRows(Protocol):
    """What passes over all rows need; `cut` is a device array of row numbers, -1 for none."""

    n: int
    d: int
    nonzeros: int
    longest: int
    is_dense: bool
    deterministic: bool  # whether sums of rows have the same bits every time

    @property
    def nbytes(self) -> int: ...

    def norms2(self) -> tuple[Any, float]:
        """||x_i||^2 of every row, (n,), float64, and the largest of them."""
        ...

    def work_columns(self, K: int) -> int:
        """The numbers per row that `products` and `combine` need as work space for K problems."""
        ...

    def products(self, cut: Any, W: Any, out: Any) -> None:
        """out (K, rows of the cut) = <w_k, x_i>, for W (K, d), in float64."""
        ...

    def combine(self, cut: Any, coefficients: Any, out: Any) -> None:
        """out (K, d) += sum_i c_ki x_i, in float64."""
        ...

    def dense(self, cut: Any) -> Any:
        """The rows of the cut, (rows, d), in float64."""
        ...

    def take(self, rows: Any) -> DeviceRows:
        """Some of the rows, copied."""
        ...

    def to_host(self, rows: np.ndarray) -> Any:
        """A few rows on the host, float64 or CSR."""
        ...


class DenseRows:
    """A row-major array of the device."""

    is_dense = True
    deterministic = True

    def __init__(self, device: CudaDevice, values: Any, kind: str) -> None:
        self.device, self.values, self.kind = device, values, kind
        self.n, self.d = values.shape
        self.nonzeros = self.n * self.d
        self.longest = self.d
        self.nbytes = self.nonzeros * ITEM_BYTES[kind]

    def norms2(self) -> tuple[Any, float]:
        out = self.device.xp.empty(self.n)
        self.device.kernels.norms2(self, out)
        return out, float(out.max())

    def dense(self, cut: Any) -> Any:
        """They are not kept for the next block: the device's pool of memory gives it the same
        again, and between passes a fit has a use for it."""
        found = self.device.xp.empty((cut.size, self.d))
        self.device.kernels.gather(self, cut, found)
        return found

    def work_columns(self, K: int) -> int:
        return K if K <= FEW_PROBLEMS else max(K, self.d)

    def products(self, cut: Any, W: Any, out: Any) -> None:
        if len(W) <= FEW_PROBLEMS:
            self.device.kernels.row_products(self, cut, W, out)
        else:
            self.device.matmul(W, self.dense(cut), out, transpose_b=True)

    def combine(self, cut: Any, coefficients: Any, out: Any) -> None:
        if len(out) <= FEW_PROBLEMS:
            parts = self.device.xp.empty((min(PASS_PARTS, cut.size), *out.shape))
            self.device.kernels.add_rows(self, cut, coefficients, parts)
            out += parts.sum(axis=0)
        else:
            self.device.matmul(coefficients, self.dense(cut), out, accumulate=True)

    def take(self, rows: Any) -> DenseRows:
        return DenseRows(
            self.device, self.device.xp.ascontiguousarray(self.values[rows]), self.kind
        )

    def to_host(self, rows: np.ndarray) -> np.ndarray:
        return self.device.to_host(self.dense(self.device.upload(rows, np.int32)))
