"""Dual points of all parts, one part after another: in memory, or in a file that is mapped."""

from __future__ import annotations

import os
import tempfile
from itertools import accumulate
from pathlib import Path

import numpy as np

from batchsvm.core.dual import HostDual
from batchsvm.engines.part_handles import Cut, PartsDual, PerPart, size_of
from batchsvm.engines.streamed.errors import naming


class Alphas:
    """(n, K) numbers, those of a part next to each other."""

    def __init__(self, cut: Cut, k: int, folder: Path | None = None) -> None:
        """Zeros; with a folder, in a file there, that nobody else sees."""
        self.cut = cut
        self._edges = [0, *accumulate(size_of(place) for place in cut.places)]
        shape = k, self._edges[-1]
        self._values = np.zeros(shape) if folder is None else _mapped(folder, shape)

    @property
    def values(self) -> np.ndarray:
        """(K, n), the rows of one part after those of another."""
        return self._values

    def of_part(self, p: int) -> np.ndarray:
        """alpha of a part, (n, K), each column contiguous; a view."""
        return self._values[:, self._edges[p] : self._edges[p + 1]].T

    def set_to(self, other: Alphas, which: np.ndarray | None = None) -> None:
        """Copy the alphas of some problems, or of all."""
        for k in range(len(self._values)) if which is None else np.flatnonzero(which):
            self._values[k] = other._values[k]

    def dual(self) -> PartsDual:
        """A handle; it changes with what is here."""
        parts = range(len(self.cut.places))
        return PartsDual(PerPart(HostDual(self.of_part(p)) for p in parts), self.cut)


def _mapped(folder: Path, shape: tuple[int, int]) -> np.ndarray:
    with naming(folder):
        handle, name = tempfile.mkstemp(prefix="alpha-", dir=folder)
        with open(handle, "r+b") as file:
            size = 8 * shape[0] * shape[1]
            if hasattr(os, "posix_fallocate"):  # a full disk is noticed here, not by a signal
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            # As a plain array: a memmap takes its time for every slice.
            values = np.memmap(file, np.float64, "r+", shape=shape).view(np.ndarray)
        if os.name == "posix":  # the mapping stays, whatever becomes of the folder
            os.unlink(name)
    return values
