"""Products with X'X and XX' for sigma^2 and Hessians, and sums over columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from batchsvm.engines.base_dataset import BaseDataset
from batchsvm.engines.gpu import passes
from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.rows import DeviceRows


class DeviceProducts(BaseDataset):
    """The part of `GpuDataset` that needs no problem."""

    device: CudaDevice
    rows: DeviceRows
    norms2: Any
    later_work: list[Callable[[], Any]]

    def sample(self, rows: np.ndarray) -> Any:
        """Some rows on this host."""
        with self._at_work():
            return self.rows.to_host(np.asarray(rows))

    def row_blocks(self, columns: int = 1) -> Iterator[tuple[int, Any]]:
        """The rows in their own order, in blocks: where each begins, and its cut."""
        size = max(1, passes.SPACE_BYTES // (8 * self.rows.work_columns(columns)))
        for start in range(0, self.n, size):
            stop = min(start + size, self.n)
            yield start, self.device.xp.arange(start, stop, dtype=np.int32)

    def _at_work(self) -> CudaDevice:
        self.require_open()
        return self.device

    def _weighted_gram(self, V: np.ndarray, weights: Any, bias: float | None) -> np.ndarray:
        """sum_i weights_i x_i <x_i, v> for each column v of V, (p, columns); weights are on the
        device, and None is all ones."""
        with self._at_work() as device:
            xp, m = device.xp, V.shape[1]
            inner = device.upload(np.ascontiguousarray(V[: self.d].T, dtype=np.float64))
            out, extra = xp.zeros((m, self.d)), xp.zeros(m)
            shift = device.upload(bias * V[-1])[:, None] if bias is not None else 0.0
            for start, cut in self.row_blocks(m):
                part = xp.empty((m, cut.size))
                self.rows.products(cut, inner, part)
                part += shift
                if weights is not None:
                    part *= weights[start : start + cut.size]
                self.rows.combine(cut, part, out)
                extra += part.sum(axis=1)
            found = device.to_host(out).T
            if bias is None:
                return found
            return np.vstack([found, bias * device.to_host(extra)])

    def gram_times(
        self, V: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> np.ndarray:
        with self._at_work():
            return self._weighted_gram(V, self._inverse_norms2(bias) if normalize else None, bias)

    def _inverse_norms2(self, bias: float | None) -> Any:
        """1/||x_i||^2, and 0 for rows of norm 0, on the device."""
        xp = self.device.xp
        norms2 = self.norms2 + (0.0 if bias is None else bias**2)
        return xp.where(norms2 > 0, 1.0 / xp.where(norms2 > 0, norms2, 1.0), 0.0)

    def row_gram(
        self, rows: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The device computes the Gram matrix later, as `do_later_work` says; it is fetched when it
        is first needed.  From then on nothing here holds the rows."""
        self.require_open()
        device, held = self.device, [self.rows]
        step = max(1, passes.SPACE_BYTES // (8 * self.d))

        @cache
        def there() -> Any:
            with device:
                [X] = held
                cut = device.upload(rows.astype(np.int32))
                out = device.xp.empty((len(rows), len(rows)))
                for start in range(0, len(rows), step):
                    part = slice(start, start + step)
                    X.products(cut, X.dense(cut[part]), out[part])
                held.clear()
                return out

        self.later_work.append(there)

        @cache
        def gram() -> np.ndarray:
            with device:
                found = device.to_host(there()) + (0.0 if bias is None else bias**2)
            if normalize:
                norms2 = found.diagonal()
                scale = np.divide(1.0, np.sqrt(norms2), out=np.zeros(len(rows)), where=norms2 > 0)
                found *= np.outer(scale, scale)
            return found

        return lambda v: gram() @ v

    def do_later_work(self) -> None:
        """What nobody waits for, and what needs the rows.  To launch it takes this host a fifth of
        a millisecond, which is free while the device trains."""
        with self.device:
            while self.later_work:
                self.later_work.pop()()

    def absolute_sums(
        self, normalize: bool = True, bias: float | None = None
    ) -> tuple[np.ndarray, float]:
        self.require_open()
        columns, widest = np.zeros(self.d + (bias is not None)), 0.0
        scales = np.ones(self.n)
        if normalize:
            with self.device as device:
                scales = np.sqrt(device.to_host(self._inverse_norms2(bias)))
        for start in range(0, self.n, self.tuning.dense_block_rows):
            rows = np.arange(start, min(start + self.tuning.dense_block_rows, self.n))
            X, scale = abs(self.sample(rows)), scales[rows]
            sums = np.asarray(X.sum(axis=1)).ravel() + (abs(bias) if bias is not None else 0.0)
            widest = max(widest, float((sums * scale).max()))
            columns[: self.d] += X.T @ scale
            if bias is not None:
                columns[-1] += abs(bias) * scale.sum()
        return columns, widest

    def column_norms2(self) -> np.ndarray:
        self.require_open()
        total = np.zeros(self.d)
        for start in range(0, self.n, self.tuning.dense_block_rows):
            X = self.sample(np.arange(start, min(start + self.tuning.dense_block_rows, self.n)))
            squares = X * X if isinstance(X, np.ndarray) else X.multiply(X)
            total += np.asarray(squares.sum(axis=0)).ravel()
        return total
