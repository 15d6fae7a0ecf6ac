"""Training K problems on dense rows of a device: rounds of exact batches (methods/gram.py).

One round takes S batches: their rows are gathered into work space, multiplied by W, visited by one
warp per problem and batch with the Gram matrix of the batch, and multiplied by the changes.  All K
problems share the Gram matrices.  Problems that are done leave, and what remains is compacted.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

import numpy as np

from batchsvm.core.layout import Schedule
from batchsvm.core.options import PRECISIONS
from batchsvm.core.parallel import StopFlag
from batchsvm.engines import batch_order
from batchsvm.engines.gpu.batches import Batches, batches_of
from batchsvm.engines.gpu.dual import DeviceDual, moved_alpha, starting_alpha
from batchsvm.engines.gpu.group import SHARE_FOR_A_PASS, GroupTrainer
from batchsvm.engines.gpu.kernels import FEW_PROBLEMS
from batchsvm.engines.gpu.precision import REFRESH_EPOCHS, STALLED, fits_float32, real_of
from batchsvm.engines.gpu.rounds import GramState, run_round
from batchsvm.engines.gpu.rows import PARTS
from batchsvm.engines.protocol import Dual, Progress
from batchsvm.methods import Gram

ROUNDS_PER_LOOK = 512  # then the stop flag is looked at


class GramTrainer(GroupTrainer):
    """A `Trainer` of K problems: see `engines/protocol.py`."""

    takes_dense, takes_sparse = True, False

    # Setting up.

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        method, data, K = schedule.method, self.data, self.problem.k
        assert isinstance(method, Gram)
        self.method, self.S, self.sweeps = method, schedule.batches, method.sweeps
        self.active = np.arange(K)
        self.iterations = np.zeros(K, np.int64)
        self._iteration = self._epochs_since_refresh = 0
        self._gap_before = inf
        self._keeps_gram = schedule.keeps_gram
        self._automatic = schedule.precision == "auto"
        precision = "tf32" if self._automatic else schedule.precision
        if self._automatic and not fits_float32(data, self.problem, self.facts):
            precision = "float64"
        with self.device as device:
            self.batches: Batches = batches_of(data, schedule.batch_size, schedule.seed)
            self._rng = self.batches.rng()
            self._cuts_anew = len(self.batches.cut) <= batch_order.FEW_BATCHES
            self._cut = self.batches.cut.copy() if self._cuts_anew else self.batches.cut
            p = self.problem.columns(data.d)
            real = real_of(precision)
            alpha = starting_alpha(device, self.batches.cut, K, dual, real)
            self._best_alpha = alpha.copy()
            self._best_W = np.zeros((p, K))
            W = device.xp.zeros((K, p), real)
            self.state = self._make_state(precision, W, alpha)
            if dual is not None:
                self._set_w(self._combination())
            self._end_epoch()

    def _make_state(
        self, precision: str, W: Any, alpha: Any, before: GramState | None = None
    ) -> GramState:
        """Work space and constants for the active problems; beta and counts go on as before."""
        device, problem, data, active = self.device, self.problem, self.data, self.active
        xp, K, S, B = device.xp, len(active), self.S, self.batches.B
        real = real_of(precision)
        targets: Any = problem.targets
        first = (
            np.full(K, self.method.first_beta(1.0, S))
            if before is None
            else device.to_host(before.beta)
        )
        refused = np.zeros(K, np.int32) if before is None else device.to_host(before.refused)
        gram, is_kept = self.batches.gram(precision, S, self._keeps_gram)
        if self._cuts_anew and is_kept:
            gram = xp.empty_like(gram)
            self.batches.compute_gram(self._cut, precision, gram)
        direct = K <= FEW_PROBLEMS
        several, parts = S > 1 or direct, PARTS if direct else 1
        state = GramState(
            problem.loss, real, precision, data.d, K, S, B, self.sweeps, self._cut, gram,
            is_kept, targets.columns(real), device.upload(problem.offset[active], real),
            device.upload(targets.columns_of(problem.k)[active]), device.upload(self._units, real),
            None if problem.bias is None else device.upload(problem.bias[active], real),
            W, alpha, device.upload(first, real),
            device.upload(refused, np.int32),
            xp.full(self.rounds * S, -1, np.int32) if before is None else before.order,
            xp.zeros(1, np.int32) if before is None else before.round, xp.zeros(1, np.int32),
            None if direct and is_kept else xp.empty((S * B, data.d), real),
            xp.empty((K, S * B), real),
            xp.empty((K, S * B), real), xp.empty((S, K, B), real) if several else None,
            xp.empty((parts, K, data.d), real) if several else None, xp.zeros((S, K)),
            xp.zeros((4, S, K), real),
        )  # fmt: skip
        # It must not know this trainer: a cycle would keep the memory of a device.
        self._rounds = device.repeated(partial(run_round, device, data.rows, state))
        return state

    @property
    def rounds(self) -> int:
        """Per epoch."""
        return -(-len(self.batches.cut) // self.S)

    # Rounds.

    def _end_epoch(self) -> np.ndarray:
        """Begin the next epoch; N times the gap that the last one has shown, per problem."""
        state, count = self.state, len(self.batches.cut)
        shown = state.estimate.sum(axis=0)
        if self._cuts_anew and self._iteration:
            self._cut_anew()
        # The rounds of the last epoch are still under way while the next order is drawn.
        order = np.full(self.rounds * self.S, -1, np.int32)
        order[:count] = self._rng.permutation(count)
        state.order[:] = self.device.upload(order)
        state.round[:] = 0
        state.estimate[:] = 0.0
        self._left = self.rounds
        return self.device.to_host(shown)

    def _cut_anew(self) -> None:
        """Other batches for the next epoch, where there are few (`engines/batch_order.py`)."""
        state, rows = self.state, self._rng.permutation(self.data.n)
        cut = self.batches.laid_out(self.device.upload(rows, np.int32))
        state.alpha[:] = moved_alpha(self.device, state.alpha, self._cut, cut)
        self._cut[:] = cut
        if state.gram_is_kept:
            self.batches.compute_gram(cut, state.precision, state.gram)

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        estimates = np.full(self.problem.k, inf)
        with self.device as device:
            self._take_recomputed()
            self._leave(~np.isnan(targets))
            goal, weight = targets[self.active], self.facts.total_weight[self.active]
            while self._iteration < until and not (np.isnan(goal).all() or stop.is_set):
                count = min(self._left, until - self._iteration, ROUNDS_PER_LOOK)
                self._rounds(count)
                self._iteration, self._left = self._iteration + count, self._left - count
                if self._left:
                    device.synchronize()  # so that the stop flag is looked at in time
                    continue
                shown = self._end_epoch() / weight
                self._epochs_since_refresh += 1
                if (shown <= goal).mean() >= SHARE_FOR_A_PASS:
                    estimates[self.active] = shown
                    break
                if self._epochs_since_refresh >= REFRESH_EPOCHS and self.state.real == "float32":
                    self._set_w(self._combination())
            device.synchronize()
        self.iterations[self.active] = self._iteration
        return Progress(self.iterations.copy(), estimates)

    def _leave(self, stays: np.ndarray) -> None:
        """Go on with some of the problems alone."""
        kept = np.flatnonzero(stays[self.active])
        if kept.size == self.active.size or not kept.size:
            return
        state, xp = self.state, self.device.xp
        places = self.device.upload(kept)
        self.active = self.active[kept]
        for name in ("beta", "refused"):
            setattr(state, name, getattr(state, name)[places])
        alpha = _compacted(xp, state.alpha, places)
        estimate = state.estimate[:, places]
        self.state = self._make_state(state.precision, state.W[places], alpha, state)
        self.state.estimate[:] = estimate

    # Points and passes.

    @property
    def _dual(self) -> DeviceDual:
        return DeviceDual(self.data, self._problem, self._cut, self.state.alpha)

    def _weights(self) -> Any:
        return self.state.W.astype(np.float64)

    def _notice_gap(self, gap: float) -> None:
        """More exact products where the gap has hardly become smaller since the last full pass."""
        level = PRECISIONS.index(self.state.precision)
        if self._automatic and gap > STALLED * self._gap_before and level + 1 < len(PRECISIONS):
            if self._fits(PRECISIONS[level + 1]):
                self._raise_precision(PRECISIONS[level + 1])
            else:
                self._automatic = False
        self._gap_before = gap

    def _fits(self, precision: str) -> bool:
        """Whether there is room for all arrays of the state in this precision beside the old."""
        state = self.state
        large = (state.alpha, self._best_alpha, state.gram, state.rows, state.products)
        needed = 2 * sum(array.nbytes for array in large if array is not None)
        return precision != "float64" or needed <= self.device.memory.free

    def _raise_precision(self, precision: str) -> None:
        state = self.state
        real = real_of(precision)
        with self.device:
            W, alpha = state.W.astype(real), state.alpha.astype(real, copy=False)
            self._best_alpha = self._best_alpha.astype(real, copy=False)
            self.state = self._make_state(precision, W, alpha, state)
            self.state.estimate[:] = state.estimate

    def _set_w(self, combination: Any) -> None:
        self.state.W[:] = combination * self.device.upload(self._units)[:, None]
        self._epochs_since_refresh = 0

    def keep_dual(self, which: np.ndarray) -> None:
        if not self._iteration:
            return  # alpha is where it started, which is what is kept
        with self.device as device:
            alpha, places = self.state.alpha, np.flatnonzero(which[self.active])
            if self._cuts_anew:
                alpha = moved_alpha(device, alpha, self._cut, self.batches.cut)
            if places.size == self.problem.k:
                self._best_alpha[:] = alpha
                return
            to, places = device.upload(self.active[places]), device.upload(places)
            for part in _parts(alpha):
                self._best_alpha[part, to] = alpha[part][:, places]

    def best(self) -> tuple[np.ndarray, DeviceDual]:
        return self._own_best_W(), DeviceDual(
            self.data, self.problem, self.batches.cut, self._best_alpha
        )

    @property
    def beta(self) -> np.ndarray:
        with self.device as device:
            return self._scattered(device.to_host(self.state.beta).astype(np.float64))

    @property
    def refused(self) -> np.ndarray:
        with self.device as device:
            found = np.zeros(self.problem.k, np.int64)
            found[self.active] = device.to_host(self.state.refused)
            return found


def _parts(alpha: Any, count: int = 64) -> list[slice]:
    """The batches in some parts, so that a copy of one takes little memory."""
    step = -(-len(alpha) // count)
    return [slice(start, start + step) for start in range(0, len(alpha), step)]


def _compacted(xp: Any, alpha: Any, places: Any) -> Any:
    """alpha of some of the problems, in the memory that all of them had."""
    count, _, B = alpha.shape
    flat, width = alpha.reshape(-1), len(places) * B
    for part in _parts(alpha):
        kept = alpha[part][:, places]
        flat[part.start * width : part.start * width + kept.size] = kept.reshape(-1)
    return flat[: count * width].reshape(count, len(places), B)
