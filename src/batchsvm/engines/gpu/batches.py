"""The cut of the rows into batches, and the Gram matrices of the batches.

Both depend on the rows, the seed and the size of a batch alone, so that the fits of a path share
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

WARP = 32  # rows of a batch are a multiple of it, with places left empty
MAX_BATCH_ROWS = 512  # so many a warp can hold in registers
MAX_HOST_CUT = 2**17  # rows that are shuffled on the host, as the other engines do it
GRAM_SPACE_BYTES = 2**28


class Batches:
    """A cut, and the Gram matrices that were computed for it."""

    def __init__(self, data: GpuDataset, size: int, seed: int, multiple: int = WARP) -> None:
        self.data = data
        self.B = -(-size // multiple) * multiple
        count = -(-data.n // size)
        rng = np.random.default_rng(seed)
        device, xp = data.device, data.device.xp
        if data.n <= MAX_HOST_CUT:
            rows = device.upload(rng.permutation(data.n), np.int32)
        else:
            keys = xp.random.default_rng(seed).random(data.n)
            rows = xp.argsort(keys).astype(np.int32)
        full = xp.full(count * size, -1, np.int32)
        full[: data.n] = rows
        self.cut = xp.full((count, self.B), -1, np.int32)
        self.cut[:, :size] = full.reshape(count, size)
        self.rng_state = rng.bit_generator.state
        self._gram: dict[str, Any] = {}

    def rng(self) -> np.random.Generator:
        """The stream that orders the batches of each epoch; every fit begins it anew."""
        rng = np.random.default_rng(0)
        rng.bit_generator.state = self.rng_state
        return rng

    def gram(self, precision: str, batches: int, keep: bool = True) -> tuple[Any, bool]:
        """All Gram matrices, or room for those of a round; and which of the two."""
        xp, B = self.data.device.xp, self.B
        real = "float64" if precision == "float64" else "float32"
        if not keep:
            return xp.empty((batches, B, B), real), False
        if precision not in self._gram:
            self._gram.clear()  # room for one
            self._gram[precision] = self._compute(precision, real)
        return self._gram[precision], True

    def _compute(self, precision: str, real: str) -> Any:
        data, B, count = self.data, self.B, len(self.cut)
        device, xp = data.device, data.device.xp
        item = 8 if real == "float64" else 4
        step = max(1, GRAM_SPACE_BYTES // (B * data.d * item))
        found, rows = xp.empty((count, B, B), real), xp.empty((step * B, data.d), real)
        for start in range(0, count, step):
            stop = min(start + step, count)
            part = rows[: (stop - start) * B]
            device.kernels.gather(data.rows, self.cut[start:stop].ravel(), part)
            stack = part.reshape(stop - start, B, data.d)
            device.matmul(stack, stack, found[start:stop], transpose_b=True, precision=precision)
        return found


def batches_of(data: GpuDataset, size: int, seed: int, multiple: int = WARP) -> Batches:
    """The batches of a fit, of a multiple of so many places; the last ones are kept with the
    data."""
    key, held = ("batches", size, seed, multiple), data.memo.get("batches")
    if held is None or held[0] != key:
        data.memo["batches"] = None  # its memory may be needed
        held = data.memo["batches"] = (key, Batches(data, size, seed, multiple))
    return held[1]
