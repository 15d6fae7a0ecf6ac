"""The cut of the rows into batches, and the Gram matrices of the batches.

Both depend on the rows, the seed and the size of a batch alone, so that the fits of a path share
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.precision import real_of
from batchsvm.engines.gpu.rows import DenseRows, DeviceRows

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

WARP = 32  # rows of a batch are a multiple of it, with places left empty
MAX_HOST_CUT = 2**17  # rows that are shuffled on the host, as the other engines do it
GRAM_SPACE_BYTES = 2**28


class Batches:
    """A cut, and the Gram matrices that were computed for it."""

    def __init__(
        self, device: CudaDevice, rows: DeviceRows, size: int, seed: int, multiple: int = WARP
    ) -> None:
        self._device, self._rows = device, rows
        self.B = -(-size // multiple) * multiple
        n, xp = rows.n, device.xp
        rng = np.random.default_rng(seed)
        self._size = size
        if n <= MAX_HOST_CUT:  # which is laid out there as well, and uploaded at once
            self.cut = device.upload(self._laid_out(np, rng.permutation(n)))
        else:
            shuffled = xp.argsort(xp.random.default_rng(seed).random(n)).astype(np.int32)
            self.cut = self.laid_out(shuffled)
        self.rng_state = rng.bit_generator.state
        self._gram: dict[str, Any] = {}

    def laid_out(self, rows: Any) -> Any:
        """The cut of the rows in this order, a device array: (batches, B)."""
        return self._laid_out(self._device.xp, rows)

    def _laid_out(self, xp: Any, rows: Any) -> Any:
        size, count = self._size, -(-self._rows.n // self._size)
        full = xp.full(count * size, -1, np.int32)
        full[: self._rows.n] = rows
        if size == self.B:
            return full.reshape(count, size)
        cut = xp.full((count, self.B), -1, np.int32)
        cut[:, :size] = full.reshape(count, size)
        return cut

    def rng(self) -> np.random.Generator:
        """The stream that orders the batches of each epoch; every fit begins it anew."""
        rng = np.random.default_rng(0)
        rng.bit_generator.state = self.rng_state
        return rng

    def gram(self, precision: str, batches: int, keep: bool = True) -> tuple[Any, bool]:
        """All Gram matrices, or room for those of a round; and which of the two."""
        xp, B = self._device.xp, self.B
        real = real_of(precision)
        if not keep:
            return xp.empty((batches, B, B), real), False
        kept = self._gram.get(precision)
        if kept is None:
            self._gram = {}  # room for one
            kept = xp.empty((len(self.cut), B, B), real)
            self.compute_gram(self.cut, precision, kept)
            self._gram = {precision: kept}  # once it is there: other threads may look for it
        return kept, True

    def compute_gram(self, cut: Any, precision: str, found: Any) -> None:
        """The Gram matrices of a cut, (batches, B, B)."""
        device, xp, B, count = self._device, self._device.xp, self.B, len(cut)
        x, real = _dense(self._rows), found.dtype
        step = min(count, max(1, GRAM_SPACE_BYTES // (B * x.d * real.itemsize)))
        rows = xp.empty((step * B, x.d), real)
        for start in range(0, count, step):
            stop = min(start + step, count)
            part = rows[: (stop - start) * B]
            device.kernels.gather(x, cut[start:stop].ravel(), part)
            stack = part.reshape(stop - start, B, x.d)
            device.matmul(stack, stack, found[start:stop], transpose_b=True, precision=precision)


def _dense(rows: DeviceRows) -> DenseRows:
    assert isinstance(rows, DenseRows), "Gram matrices are of dense rows"
    return rows


def batches_of(data: GpuDataset, size: int, seed: int, multiple: int = WARP) -> Batches:
    """The batches of a fit, of a multiple of so many places; the last ones are kept with the
    data."""
    key, held = ("batches", size, seed, multiple), data.memo.get("batches")
    if held is None or held[0] != key:
        data.memo["batches"] = None  # its memory may be needed
        held = data.memo["batches"] = (key, Batches(data.device, data.rows, size, seed, multiple))
    return held[1]
