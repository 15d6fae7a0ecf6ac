"""Dual points on the device.

alpha lies batch by batch, then problem by problem, so that the warp of one problem reads a batch
in one go: alpha[batch, k, place], relative to the weights.  Row cut[batch, place] has that place;
-1 is no row.  What counts is the value put into the box in float64, times the weight.  A point
that was given is kept as it is instead, since alpha / c times c may differ from it in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.dual import HostDual
from batchsvm.core.problem import Problem, relative
from batchsvm.engines.protocol import Dual

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

NATURAL_BATCH = 256  # places per batch of a dual point that came from elsewhere


@dataclass(frozen=True, eq=False)
class DeviceDual:
    """K dual points of a problem."""

    data: GpuDataset
    problem: Problem
    cut: Any  # (batches, B) of int32
    alpha: Any  # (batches, K, B) of float32 or float64
    whole: DeviceDual | None = None  # what this is column `place` of
    place: int = 0
    is_absolute: bool = False  # alpha itself, as it was given, and not alpha / c

    @property
    def B(self) -> int:
        return self.cut.shape[1]

    @property
    def k(self) -> int:
        return self.alpha.shape[1]

    def only(self, k: int) -> DeviceDual:
        """The dual point of problem k alone; it shares the memory of all."""
        if self.k == 1:
            return self
        one = self.alpha[:, k : k + 1]
        return replace(self, problem=self.problem.only(k), alpha=one, whole=self, place=k)

    def fetch(self) -> np.ndarray:
        """alpha on this host, (n, K), each column contiguous."""
        if not (self.data.home.is_open or self.data.duals_outlive):
            raise ValueError(
                "alpha is gone with its data set, which is closed: read Solution.alpha (of an"
                " estimator, dual_coef_) before, or keep the data set open (batchsvm.place)"
            )
        loss, n = self.problem.loss, self.data.n
        out = np.empty((n, self.k), order="F")
        with self.data.device as device:
            for k in range(self.k):
                found, weights = self._stored(k), self._weights(k)
                if not self.is_absolute:
                    found = device.xp.clip(found, loss.lower, loss.upper)
                out[:, k] = device.to_host(found)
                if weights is not None and not self.is_absolute:
                    out[:, k] *= weights
        return out

    def _weights(self, k: int) -> np.ndarray | None:
        targets: Any = self.problem.only(k).targets
        return targets.weights(0, self.data.n)

    def __reduce__(self) -> Any:
        """Pickled, it is a dual point of the host."""
        return HostDual, (self.fetch(),)

    def column(self, k: int) -> Any:
        """alpha / c of problem k in the order of the rows, (n,), float64."""
        found, weights = self._stored(k), self._weights(k)
        if not self.is_absolute or weights is None:
            return found
        inside = relative(self.problem.loss, self.data.device.to_host(found), weights)
        return self.data.device.upload(inside)

    def _stored(self, k: int) -> Any:
        xp = self.data.device.xp
        cut = self.cut.ravel()
        places = xp.flatnonzero(cut >= 0)
        found = xp.empty(self.data.n)
        found[cut[places]] = self.alpha[:, k].astype(np.float64).ravel()[places]
        return found


def natural_cut(device: Any, n: int, batch: int = NATURAL_BATCH) -> Any:
    """All rows in their own order, in batches of so many places."""
    count = -(-n // batch)
    cut = device.xp.arange(count * batch, dtype=np.int32)
    cut[n:] = -1
    return cut.reshape(count, batch)


def placed_alpha(
    device: Any, cut: Any, count: int, column_of: Callable[[int], Any], real: str
) -> Any:
    """alpha[batch, k, place] from columns of alpha / c in the order of the rows, (n,) each."""
    xp, (batches, batch) = device.xp, cut.shape
    out, rows = xp.zeros((batches, count, batch), real), xp.maximum(cut, 0)
    for k in range(count):
        out[:, k] = xp.where(cut >= 0, column_of(k)[rows], 0.0)
    return out


def starting_alpha(device: Any, cut: Any, count: int, dual: Dual | None, real: str) -> Any:
    """alpha[batch, k, place] from which a trainer starts, in memory of its own: zero or a point."""
    if dual is None:
        return device.xp.zeros((len(cut), count, cut.shape[1]), real)
    assert isinstance(dual, DeviceDual)
    if dual.cut is cut:
        return device.xp.ascontiguousarray(dual.alpha.astype(real))
    return placed_alpha(device, cut, count, dual.column, real)


def moved_alpha(device: Any, alpha: Any, old: Any, new: Any) -> Any:
    """alpha[batch, k, place] of one cut as that of another."""
    xp, (_, count, batch) = device.xp, alpha.shape
    flat, was, goes = alpha.transpose(1, 0, 2).reshape(count, -1), old.ravel(), new.ravel()
    filled, to = xp.flatnonzero(was >= 0), xp.flatnonzero(goes >= 0)
    place_of = xp.empty(filled.size, np.int64)
    place_of[was[filled]] = filled
    out = xp.zeros((count, goes.size), alpha.dtype)
    out[:, to] = flat[:, place_of[goes[to]]]
    return out.reshape(count, -1, batch).transpose(1, 0, 2)
