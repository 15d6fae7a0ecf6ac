"""Dual points on this host; those of an engine with a memory of its own stay there until somebody
asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dual


@dataclass(frozen=True, eq=False)
class HostDual:
    """A `Dual` (see `engines/protocol.py`) on this host."""

    alpha: np.ndarray  # (n, K); each column contiguous

    def fetch(self) -> np.ndarray:
        return self.alpha

    def only(self, k: int) -> HostDual:
        return HostDual(self.alpha[:, k : k + 1])


@dataclass(frozen=True, eq=False)
class DroppedDual:
    """A dual point that was not kept."""

    lam: float

    def fetch(self) -> np.ndarray:
        raise ValueError(
            f"alpha of lam = {self.lam:g} was not kept: pass alphas='all' to batchsvm.path"
        )

    def only(self, k: int) -> DroppedDual:
        return self


def dual_of(alpha: np.ndarray) -> HostDual:
    """The dual point of one problem, from alpha of shape (n,)."""
    return HostDual(alpha[:, np.newaxis])


def host_alpha(alpha: np.ndarray | Dual) -> np.ndarray:
    """alpha on this host, (n, K), wherever it is."""
    return alpha if isinstance(alpha, np.ndarray) else alpha.fetch()
