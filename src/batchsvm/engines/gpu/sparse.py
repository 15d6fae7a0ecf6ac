"""Training one problem in mini-batches: naive, safe and aggressive SDCA, and Pegasos.

Made for sparse rows, and for dense ones as well.  The rows are shuffled once and cut into batches;
an epoch visits the batches in a fresh order.  A launch of the kernel in `cuda/sparse.cu` makes the
iterations of some epochs, or of a part of one where that takes long, and ends early with an epoch
that has shown a gap within the target.  The last batch may have fewer rows.

The aggressive rule is Algorithm 2 in one pass.  The paper computes a tentative step, rho from it,
and then the step with rho in the place of beta, which needs Delta twice; here the step with beta is
the one that is made, and rho of that step moves the beta of the next one,

    beta <- beta^gamma rho^(1 - gamma),   rho = ||Delta||^2 / sum_i ||x_i||^2 delta_i^2,

with rho put between 1 and beta_b.  As there, a step that would not raise D is refused; beta then
grows by half, at most to beta_b.

Pegasos is Algorithm 1 with n divided by the number of batches in the place of b, which is b where
it divides n: so a row counts as much in a short batch as in any other, and an epoch weighs all
rows alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Facts, Problem, confine
from batchsvm.engines.gpu import passes
from batchsvm.engines.gpu.batches import Batches, batches_of
from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.dual import DeviceDual, starting_alpha
from batchsvm.engines.gpu.fixed_point import column_scales, longest_step
from batchsvm.engines.gpu.kernels import parameter_of
from batchsvm.engines.gpu.precision import REFRESH_EPOCHS, STALLED, first_real
from batchsvm.engines.gpu.rows import DenseRows
from batchsvm.engines.gpu.sparse_kernels import PLACES, SUMS, Control, Setting
from batchsvm.engines.gpu.sparse_rows import CsrRows
from batchsvm.engines.protocol import Dual, Progress
from batchsvm.losses import Loss
from batchsvm.methods import Aggressive, DualMethod, Naive, Pegasos, Safe

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

RULES = {Naive: "FIXED", Safe: "FIXED", Aggressive: "ADAPTIVE", Pegasos: "PEGASOS"}
ENTRIES_PER_LAUNCH = 2**31  # some tenths of a second: then the stop flag is looked at
ENTRIES_PER_WAIT = 2**17  # that could be read while the blocks of an iteration wait
EPOCHS_PER_LAUNCH = 8  # at most


@dataclass(eq=False)
class BatchState:
    """What the kernel reads and writes; arrays of the device."""

    loss: Loss
    real: str  # of the numbers that are not said to be others: "float32" or "float64"
    rule: str
    rows: DenseRows | CsrRows
    B: int
    norms2: Any  # (n,), float64
    cut: Any  # (batches, B): rows, -1 for none
    order: Any  # (epochs of a launch times batches,)
    targets: Any
    constants: Any  # (1,)
    problems: Any  # (1,)
    settings: Any  # by `Setting`, float64
    control: Any  # by `Control`, float64
    sums: Any  # (2, SUMS), float64; (2, SUMS, PLACES) in a fixed order
    arrived: Any  # one unsigned integer
    w: Any  # (p,); v of Pegasos
    deltas: Any  # (2, d); int64 in fixed point
    alpha: Any  # (batches, 1, B), relative to the weights; g of Pegasos
    before: Any  # (B,): alpha of a batch before its step
    scales: Any  # (d,), float64: units of deltas in fixed point; None where they are real numbers


class BatchTrainer:
    """A `Trainer` of one problem: see `engines/protocol.py`."""

    takes_dense = takes_sparse = True
    # A launch finishes, whatever happens on this host, and leaves w and alpha of one iteration.
    survives_exceptions = True
    knows_point = estimates_are_reliable = False

    def __init__(self, data: GpuDataset, problem: Problem, facts: Facts) -> None:
        self.data, self.problem, self.facts = data, problem, facts
        self.device: CudaDevice = data.device
        self.lam, self.weight = float(problem.lam[0]), float(facts.total_weight[0])

    # Setting up.

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        data = self.data
        self.method = schedule.method
        self._is_primal = isinstance(self.method, Pegasos)
        self._iteration = self._epochs_since_refresh = 0
        self._gap_before = inf
        self._fetched: tuple[Any, Any] = (None, None)  # a w on this host, and on the device
        self._automatic = schedule.precision == "auto" and not self._is_primal
        real = first_real(data, self.problem, self.facts, schedule.precision)
        with self.device as device:
            self.batches: Batches = batches_of(data, schedule.batch_size, schedule.seed, multiple=1)
            self._rng = self.batches.rng()
            alpha = starting_alpha(device, self.batches.cut, 1, dual, real)
            self._best_alpha = alpha.copy()
            self._best_W = np.zeros((self.problem.columns(data.d), 1))
            w = device.xp.zeros(len(self._best_W), real)
            self.state = self._make_state(schedule, real, w, alpha, dual is not None)
            if dual is not None:
                self._start_from_alpha()
            per_row = data.nonzeros / data.n
            work = schedule.batch_size * per_row + data.d + ENTRIES_PER_WAIT
            self._per_launch = max(1, int(ENTRIES_PER_LAUNCH / work))
            self._epochs = self._per_launch // len(self.batches.cut)
            self._epochs = max(1, min(self._epochs, EPOCHS_PER_LAUNCH))
            self._next_order: np.ndarray | None = self._draw_order()
            self._begin_order()
            device.kernels.train_batches(self.state, 0, 0, -inf)

    def _make_state(
        self, schedule: Schedule, real: str, w: Any, alpha: Any, warm: bool
    ) -> BatchState:
        device, problem, data = self.device, self.problem, self.data
        xp, targets, cut = device.xp, problem.targets, self.batches.cut
        assert isinstance(data.rows, DenseRows | CsrRows)
        settings, scales, d = self._settings(schedule), None, data.d
        if data.deterministic:
            settings[Setting.LIMIT] = step = longest_step(data, problem, self.method)
            step *= settings[Setting.SHARE] if self._is_primal else 1.0
            scales = column_scales(data, step * float(self.facts.largest_weight[0]), cut.shape[1])
        control = np.zeros(len(Control))
        control[Control.SHRINK] = 1.0
        control[Control.BETA] = np.nan
        if isinstance(self.method, DualMethod):
            control[Control.BETA] = self.method.first_beta(schedule.beta_b)
        if warm and self._is_primal:  # as if one epoch had led there
            control[Control.ITERATIONS] = len(cut)
        self._control, numbers = control, device.upload(np.concatenate([settings, control]))
        return BatchState(
            problem.loss, real, RULES[type(self.method)], data.rows, cut.shape[1], data.norms2,
            cut, None, targets.columns(real),  # type: ignore[attr-defined]
            device.upload(problem.offset, real), targets.problems(1),  # type: ignore[attr-defined]
            numbers[: settings.size], numbers[settings.size :],
            xp.zeros((2, SUMS) if scales is None else (2, SUMS, PLACES)), xp.zeros(1, np.uint32), w,
            xp.zeros((2, d), real if scales is None else np.int64), alpha,
            xp.zeros(cut.shape[1], real), scales,
        )  # fmt: skip

    def _settings(self, schedule: Schedule) -> np.ndarray:
        method, problem = self.method, self.problem
        found = np.zeros(len(Setting))
        found[Setting.UNIT] = 1.0 / (self.lam * self.weight)
        found[Setting.BIAS] = 0.0 if problem.bias is None else float(problem.bias[0])
        found[Setting.LEAST_NORM2] = getattr(method, "step", "general") == "literal"
        found[Setting.BETA_B] = schedule.beta_b
        found[Setting.GAMMA] = getattr(method, "gamma", 0.0)
        found[Setting.LAM] = self.lam
        found[Setting.SHARE] = len(self.batches.cut) / self.weight
        found[Setting.RADIUS] = problem.radius if isfinite(problem.radius) else -1.0
        found[Setting.PARAMETER] = parameter_of(problem.loss)
        return found

    def _start_from_alpha(self) -> None:
        """w(alpha); Pegasos goes on as if one epoch had led there, with g = alpha / c."""
        state, epoch = self.state, len(self.batches.cut)
        w = self._combination() / (self.lam * self.weight)
        if self._is_primal:
            w = self.device.upload(confine(self.device.to_host(w), self.problem.radius))
            w = w * (self.lam * epoch)
        state.w[:] = w

    # Iterations.

    def _draw_order(self) -> np.ndarray:
        count = len(self.batches.cut)
        drawn = [self._rng.permutation(count) for _ in range(self._epochs)]
        return np.concatenate(drawn, dtype=np.int32)

    def _begin_order(self) -> None:
        self.state.order, self._next_order = self.device.upload(self._next_order), None
        self._done = 0  # batches of the order

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        target, estimate, total = float(targets[0]), inf, self.state.order.size
        enough = self.weight * target
        with self.device as device:
            while not isnan(target) and self._iteration < until and not stop.is_set:
                some = min(total - self._done, until - self._iteration, self._per_launch)
                some = min(some, self._before_refresh())
                device.kernels.train_batches(self.state, self._done, some, enough)
                if self._next_order is None:
                    self._next_order = self._draw_order()  # while the device is at work
                # This waits, so that the stop flag is seen in time.
                self._control = control = device.to_host(self.state.control)
                whole = self._note(int(control[Control.DONE]))
                if not whole or self._is_primal:
                    continue
                if control[Control.SHOWN] <= enough:
                    estimate = float(control[Control.SHOWN]) / self.weight
                    break
                if self._drifts and self._epochs_since_refresh >= REFRESH_EPOCHS:
                    self._set_w(self._combination())
        return Progress(np.array([self._iteration]), np.array([estimate]))

    @property
    def _drifts(self) -> bool:
        """Whether w moves away from w(alpha), by the rounding of many steps."""
        return not self._is_primal and (self.state.real == "float32" or self.data.deterministic)

    def _before_refresh(self) -> int:
        """After so many iterations at the most, w is to be computed anew or an epoch ends."""
        count = len(self.batches.cut)
        epochs = max(REFRESH_EPOCHS - self._epochs_since_refresh, 1) if self._drifts else inf
        return int(min(epochs, self._epochs) * count) - self._done % count

    def _note(self, done: int) -> bool:
        """Take note of iterations that were made; whether the last one has ended an epoch."""
        count = len(self.batches.cut)
        epochs = (self._done + done) // count - self._done // count
        self._iteration, self._done = self._iteration + done, self._done + done
        self._epochs_since_refresh += epochs
        is_whole = self._done % count == 0
        if self._done == self.state.order.size:
            self._begin_order()
        return is_whole

    # Points and passes.

    def _alpha(self) -> Any:
        """alpha / c, which is put into the box where it is read."""
        if not self._is_primal:
            return self.state.alpha
        iterations = max(float(self._control[Control.ITERATIONS]), 1.0)
        return self.state.alpha * (len(self.batches.cut) / iterations)

    @property
    def _dual(self) -> DeviceDual:
        return DeviceDual(self.data, self.problem, self.batches.cut, self._alpha())

    def point(self) -> np.ndarray:
        control = self._control
        with self.device as device:
            on_device = self.state.w.astype(np.float64)
            w = device.to_host(self.state.w).astype(np.float64)[:, np.newaxis]
        if self._is_primal:
            w *= control[Control.SHRINK] / (self.lam * max(control[Control.ITERATIONS], 1.0))
            return w
        w.flags.writeable = False
        self._fetched = w, on_device[np.newaxis, : self.data.d]
        return w

    iterate = point

    def recent_mean(self) -> None:
        return None

    def sums(self, W: np.ndarray, screen: bool = False) -> Sums:
        with self.device:
            weights = self._fetched[1] if self._fetched[0] is W else None
            at = passes.point_pass(self.data, self.problem, self._dual, W, self.facts)
            found = passes.sums(self.data, at, W, weights)
            if screen:
                self._notice_stall(found)
        return found

    def _notice_stall(self, found: Sums) -> None:
        """Steps in float64 where the gap has hardly become smaller since the last full pass."""
        [gap] = found.gaps(self.problem.lam)
        if self._automatic and gap > STALLED * self._gap_before and self.state.real == "float32":
            state, targets = self.state, self.problem.targets
            state.real = "float64"
            for name in ("w", "alpha", "before", *(("deltas",) if state.scales is None else ())):
                setattr(state, name, getattr(state, name).astype(np.float64))
            state.targets = targets.columns("float64")  # type: ignore[attr-defined]
            state.constants = self.device.upload(self.problem.offset)
            self._best_alpha = self._best_alpha.astype(np.float64)
            self._set_w(self._combination())
        self._gap_before = gap

    def _combination(self) -> Any:
        """sum_i alpha_i s_i x_i, (p,), on the device."""
        at = passes.point_pass(self.data, self.problem, self._dual, None, self.facts)
        return passes.combination(self.data, at)[0]

    def combination(self) -> np.ndarray:
        with self.device as device:
            found = self._combination()
            self._set_w(found)
            return device.to_host(found)[:, np.newaxis]

    def _set_w(self, combination: Any) -> None:
        """w computed anew from alpha; that of Pegasos is not made of a point of the box."""
        self._epochs_since_refresh = 0
        if not self._is_primal:
            self.state.w[:] = combination / (self.lam * self.weight)

    def keep_primal(self, W: np.ndarray, which: np.ndarray) -> None:
        if which[0]:
            self._best_W[:] = W

    def keep_dual(self, which: np.ndarray) -> None:
        if which[0]:
            with self.device:
                self._best_alpha[:] = self._alpha()

    def best(self) -> tuple[np.ndarray, DeviceDual]:
        return self._best_W, DeviceDual(self.data, self.problem, self.batches.cut, self._best_alpha)

    @property
    def beta(self) -> np.ndarray:
        return self._control[[Control.BETA]]

    @property
    def refused(self) -> np.ndarray:
        return self._control[[Control.REFUSED]].astype(np.int64)

    def restart_average(self) -> None:
        """There is none."""
