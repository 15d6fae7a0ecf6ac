"""The gpu engine's data set: X on a CUDA device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from batchsvm.core.arrays import device_number
from batchsvm.core.certificate import Sums
from batchsvm.core.data_checks import refuse_infinite
from batchsvm.core.device_layout import (
    DeviceSize,
    DeviceWork,
    automatic_method,
    problems_that_fit,
)
from batchsvm.core.problem import Facts, Problem, relative
from batchsvm.core.proven import settled, uncertainty
from batchsvm.core.rounding import response_error
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.core.vectors import norm
from batchsvm.engines.base_dataset import targets_of
from batchsvm.engines.gpu import passes
from batchsvm.engines.gpu.device import CudaDevice, device_of
from batchsvm.engines.gpu.dual import DeviceDual, natural_cut, placed_alpha
from batchsvm.engines.gpu.kernels import CHUNK_ROWS, THREADS
from batchsvm.engines.gpu.products import DeviceProducts
from batchsvm.engines.gpu.read import read_rows
from batchsvm.engines.gpu.rows import DeviceRows
from batchsvm.engines.gpu.targets import GpuTargets
from batchsvm.engines.gpu.trainer import GpuTrainer
from batchsvm.engines.protocol import Dual, GradientSums, Trainer
from batchsvm.engines.targets import make_targets
from batchsvm.methods import Asynchronous, Gram, Method


class Home:
    """What the views of the same rows share: whether the data set itself, not a view, is open."""

    is_open = True


class GpuDataset(DeviceProducts):
    """A `Dataset`: see `engines/protocol.py`.

    Targets stay on the host too, where all that does not need X is computed.
    """

    engine = "gpu"
    sliceable = False
    keeps_all_alphas = False
    duals_outlive = False
    _is_view = False

    def __init__(
        self,
        device: CudaDevice,
        rows: DeviceRows,
        tuning: Tuning = DEFAULT_TUNING,
        deterministic: bool = False,
    ) -> None:
        self.device, self.rows, self.tuning = device, rows, tuning
        # Whatever the method: `gram` has the same bits every time without it, too.
        self.deterministic = deterministic
        rows.deterministic = deterministic or rows.is_dense
        self.n, self.d, self.nonzeros = rows.n, rows.d, rows.nonzeros
        self.jobs, self.memo, self.later_work = 1, {}, []
        self.home = Home()
        with device:
            self.norms2, self.largest_norm2 = rows.norms2()
            self._refuse_infinite()

    # What it is.

    @property
    def device_size(self) -> DeviceSize:
        device, rows = self.device, self.rows
        return DeviceSize(
            device.name,
            device.multiprocessors,
            device.memory.free,
            rows.nbytes,
            rows.is_dense,
            self.deterministic,
        )

    def problems_at_once(self, method: Method | None = None) -> float:
        size = self.device_size
        if not isinstance(method or automatic_method(size), Gram | Asynchronous):
            return 1
        work = DeviceWork(self.n, self.d + 1, self.nonzeros, 1, size)
        return min(passes.MAX_BLOCKS_OF_THREADS, problems_that_fit(work))

    @cached_property
    def mean_norm2(self) -> float:
        self.require_open()
        with self.device:
            return float((self.norms2 / self.n).sum())

    @cached_property
    def column_peaks(self) -> Any:
        """The largest |x_ij| of every column."""
        out = self.device.xp.zeros(self.d)
        self.device.kernels.column_peaks(self.rows, out)
        return out

    @cached_property
    def lengths(self) -> Any:
        """||x_i|| of every row."""
        return self.device.xp.sqrt(self.norms2)

    def _refuse_infinite(self) -> None:
        if np.isfinite(self.largest_norm2):
            return
        row = int(self.device.xp.argmin(self.device.xp.isfinite(self.norms2)))
        values = self.sample(np.array([row]))
        values = values[0] if isinstance(values, np.ndarray) else values.data
        worst = values[~np.isfinite(values)]
        found = worst[0] if worst.size else values[np.argmax(np.abs(values))]
        refuse_infinite((row, float(found)))

    # Problems.

    def targets(
        self, y: Any = None, sample_weight: Any = None, offset: Any = None, classes: int = 0
    ) -> GpuTargets:
        self.require_open()
        t = make_targets(self.n, y, sample_weight, offset, classes)
        return GpuTargets(
            t.y, t.sample_weight, t.offset, t.k, t.classes, t.column, device=self.device
        )

    def facts(self, problem: Problem) -> Facts:
        self.require_open()
        K, loss = problem.k, problem.loss
        total, at_zero, heaviest = np.empty(K), np.empty(K), np.empty(K)
        plain = loss.task == "classification" and not problem.has_offset
        shared = plain and (problem.targets.sample_weight is None)  # type: ignore[attr-defined]
        for k in range(1 if shared else K):
            targets = targets_of(problem, k)
            weights = targets.weights(0, self.n)
            total[k] = targets.total_weight
            heaviest[k] = 1.0 if weights is None else float(weights.max())
            with np.errstate(over="ignore"):  # whoever uses it looks whether it is finite
                if plain:
                    at_zero[k] = total[k] * float(loss.value(0.0))
                    continue
                signs, offsets = targets.signs_and_offsets(loss)
                losses = loss.value(signs * float(problem.offset[k]) - offsets)
                at_zero[k] = np.sum(losses if weights is None else weights * losses)
        if shared:
            total[:], at_zero[:], heaviest[:] = total[0], at_zero[0], heaviest[0]
        bias2 = np.zeros(K) if problem.bias is None else problem.bias**2
        longest = self.rows.longest + (problem.bias is not None)
        depth = CHUNK_ROWS / THREADS + 16 + -(-self.n // CHUNK_ROWS)
        return Facts(
            self.n, longest, min(self.n, depth), total, at_zero, heaviest,
            self.largest_norm2 + bias2,
        )  # fmt: skip

    def trainer(self, problem: Problem) -> Trainer:
        self.require_open()
        return GpuTrainer(self, problem, self.facts(problem))

    # Dual points.

    def owns(self, dual: Any) -> bool:
        self.require_open()
        return isinstance(dual, DeviceDual) and dual.data.home is self.home

    def dual(
        self, problem: Problem, alpha: np.ndarray | None = None, project: bool = True
    ) -> DeviceDual:
        return self._upload_dual(problem, self.host_dual(problem, alpha, project))

    def _upload_dual(self, problem: Problem, alpha: np.ndarray) -> DeviceDual:
        with self.device as device:
            cut = natural_cut(device, self.n)
            placed = placed_alpha(
                device, cut, problem.k, lambda k: device.upload(alpha[:, k]), "float64"
            )
            return DeviceDual(self, problem, cut, placed, is_absolute=True)

    def joined_dual(self, duals: Sequence[Dual]) -> DeviceDual:
        self.require_open()
        points = [dual for dual in duals if isinstance(dual, DeviceDual)]
        assert len(points) == len(duals)
        whole = points[0].whole
        ours = whole is not None and all(point.whole is whole for point in points)
        if whole is not None and ours and [p.place for p in points] == list(range(whole.k)):
            return whole
        with self.device as device:
            cut, count = points[0].cut, len(points)
            alpha = placed_alpha(device, cut, count, lambda k: points[k].column(0), "float64")
            return DeviceDual(self, _joined([point.problem for point in points]), cut, alpha)

    def balanced(self, problem: Problem, dual: Dual) -> DeviceDual:
        return self._upload_dual(problem, self.host_balanced(problem, dual))

    def dual_at(
        self, problem: Problem, W: np.ndarray, step: np.ndarray | None = None
    ) -> DeviceDual:
        found, loss = np.empty((self.n, problem.k), order="F"), problem.loss
        for k, (responses, weights) in enumerate(self._responses(problem, W)):
            slopes = loss.subgradient(responses)
            if step is not None:
                along = self._along(problem, step, k)
                slopes = slopes + loss.second_derivative(responses) * along
            found[:, k] = relative(loss, -weights * slopes, weights) * weights
        return self._upload_dual(problem, found)

    def _along(self, problem: Problem, step: np.ndarray, k: int) -> np.ndarray:
        """s_i <x_i, v> of every row for problem k, on the host."""
        products = self.scores(np.ascontiguousarray(step[: self.d, [k]]))[:, 0]
        if problem.bias is not None:
            products = products + problem.bias[k] * step[-1, k]
        return targets_of(problem, k).signs(problem.loss, 0, self.n) * products

    # Passes over X.

    def sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> Sums:
        with self._at_work():
            return passes.sums(self, self._at(problem, W, dual), W)

    def combination(self, problem: Problem, dual: Dual) -> np.ndarray:
        with self._at_work() as device:
            found = passes.combination(self, self._at(problem, None, dual))
            return device.to_host(found).T

    def scores(self, W: np.ndarray) -> np.ndarray:
        with self._at_work():
            return passes.scores(self, W)

    def _at(self, problem: Problem, W: np.ndarray | None, dual: Dual) -> passes.PointPass:
        own = dual if isinstance(dual, DeviceDual) else self.dual(problem, dual.fetch())
        return passes.point_pass(self, problem, own, W, self.facts(problem))

    def _responses(
        self, problem: Problem, W: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """a_i and c_i of every row, of one problem after another, on the host."""
        products = self.scores(np.ascontiguousarray(W[: self.d]))
        for k in range(problem.k):
            targets = targets_of(problem, k)
            signs, offsets = targets.signs_and_offsets(problem.loss)
            constant = float(problem.offset[k])
            if problem.bias is not None:
                products[:, k] += problem.bias[k] * W[-1, k]
            weights = targets.weights(0, self.n)
            weights = np.ones(self.n) if weights is None else weights
            yield signs * products[:, k] - (offsets - signs * constant), weights

    def settled(self, problem: Problem, W: np.ndarray, distance: np.ndarray) -> np.ndarray:
        found = np.empty((self.n, problem.k), np.int8)
        facts, norms2 = self.facts(problem), self.device.to_host(self.norms2)
        for k, (responses, _) in enumerate(self._responses(problem, W)):
            w, constant = W[:, k], float(problem.offset[k])
            error = response_error(
                norm(np.ascontiguousarray(w)), w.size, facts.longest_row, constant, problem.radius
            )
            bias2 = 0.0 if problem.bias is None else float(problem.bias[k]) ** 2
            signs, offsets = targets_of(problem, k).signs_and_offsets(problem.loss)
            off = uncertainty(
                error, float(distance[k]), responses, offsets - signs * constant, norms2 + bias2,
                facts.longest_row,
            )  # fmt: skip
            found[:, k] = settled(problem.loss, responses, off)
        return found

    def gradient_sums(self, problem: Problem, W: np.ndarray) -> GradientSums:
        losses = [
            weights @ problem.loss.value(responses)
            for responses, weights in self._responses(problem, W)
        ]
        slopes = -self.combination(problem, self.dual_at(problem, W))
        return GradientSums(np.array(losses), slopes)

    def losses_along(
        self, problem: Problem, W: np.ndarray, step: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        found = np.empty((len(lengths), problem.k))
        for k, (responses, weights) in enumerate(self._responses(problem, W)):
            along = self._along(problem, step, k)
            for j, t in enumerate(lengths):
                found[j, k] = weights @ problem.loss.value(responses + t * along)
        return found

    def hessian(self, problem: Problem, W: np.ndarray) -> np.ndarray:
        if problem.k != 1:
            raise ValueError(f"problem must be one problem for its Hessian, not {problem.k}")
        total = np.zeros((len(W), len(W)))
        identity = np.eye(len(W))
        step = max(1, passes.SPACE_BYTES // (8 * max(self.n, 1)))
        for start in range(0, len(W), step):
            part = identity[:, start : start + step]
            total[:, start : start + step] = self._hessian_products(problem, W, part, k=0)
        return total

    def hessian_times(self, problem: Problem, W: np.ndarray, V: np.ndarray) -> np.ndarray:
        columns = [self._hessian_products(problem, W, V[:, [k]], k)[:, 0] for k in range(problem.k)]
        return np.column_stack(columns)

    def _hessian_products(
        self, problem: Problem, W: np.ndarray, V: np.ndarray, k: int
    ) -> np.ndarray:
        """The Hessian of the mean loss of problem k times the columns of V, (p, columns)."""
        one = problem.only(k)
        [(responses, weights)] = self._responses(one, W[:, [k]])
        with self.device as device:
            curvature = device.upload(weights * one.loss.second_derivative(responses))
        bias = None if one.bias is None else float(one.bias[0])
        total = self.facts(one).total_weight[0]
        return self._weighted_gram(V, curvature, bias) / total

    # Other data sets over the same rows.

    def subset(self, rows: np.ndarray) -> GpuDataset:
        with self._at_work() as device:
            taken = self.rows.take(device.upload(np.asarray(rows)))
            return GpuDataset(device, taken, self.tuning, self.deterministic)

    def share(self, jobs: int) -> GpuDataset:
        self.require_open()
        view = self._view()
        view._is_view = True
        return view

    def __getattr__(self, name: str) -> Any:
        """What `close` has given back is asked for by a fit that is still under way."""
        if name in ("rows", "norms2"):
            self.require_open()
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def close(self) -> None:
        """Give back the memory of the rows; the views of `share` go on with them."""
        if not self.is_open:
            return
        try:
            self.do_later_work()
        finally:
            super().close()
            if not self._is_view:
                self.home.is_open = False
            self.memo = {}
            for name in ("lengths", "column_peaks"):
                self.__dict__.pop(name, None)
            del self.rows, self.norms2


def place(
    X: Any, jobs: int = 1, tuning: Tuning = DEFAULT_TUNING, keeps_norms: bool = True,
    device: int | None = None, deterministic: bool = False,
) -> GpuDataset:  # fmt: skip
    """X on a CUDA device: where it is if it is on one, else uploaded."""
    found = device_of(_chosen(X, device))
    with found:
        return GpuDataset(found, read_rows(X, found), tuning, deterministic)


def _chosen(X: Any, device: int | None) -> int | None:
    """The device on which X is, or the one that was asked for."""
    number = device_number(X)
    if number is not None and device not in (None, number):
        raise ValueError(
            f"device must be {number}, where X is, or None, not {device}: copy X there first"
        )
    return device if number is None else number


def _joined(problems: Sequence[Problem]) -> Problem:
    """Problems over the same targets, or over columns of them, as one."""
    first = problems[0]
    if all(problem.targets is first.targets for problem in problems):
        targets = first.targets
    else:
        columns = [int(targets_of(problem, 0).column) for problem in problems]
        targets = replace(targets_of(first, 0), k=len(columns), chosen=tuple(columns))
    bias = None
    if first.bias is not None:
        bias = np.concatenate([problem.bias for problem in problems if problem.bias is not None])
    lam, offset = (
        np.concatenate([getattr(problem, name) for problem in problems])
        for name in ("lam", "offset")
    )
    return replace(first, targets=targets, lam=lam, bias=bias, offset=offset)
