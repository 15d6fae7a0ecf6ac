"""Asynchronous training of K problems over sparse rows (methods/asynchronous.py).

Each epoch visits the rows in an order of its own, which the kernel computes from the seed and the
number of the epoch (`cuda/permutation.cuh`).  A launch of the kernel in `cuda/asynchronous.cu`
makes some epochs, or a part of one where that takes long, and ends early with an epoch that has
shown small gaps.  Problems that are done leave, and what remains is compacted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.engines.gpu.dual import NATURAL_BATCH, DeviceDual, natural_cut, starting_alpha
from batchsvm.engines.gpu.group import SHARE_FOR_A_PASS, GroupTrainer
from batchsvm.engines.gpu.precision import STALLED, first_real
from batchsvm.engines.gpu.sparse import ENTRIES_PER_LAUNCH
from batchsvm.engines.gpu.sparse_kernels import COPIES, EPOCH_SUMS, EpochControl, Line
from batchsvm.engines.gpu.sparse_rows import CsrRows
from batchsvm.engines.gpu.strips import in_strips, padded_columns
from batchsvm.engines.protocol import Dual, Progress
from batchsvm.losses import Loss

REFRESH_VISITS = 2**24  # after so many, w is computed anew from alpha: float32 steps drift


@dataclass(eq=False)
class AsynchronousState:
    """What the kernel reads and writes; arrays of the device."""

    loss: Loss
    real: str
    rows: CsrRows
    K: int
    most_at_once: int
    share: float  # of the problems whose gaps are to be within their goals
    norms2: Any  # (n,), float64
    key: int  # of the orders of all epochs
    targets: Any
    constants: Any  # (K,)
    problems: Any  # (K,)
    units: Any  # (K,): 1/(lam N)
    biases: Any  # (K,), or None
    W: Any  # (places, K), in strips
    alpha: Any  # (rows, padded to whole batches; K), relative to the weights
    W_before: Any  # when the epoch began
    alpha_before: Any
    sums: Any  # (COPIES, EPOCH_SUMS, K), float64
    arrived: Any  # one unsigned integer
    numbers: Any = None  # `control` and `lines` in one array, float64: the host writes and reads it

    @property
    def control(self) -> Any:
        """By `EpochControl`."""
        return self.numbers[: len(EpochControl)]

    @property
    def lines(self) -> Any:
        """(lines, K), by `Line`."""
        return self.numbers[len(EpochControl) :].reshape(len(Line), self.K)


class AsynchronousTrainer(GroupTrainer):
    """A `Trainer` of K problems: see `engines/protocol.py`."""

    takes_dense, takes_sparse = False, True

    # Setting up.

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        data, problem, K = self.data, self.problem, self.problem.k
        self.active, self.iterations = np.arange(K), np.zeros(K, np.int64)
        self._refused = np.zeros(K, np.int64)
        self._b, self._visits, self._visits_since_refresh = schedule.batch_size, 0, 0
        self._begins = False  # whether w was set since the last launch
        self._gap_before = inf
        self._automatic = schedule.precision == "auto"
        real = first_real(data, problem, self.facts, schedule.precision)
        with self.device as device:
            self._key = int(np.random.default_rng(schedule.seed).integers(2**64, dtype=np.uint64))
            self._best_W = np.zeros((problem.columns(data.d), K))
            self._numbers = np.zeros(len(EpochControl))
            self._numbers[EpochControl.AT_ONCE] = self._b
            places = (padded_columns(len(self._best_W)), K)
            rows = (-(-data.n // NATURAL_BATCH) * NATURAL_BATCH, K)
            W, alpha = device.zeros((places, real), (rows, real))
            if dual is not None:
                started = starting_alpha(device, self._cut, K, dual, real)
                alpha[:] = started.transpose(0, 2, 1).reshape(-1, K)
            self._best_alpha = alpha.copy()
            self.state = self._make_state(real, W, alpha)
            if dual is not None:
                self._set_w(self._combination())
            device.kernels.train_rows(self.state, 0, 0)

    def _make_state(self, real: str, W: Any, alpha: Any) -> AsynchronousState:
        """Constants and work space of the active problems; the epoch begins here.  What the epoch
        goes back to is 0, until `_begin_epoch` says what it is."""
        device, problem, data, active = self.device, self.problem, self.data, self.active
        self._numbers = np.concatenate(
            [self._numbers[: len(EpochControl)], np.zeros(len(Line) * len(active))]
        )
        K, targets = len(active), problem.targets
        assert isinstance(data.rows, CsrRows)
        space = device.zeros(
            (W.shape, real), (alpha.shape, real), ((COPIES, EPOCH_SUMS, K), "float64"),
            ((1,), "uint32"),
        )  # fmt: skip
        bias = np.zeros(K) if problem.bias is None else problem.bias[active]
        # One upload: each takes longer than the kernels for little data.
        numbers = device.upload(np.stack([problem.offset[active], self._units, bias]), real)
        return AsynchronousState(
            problem.loss, real, data.rows, K, self._b, SHARE_FOR_A_PASS, data.norms2,
            self._key, targets.columns(real),  # type: ignore[attr-defined]
            numbers[0],
            self._problem.targets.problems(K),  # type: ignore[attr-defined]
            numbers[1], None if problem.bias is None else numbers[2], W, alpha, *space,
        )  # fmt: skip

    def _begin_epoch(self) -> None:
        """Where the epoch goes back to if D falls, and what D must not fall below, after w has been
        computed anew."""
        state, self._begins = self.state, False
        state.W_before[:], state.alpha_before[:] = state.W, state.alpha
        squares = (state.W.astype(np.float64) ** 2).sum(axis=0)
        state.lines[Line.SQUARE] = squares / (2 * state.units.astype(np.float64))
        state.sums[:] = 0.0

    # Epochs.

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        estimates = np.full(self.problem.k, inf)
        self._certifies_next, self._ahead = False, None  # alpha will change
        with self.device as device:
            self._take_recomputed()
            self._leave(~np.isnan(targets))
            weight = self.facts.total_weight[self.active]
            self._line(Line.GOAL)[:] = targets[self.active] * weight
            self.state.numbers = device.upload(self._numbers)
            while self._iteration < until and not (np.isnan(targets).all() or stop.is_set):
                if self._begins:
                    self._begin_epoch()
                epoch, visits = self._visits // self.data.n, self._visits_of(until)
                device.kernels.train_rows(self.state, epoch, visits)
                self._prepare_pass()
                # This waits, so that the stop flag is seen in time.
                self._numbers = control = device.to_host(self.state.numbers)
                self._visits += int(control[EpochControl.VISITS])
                self._visits_since_refresh += int(control[EpochControl.VISITS])
                if control[EpochControl.EPOCHS] and control[EpochControl.ENOUGH]:
                    estimates[self.active] = self._line(Line.SHOWN) / weight
                    self._certifies_next = True
                    break
                if self._visits_since_refresh >= REFRESH_VISITS and self.state.real == "float32":
                    self._set_w(self._combination())
        self.iterations[self.active] = self._iteration
        return Progress(self.iterations.copy(), estimates)

    def _prepare_pass(self) -> None:
        """Compute what a full pass needs of the data, and keep it, while the device is at work."""
        self.data.do_later_work()
        targets: Any = self.problem.targets
        _ = self._cut, self.data.lengths, targets.columns("float64")

    @property
    def _iteration(self) -> int:
        """Each of b visits, the last ones of an epoch being fewer."""
        epochs, visits = divmod(self._visits, self.data.n)
        return epochs * self._per_epoch + -(-visits // self._b)

    @property
    def _per_epoch(self) -> int:
        return -(-self.data.n // self._b)

    def _visits_of(self, until: int) -> int:
        """As many as the next launch makes."""
        n = self.data.n
        epochs, iterations = divmod(until, self._per_epoch)
        wanted = epochs * n + min(iterations * self._b, n) - self._visits
        some = int(ENTRIES_PER_LAUNCH / (len(self.active) * (1 + self.data.nonzeros / n)))
        if self.state.real == "float32":
            some = min(some, REFRESH_VISITS - self._visits_since_refresh)
        return max(1, min(wanted, some))

    def _leave(self, stays: np.ndarray) -> None:
        """Go on with some of the problems alone; their epoch begins anew."""
        kept = np.flatnonzero(stays[self.active])
        if kept.size == self.active.size or not kept.size:
            return
        self._refused[self.active] += self._refusals()
        state, places = self.state, self.device.upload(kept)
        self.active = self.active[kept]
        xp = self.device.xp
        W, alpha = (xp.ascontiguousarray(part[:, places]) for part in (state.W, state.alpha))
        self._begin_anew(state.real, W, alpha)

    def _begin_anew(self, real: str, W: Any, alpha: Any) -> None:
        self.state = self._make_state(real, W, alpha)
        self._begins = True

    # Points and passes.

    @cached_property
    def _cut(self) -> Any:
        return natural_cut(self.device, self.data.n)

    @property
    def _dual(self) -> DeviceDual:
        return DeviceDual(self.data, self._problem, self._cut, self._by_batch(self.state.alpha))

    def _by_batch(self, alpha: Any) -> Any:
        """alpha (rows, K) as that of a dual point, (batches, K, places)."""
        stack = alpha.reshape(-1, NATURAL_BATCH, alpha.shape[1]).transpose(0, 2, 1)
        return self.device.xp.ascontiguousarray(stack)

    def _weights(self) -> Any:
        found = self.device.xp.empty((self.state.K, len(self._best_W)))
        self.device.kernels.from_strips(self.state.W, found)
        return found

    def _notice_gap(self, gap: float) -> None:
        """Steps in float64 where the gap has hardly become smaller since the last full pass."""
        state = self.state
        if self._automatic and gap > STALLED * self._gap_before and state.real == "float32":
            with self.device:
                W, alpha = state.W.astype(np.float64), state.alpha.astype(np.float64)
                self._best_alpha = self._best_alpha.astype(np.float64)
                self._refused[self.active] += self._refusals()
                self._begin_anew("float64", W, alpha)
                self._set_w(self._combination())
        self._gap_before = gap

    def _set_w(self, combination: Any) -> None:
        """w computed anew from alpha."""
        W = self.device.xp.zeros(self.state.W.shape)
        W[: combination.shape[1]] = (combination * self.device.upload(self._units)[:, None]).T
        self.state.W[:] = in_strips(W)
        self._visits_since_refresh, self._begins = 0, True

    def keep_dual(self, which: np.ndarray) -> None:
        if not self._visits:
            return  # alpha is where it started, which is what is kept
        with self.device as device:
            places = np.flatnonzero(which[self.active])
            if places.size == self.problem.k:
                self._best_alpha[:] = self.state.alpha
                return
            to, places = device.upload(self.active[places]), device.upload(places)
            self._best_alpha[:, to] = self.state.alpha[:, places]

    def best(self) -> tuple[np.ndarray, DeviceDual]:
        with self.device:
            alpha = self._by_batch(self._best_alpha)
            dual = DeviceDual(self.data, self.problem, self._cut, alpha)
        return self._own_best_W(), dual

    @property
    def beta(self) -> np.ndarray:
        return np.ones(self.problem.k)

    def _line(self, line: Line) -> np.ndarray:
        """What the last launch has left of the active problems."""
        return self._numbers[len(EpochControl) :].reshape(len(Line), -1)[line]

    def _refusals(self) -> np.ndarray:
        return self._line(Line.REFUSED).astype(np.int64)

    @property
    def refused(self) -> np.ndarray:
        found = self._refused.copy()
        found[self.active] += self._refusals()
        return found
