"""A device made of NumPy: what `engines/gpu/device.py` and `kernels.py` do, restated plainly.

With it, all of the gpu engine but its CUDA code runs on any machine; on a device, the kernels are
compared with these functions.
"""

from __future__ import annotations

import numpy as np

from batchsvm.core.certificate import SUM_COUNT
from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines.gpu.dataset import GpuDataset
from batchsvm.engines.gpu.device import DeviceMemory
from batchsvm.engines.gpu.read import read_rows
from simulated_rows import SimulatedRows
from simulated_sparse import SimulatedSparse, examples, plain

TINY = {"float32": 1e-30, "float64": 1e-300}
ALMOST_ONE = {"float32": 1 - 1e-6, "float64": 1 - 1e-9}


class SimulatedDevice:
    """Stands for a `CudaDevice`."""

    xp = np
    name = "a simulated device"
    number = 0
    multiprocessors = 4

    def __init__(self, free=2**33):
        self.memory = DeviceMemory(free, 2**34)
        self.kernels = SimulatedKernels()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self):
        pass

    def zeros(self, *arrays):
        return [np.zeros(shape, kind) for shape, kind in arrays]

    def upload(self, array, dtype=None):
        return np.array(array, dtype)  # a copy, as on a device

    def upload_large(self, *arrays):
        return [np.array(array) for array in arrays]

    def to_host(self, array):
        return np.array(array)

    to_host_for_a_moment = to_host

    def matmul(self, A, B, out, transpose_b=False, accumulate=False, precision="float64"):
        real = np.float64 if precision == "float64" else np.float32
        assert A.dtype == B.dtype == out.dtype == real
        found = A @ (np.swapaxes(B, -1, -2) if transpose_b else B)
        out[...] = out + found if accumulate else found

    def repeated(self, work):
        def repeat(count):
            for _ in range(count):
                work()

        return repeat


class SimulatedKernels(SimulatedSparse, SimulatedRows):
    """Stands for `DeviceKernels`."""

    # rows.cu

    def gather(self, rows, cut, out, state=None):
        numbers = np.asarray(cut)
        if state is not None:
            numbers = np.full((state.S, state.B), -1)
            start = int(state.round[0]) * state.S
            for slot, batch in enumerate(state.order[start : start + state.S]):
                if batch >= 0:
                    numbers[slot] = cut[batch]
        numbers = numbers.ravel()
        out[:] = np.where(numbers[:, None] >= 0, plain(rows)[numbers], 0)

    def _rows_at(self, rows, cut, places, real, state):
        found = np.empty((places, rows.d), real)
        self.gather(rows, cut, found, state)
        return found

    def row_products(self, rows, cut, W, out, state=None):
        out[:] = W @ self._rows_at(rows, cut, out.shape[1], out.dtype, state).T

    def add_rows(self, rows, cut, changes, out, state=None):
        found = self._rows_at(rows, cut, changes.shape[1], out.dtype, state)
        step = -(-len(found) // len(out))
        for part in range(len(out)):
            own = slice(part * step, (part + 1) * step)
            out[part] = changes[:, own] @ found[own]

    def norms2(self, rows, out):
        values = plain(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            out[:] = np.einsum("ij,ij->i", values, values)

    # gram.cu and round.cu

    def solve(self, s):
        start = int(s.round[0]) * s.S
        for slot, batch in enumerate(s.order[start : start + s.S]):
            own = slice(slot * s.B, (slot + 1) * s.B)
            for k in range(s.K):
                if batch < 0:
                    s.changes[k, own] = 0
                    s.partial[:, slot, k] = 0
                else:
                    self._solve_one(s, slot, int(batch), k, own)

    def _solve_one(self, s, slot, batch, k, own):
        loss, B = s.loss, s.B
        G = s.gram[batch if s.gram_is_kept else slot]
        cut, old = s.cut[batch], s.alpha[batch, k].copy()
        sign, weight, offset = examples(
            s.targets, s.constants, s.problems, loss, np.maximum(cut, 0), k
        )
        weight = np.where(cut >= 0, weight, 0).astype(s.real)
        bias = 0 if s.bias is None else s.bias[k]
        m = s.products[k, own] + (0 if s.bias is None else bias * s.W[k, s.d])
        first, alpha, beta, unit = m.copy(), old.copy(), s.beta[k], s.unit[k]
        a = sign * m - offset
        gaps = weight * (loss.value(a) + loss.conjugate(alpha) + alpha * a)
        s.estimate[slot, k] += np.where(weight > 0, gaps, 0).sum()
        q = np.maximum(beta * (np.diag(G) + bias**2) * weight * unit, TINY[s.real])
        for _ in range(s.sweeps):
            for j in range(B):
                if weight[j] > 0:
                    new = loss.dual_step(alpha[j], sign[j] * m[j] - offset[j], q[j])
                    step = sign[j] * weight[j] * (new - alpha[j]) * unit
                    alpha[j] = new
                    m = m + beta * step * (G[j] + bias**2)
        move = alpha - old
        v = sign * weight * move * unit
        s.changes[k, own] = v
        gain = weight * (
            loss.conjugate(old) - loss.conjugate(alpha) - move * (sign * first - offset)
        )
        s.partial[:, slot, k] = (
            gain[move != 0].sum(), v @ (m - first) / beta, weight @ move**2, v.sum(),
        )  # fmt: skip
        if s.fresh is None:
            s.alpha[batch, k] = alpha
            if s.bias is not None:
                s.W[k, s.d] += bias * v.sum()
        else:
            s.fresh[slot, k] = alpha

    def finish(self, s, gamma):
        start = int(s.round[0]) * s.S
        for k in range(s.K):
            gain, squares, spread, total = s.partial[:, :, k].sum(axis=1)
            change = s.Delta[:, k].sum(axis=0)
            if s.bias is not None:
                change = np.append(change, s.bias[k] * total)
            square = change @ change
            first_order = gain + s.curvature * spread / 2
            quadratic = square / s.unit[k] + s.curvature * spread
            theta = 1.0
            if s.S > 1 and first_order < ALMOST_ONE[s.real] * quadratic:
                theta = max(first_order / quadratic, 0.5 / s.S)
            if s.S > 1 and squares > 0:
                rho = min(max(square / squares, 1), s.S)
                s.beta[k] = s.beta[k] ** gamma * rho ** (1 - gamma)
            s.refused[k] += theta < 1
            s.W[k] += theta * change
            for slot, batch in enumerate(s.order[start : start + s.S]):
                if batch >= 0:
                    alpha, fresh = s.alpha[batch, k], s.fresh[slot, k]
                    s.alpha[batch, k] = alpha + theta * (fresh - alpha) if theta < 1 else fresh
        s.round[0] += 1

    def advance(self, s):
        s.round[0] += 1

    # sums.cu

    def _dual(self, at, begin, kept, weight, k):
        """alpha / c and alpha of some rows."""
        stored = at.dual.alpha[:, k].ravel()[begin : begin + kept.size].astype(np.float64)[kept]
        heavy = weight > 0
        quotient = np.divide(stored, weight, out=np.zeros(stored.size), where=heavy)
        relative = np.where(heavy, quotient if at.dual.is_absolute else stored, 0)
        relative = np.where(heavy, np.clip(relative, at.loss.lower, at.loss.upper), 0)
        own = np.where(heavy, stored, 0) if at.dual.is_absolute else relative * weight
        return relative, own

    def _parts(self, at, begin, count, k):
        cut = at.dual.cut.ravel()[begin : begin + count]
        kept = cut >= 0
        rows = cut[kept]
        parts = examples(at.targets, at.constants, at.problems, at.loss, rows, k)
        return kept, rows, parts, self._dual(at, begin, kept, parts[1], k)

    def point_sums(self, at, products, begin):
        K, count = products.shape
        out = np.empty((SUM_COUNT, K))
        loss = at.loss
        for k in range(K):
            kept, rows, parts, (relative, alpha) = self._parts(at, begin, count, k)
            sign, weight, offset = parts
            bias = 0.0 if at.bias is None else at.bias[k]
            shift = 0.0 if at.bias is None else bias * at.w_bias[k]
            length = np.sqrt(at.lengths[rows] ** 2 + bias**2)
            a = sign * (products[k, kept] + shift) - offset
            e = at.per_length[k] * length + at.relative_error * (np.abs(a) + np.abs(offset))
            e += at.constant_error[k]
            slope = np.maximum(np.abs(loss.subgradient(a - e)), np.abs(loss.subgradient(a + e)))
            linear, conjugate = alpha * offset, weight * loss.conjugate(relative)
            out[:, k] = (
                np.sum(weight * loss.value(a)), np.sum(linear - conjugate),
                np.sum(weight * e * slope), np.sum(np.abs(conjugate) + np.abs(linear)),
                np.sum(np.abs(alpha) * length), np.sum(np.abs(alpha)), np.count_nonzero(alpha),
            )  # fmt: skip
        return out

    def coefficients(self, at, begin, out):
        K, count = out.shape
        for k in range(K):
            kept, _, (sign, _, _), (_, alpha) = self._parts(at, begin, count, k)
            out[k] = 0
            out[k, kept] = alpha * sign


def place_simulated(
    X, jobs=1, tuning=DEFAULT_TUNING, keeps_norms=True, device=None, deterministic=False, free=2**33
):
    """Stands for `gpu.place`."""
    found = SimulatedDevice(free)
    return GpuDataset(found, read_rows(X, found), tuning, deterministic)
