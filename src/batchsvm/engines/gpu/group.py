"""What trainers of K problems at once on a device have in common: problems that are done leave."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.certificate import SUM_COUNT, Sums
from batchsvm.core.problem import Facts, Problem
from batchsvm.engines.gpu import passes
from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.dual import DeviceDual

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

# A full pass costs about an epoch: it is made when this share of the problems has come so far.
SHARE_FOR_A_PASS = 0.8


class GroupTrainer:
    """The part of a `Trainer` (see `engines/protocol.py`) that does not know its steps.

    `active` are the problems that are still trained.  A trainer adds `_dual`, their dual points,
    `_weights`, their w in float64, (active, p), and `_notice_gap`, which may make its steps more
    exact; all of it on the device.
    """

    # Ctrl-C may come before w has followed alpha; certificates are of whatever is there.
    survives_exceptions = True
    knows_point = estimates_are_reliable = False

    active: np.ndarray
    _best_W: np.ndarray

    def __init__(self, data: GpuDataset, problem: Problem, facts: Facts) -> None:
        self.data, self.problem, self.facts = data, problem, facts
        self.device: CudaDevice = data.device
        self._fetched: tuple[Any, Any] = (None, None)  # a point on this host, and on the device
        self._recomputed: Any = None  # sum_i alpha_i s_i x_i of the last certificate
        # Whether the next full pass is likely to end in a certificate; the combination of that
        # certificate, if the device computes it already.
        self._certifies_next, self._ahead = False, None

    @property
    def _dual(self) -> DeviceDual:
        raise NotImplementedError

    def _weights(self) -> Any:
        raise NotImplementedError

    def _notice_gap(self, gap: float) -> None:
        raise NotImplementedError

    @property
    def _are_all_active(self) -> bool:
        return self.active.size == self.problem.k

    @property
    def _problem(self) -> Problem:
        """The active problems."""
        return self.problem if self._are_all_active else self.problem.some(self.active)

    @property
    def _units(self) -> np.ndarray:
        """1/(lam N) of the active problems."""
        return 1.0 / (self.problem.lam * self.facts.total_weight)[self.active]

    def _scattered(self, found: np.ndarray) -> np.ndarray:
        """What was found for the active problems, last axis, as an array of all; NaN elsewhere."""
        if self._are_all_active:
            return found
        out = np.full((*found.shape[:-1], self.problem.k), np.nan)
        out[..., self.active] = found
        return out

    def iterate(self) -> np.ndarray:
        with self.device as device:
            weights = self._weights()
            found = self._scattered(device.to_host(weights).T)
        if not self._are_all_active:
            done = np.setdiff1d(np.arange(self.problem.k), self.active)
            found[:, done] = self._best_W[:, done]
        found.flags.writeable = False  # a full pass there uses what is on the device
        self._fetched = found, weights[:, : self.data.d]
        return found

    point = iterate

    def recent_mean(self) -> None:
        return None

    def sums(self, W: np.ndarray, screen: bool = False) -> Sums:
        own = W if self._are_all_active else np.ascontiguousarray(W[:, self.active])
        there = self._fetched[1] if self._fetched[0] is W else None
        with self.device:
            at = self._at(own)
            if screen and self._certifies_next:
                # What both halves of a certificate need is prepared once, and the device is at work
                # on this half while this host asks for the other.
                self._ahead = passes.combination(self.data, at)
            found = passes.sums(self.data, at, own, there)
        if screen:
            self._notice_gap(median(found.gaps(self._problem.lam)))
        values, norms = self._scattered(found.values), self._scattered(found.norms)
        depth = found.facts.depth  # of this pass over the cut
        return Sums(values.reshape(SUM_COUNT, -1), norms, self.facts._replace(depth=depth))

    def _at(self, W: np.ndarray | None) -> passes.PointPass:
        facts = self.facts
        if not self._are_all_active:
            facts = Facts(*facts[:3], *(column[self.active] for column in facts[3:]))
        return passes.point_pass(self.data, self._problem, self._dual, W, facts)

    def _combination(self) -> Any:
        """sum_i alpha_i s_i x_i of the active problems, (active, p), on the device."""
        return passes.combination(self.data, self._at(None))

    def _set_w(self, combination: Any) -> None:
        """w computed anew from alpha."""
        raise NotImplementedError

    def combination(self) -> np.ndarray:
        with self.device as device:
            ahead, self._ahead = self._ahead, None
            self._recomputed = found = self._combination() if ahead is None else ahead
            return self._scattered(device.to_host_for_a_moment(found).T)

    def _take_recomputed(self) -> None:
        """Go on from the w that the last certificate has computed."""
        if self._recomputed is not None:
            self._set_w(self._recomputed)
            self._recomputed = None

    def keep_primal(self, W: np.ndarray, which: np.ndarray) -> None:
        # Nobody changes a point that was fetched, so that all of it is kept without a copy.
        self._best_W = W if which.all() else np.where(which, W, self._best_W)

    def _own_best_W(self) -> np.ndarray:
        """The best W, which from now on belongs to the caller."""
        self._best_W.flags.writeable = True
        return self._best_W

    def restart_average(self) -> None:
        """There is none."""
