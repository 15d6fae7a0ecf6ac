"""The gpu engine's data set: X on a CUDA device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from batchsvm.core.arrays import device_number
from batchsvm.core.certificate import Sums
from batchsvm.core.data_checks import refuse_infinite
from batchsvm.core.device_layout import DeviceSize, DeviceWork, problems_that_fit
from batchsvm.core.problem import Facts, Problem, relative
from batchsvm.core.proven import settled
from batchsvm.core.rounding import INFLATION, least_length, response_error
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.core.vectors import norm
from batchsvm.engines.base_dataset import BaseDataset, targets_of
from batchsvm.engines.gpu import passes
from batchsvm.engines.gpu.device import CudaDevice, device_of
from batchsvm.engines.gpu.dual import DeviceDual, natural_cut, placed_alpha
from batchsvm.engines.gpu.kernels import CHUNK_ROWS, THREADS
from batchsvm.engines.gpu.read import read_rows
from batchsvm.engines.gpu.rows import DeviceRows
from batchsvm.engines.gpu.targets import GpuTargets
from batchsvm.engines.gpu.trainer import GpuTrainer
from batchsvm.engines.protocol import Dual, Trainer
from batchsvm.engines.targets import make_targets
from batchsvm.methods import Gram, Method

BLOCK_ROWS = 65536  # of passes that need work space per row


class GpuDataset(BaseDataset):
    """A `Dataset`: see `engines/protocol.py`.

    Targets stay on the host too, where all that does not need X is computed.
    """

    engine = "gpu"
    sliceable = False
    keeps_all_alphas = False
    duals_outlive = False

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
        self.jobs, self.memo = 1, {}
        self.home = object()  # what the views of these rows share
        with device:
            self.norms2 = rows.norms2()
            self._refuse_infinite()

    # What it is.

    @property
    def device_size(self) -> DeviceSize:
        device, rows = self.device, self.rows
        return DeviceSize(
            device.name, device.multiprocessors, device.memory.free, rows.nbytes, rows.is_dense
        )

    def problems_at_once(self, method: Method | None = None) -> float:
        if not (self.rows.is_dense and isinstance(method or Gram(), Gram)):
            return 1
        work = DeviceWork(self.n, self.d + 1, self.nonzeros, 1, self.device_size)
        return min(passes.MAX_BLOCKS_OF_THREADS, problems_that_fit(work))

    @cached_property
    def mean_norm2(self) -> float:
        self.require_open()
        with self.device:
            return float((self.norms2 / self.n).sum())

    @cached_property
    def largest_norm2(self) -> float:
        with self.device:
            return float(self.norms2.max())

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
        xp = self.device.xp
        finite = xp.isfinite(self.norms2)
        if bool(finite.all()):
            return
        row = int(xp.argmin(finite))
        values = self.sample(np.array([row]))
        values = values[0] if isinstance(values, np.ndarray) else values.data
        worst = values[~np.isfinite(values)]
        found = worst[0] if worst.size else values[np.argmax(np.abs(values))]
        refuse_infinite((row, float(found)))

    def row_blocks(self, columns: int = 1) -> Iterator[tuple[int, Any]]:
        """The rows in their own order, in blocks: where each begins, and its cut."""
        wide = max(self.d if self.rows.is_dense else 1, columns, 1)
        size = max(1, min(BLOCK_ROWS, passes.SPACE_BYTES // (8 * wide)))
        for start in range(0, self.n, size):
            stop = min(start + size, self.n)
            yield start, self.device.xp.arange(start, stop, dtype=np.int32)

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
            if plain:
                at_zero[k] = total[k] * float(loss.value(0.0))
                continue
            signs, offsets = targets.signs_and_offsets(loss)
            with np.errstate(over="ignore"):  # whoever uses it looks whether it is finite
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
        found = np.empty(alpha.shape, order="F")
        for k in range(problem.k):
            weights = targets_of(problem, k).weights(0, self.n)
            weights = np.ones(self.n) if weights is None else weights
            found[:, k] = relative(problem.loss, alpha[:, k], weights)
        with self.device as device:
            cut = natural_cut(device, self.n)
            placed = placed_alpha(
                device, cut, problem.k, lambda k: device.upload(found[:, k]), "float64"
            )
            return DeviceDual(self, problem, cut, placed)

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
            return DeviceDual(self, points[0].problem, cut, alpha)

    def balanced(self, problem: Problem, dual: Dual) -> DeviceDual:
        return self._upload_dual(problem, self.host_balanced(problem, dual))

    def dual_at(self, problem: Problem, W: np.ndarray) -> DeviceDual:
        found = np.empty((self.n, problem.k), order="F")
        for k, (responses, weights) in enumerate(self._responses(problem, W)):
            slopes = problem.loss.subgradient(responses)
            found[:, k] = relative(problem.loss, -weights * slopes, weights) * weights
        return self._upload_dual(problem, found)

    # Passes over X.

    def sums(self, problem: Problem, W: np.ndarray, dual: Dual) -> Sums:
        with self._at_work():
            return passes.sums(self, problem, W, self._own(problem, dual), self.facts(problem))

    def combination(self, problem: Problem, dual: Dual) -> np.ndarray:
        with self._at_work() as device:
            found = passes.combination(self, problem, self._own(problem, dual), self.facts(problem))
            return device.to_host(found).T

    def scores(self, W: np.ndarray) -> np.ndarray:
        with self._at_work() as device:
            return device.to_host(passes.scores(self, W)).T

    def _own(self, problem: Problem, dual: Dual) -> DeviceDual:
        return dual if isinstance(dual, DeviceDual) else self.dual(problem, dual.fetch())

    def _at_work(self) -> CudaDevice:
        self.require_open()
        return self.device

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
            lengths = np.sqrt(norms2 + bias2) * INFLATION + least_length(facts.longest_row)
            targets = targets_of(problem, k)
            signs, offsets = targets.signs_and_offsets(problem.loss)
            fixed = np.abs(offsets - signs * constant)
            off = (error.per_length + float(distance[k])) * lengths + error.constant
            off += error.relative * (np.abs(responses) + fixed)
            found[:, k] = settled(problem.loss, responses, off)
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
        curvature = self.device.upload(weights * one.loss.second_derivative(responses))
        bias = None if one.bias is None else float(one.bias[0])
        total = self.facts(one).total_weight[0]
        return self._weighted_gram(V, curvature, bias) / total

    def _weighted_gram(self, V: np.ndarray, weights: Any, bias: float | None) -> np.ndarray:
        """sum_i weights_i x_i <x_i, v> for each column v of V, (p, columns); weights are on the
        device, and None is all ones."""
        with self._at_work() as device:
            xp, m = device.xp, V.shape[1]
            inner = device.upload(np.ascontiguousarray(V[: self.d].T, dtype=np.float64))
            out, extra = xp.zeros((m, self.d)), xp.zeros(m)
            shift = device.upload(bias * V[-1])[:, None] if bias is not None else 0.0
            for start, cut in self.row_blocks(m):
                part = xp.empty((m, cut.size))
                self.rows.products(cut, inner, part)
                part += shift
                if weights is not None:
                    part *= weights[start : start + cut.size]
                self.rows.combine(cut, part, out)
                extra += part.sum(axis=1)
            found = device.to_host(out).T
            if bias is None:
                return found
            return np.vstack([found, bias * device.to_host(extra)])

    def gram_times(
        self, V: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> np.ndarray:
        with self._at_work():
            return self._weighted_gram(V, self._inverse_norms2(bias) if normalize else None, bias)

    def _inverse_norms2(self, bias: float | None) -> Any:
        """1/||x_i||^2, and 0 for rows of norm 0, on the device."""
        xp = self.device.xp
        norms2 = self.norms2 + (0.0 if bias is None else bias**2)
        return xp.where(norms2 > 0, 1.0 / xp.where(norms2 > 0, norms2, 1.0), 0.0)

    def row_gram_times(
        self, rows: np.ndarray, v: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> np.ndarray:
        X = self.sample(rows)
        norms2 = np.asarray((X * X if isinstance(X, np.ndarray) else X.multiply(X)).sum(axis=1))
        norms2 = norms2.ravel() + (0.0 if bias is None else bias**2)
        scale = np.divide(1.0, np.sqrt(norms2), out=np.zeros(len(rows)), where=norms2 > 0)
        scale = scale if normalize else np.ones(len(rows))
        u = scale * v
        found = X @ (X.T @ u) + (0.0 if bias is None else bias**2 * u.sum())
        return scale * found

    def absolute_sums(
        self, normalize: bool = True, bias: float | None = None
    ) -> tuple[np.ndarray, float]:
        self.require_open()
        columns, widest = np.zeros(self.d + (bias is not None)), 0.0
        scales = np.ones(self.n)
        if normalize:
            with self.device as device:
                scales = np.sqrt(device.to_host(self._inverse_norms2(bias)))
        for start in range(0, self.n, self.tuning.dense_block_rows):
            rows = np.arange(start, min(start + self.tuning.dense_block_rows, self.n))
            X, scale = abs(self.sample(rows)), scales[rows]
            sums = np.asarray(X.sum(axis=1)).ravel() + (abs(bias) if bias is not None else 0.0)
            widest = max(widest, float((sums * scale).max()))
            columns[: self.d] += X.T @ scale
            if bias is not None:
                columns[-1] += abs(bias) * scale.sum()
        return columns, widest

    def column_norms2(self) -> np.ndarray:
        self.require_open()
        total = np.zeros(self.d)
        for start in range(0, self.n, self.tuning.dense_block_rows):
            X = self.sample(np.arange(start, min(start + self.tuning.dense_block_rows, self.n)))
            squares = X * X if isinstance(X, np.ndarray) else X.multiply(X)
            total += np.asarray(squares.sum(axis=0)).ravel()
        return total

    # Other data sets over the same rows.

    def sample(self, rows: np.ndarray) -> Any:
        with self._at_work():
            return self.rows.to_host(np.asarray(rows))

    def subset(self, rows: np.ndarray) -> GpuDataset:
        with self._at_work() as device:
            taken = self.rows.take(device.upload(np.asarray(rows)))
            return GpuDataset(device, taken, self.tuning, self.deterministic)

    def share(self, jobs: int) -> GpuDataset:
        self.require_open()
        view = object.__new__(GpuDataset)
        view.__dict__.update(self.__dict__)
        return view

    def close(self) -> None:
        """Give back the memory of the rows; the views of `share` go on with them."""
        if not self.is_open:
            return
        super().close()
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
