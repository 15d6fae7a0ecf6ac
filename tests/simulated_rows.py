"""The kernel `asynchronous.cu` in NumPy: rows that are worked on at once see the same w.

That is one of the orders in which a device may make the steps.
"""

from __future__ import annotations

import numpy as np

from batchsvm.engines.gpu.sparse_kernels import EpochControl, Line
from batchsvm.engines.gpu.strips import in_strips
from simulated_sparse import TINY, chosen_rows, examples, in_order

ROUNDING = {"float32": 1e-6, "float64": 1e-13}
GAPS, GAIN, SQUARES = range(3)  # lines of the sums of an epoch


class SimulatedRows:
    """Stands for what `DeviceKernels` adds."""

    def train_rows(self, s, epoch, visits):
        if not visits:
            return
        assert s.W.dtype == s.alpha.dtype == s.constants.dtype == s.units.dtype == s.real
        control, n = s.control, s.rows.n
        position, left, epochs, is_enough = int(control[EpochControl.POSITION]), visits, 0, False
        while left > 0 and not is_enough:
            at_once, end = int(control[EpochControl.AT_ONCE]), position + min(left, n - position)
            order = permutation(s.key, epoch + epochs, n)
            for begin in range(position, end, at_once):
                with np.errstate(over="ignore", invalid="ignore"):
                    _visit(s, order[begin : min(begin + at_once, end)])
            left, position = left - (end - position), end
            if position == n:
                position, epochs = 0, epochs + 1
                is_enough = _end_epoch(s)
        control[[EpochControl.POSITION, EpochControl.EPOCHS]] = position, epochs
        control[EpochControl.VISITS] = visits - left


def permutation(key, epoch, n):
    """The order of an epoch: `permutation.cuh`."""

    def hashed(x):
        x = np.asarray(x, np.uint32)
        x = x ^ x >> np.uint32(16)
        x = x * np.uint32(0x7FEB352D)
        x = x ^ x >> np.uint32(15)
        x = x * np.uint32(0x846CA68B)
        return x ^ x >> np.uint32(16)

    firsts = [(key + 4 * epoch + turn) % 2**32 for turn in range(4)]
    keys = hashed(hashed(np.array(firsts, np.uint32)) ^ np.uint32(key >> 32))
    bits = (n - 1).bit_length()
    low_bits, masks = (
        (bits + 1) // 2,
        (np.uint32(2 ** (bits // 2) - 1), np.uint32(2 ** ((bits + 1) // 2) - 1)),
    )
    found = np.arange(n, dtype=np.uint32)
    left = np.arange(n)
    while left.size:
        low, high = found[left] & masks[1], found[left] >> np.uint32(low_bits)
        for turn in (0, 2):
            high = high ^ hashed(low ^ keys[turn]) & masks[0]
            low = low ^ hashed(high ^ keys[turn + 1]) & masks[1]
        found[left] = high << np.uint32(low_bits) | low
        left = left[found[left] >= n]
    return found


def _visit(s, numbers):
    """The steps of some rows at the same W, of all problems."""
    X, W, d = chosen_rows(s.rows, numbers, s.real), in_order(s.W), s.rows.d
    change = np.zeros_like(W)
    for k in range(s.K):
        sign, weight, offset = examples(s.targets, s.constants, s.problems, s.loss, numbers, k)
        bias = np.zeros((), s.real)[()] if s.biases is None else s.biases[k]
        products = X @ W[:d, k]
        if s.biases is not None:
            products = products + bias * W[d, k]
        a, old = (sign * products - offset).astype(s.real), s.alpha[numbers, k]
        norm2 = (s.norms2[numbers] + float(bias) ** 2).astype(s.real)
        q = np.maximum(norm2 * weight * s.units[k], TINY[s.real])
        best = np.where(weight > 0, np.asarray(s.loss.dual_step(old, a, q), s.real), old)
        steps = s.units[k] * sign * weight * (best - old)
        change[:d, k] = X.T @ steps
        if s.biases is not None:
            change[d, k] = bias * steps.sum()
        s.alpha[numbers, k] = best
        counts = weight > 0
        c, a, o, old, to = (
            array[counts].astype(np.float64) for array in (weight, a, offset, old, best)
        )
        loss = s.loss
        s.sums[0, GAPS, k] += np.sum(c * (loss.value(a) + loss.conjugate(old) + old * a))
        s.sums[0, GAIN, k] += np.sum(
            c * (loss.conjugate(old) - loss.conjugate(to) + (to - old) * o)
        )
    s.W[:] = in_strips(W + change)


def _end_epoch(s):
    """Take back the epoch of problems whose D has fallen; whether enough gaps are small."""
    shown, gain, _ = s.sums.sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        square = (s.W.astype(np.float64) ** 2).sum(axis=0) / (2 * s.units.astype(np.float64))
        rise = gain - (square - s.lines[Line.SQUARE])
        fell = ~(rise >= -ROUNDING[s.real] * square)
    s.lines[Line.FELL] = fell
    s.lines[Line.REFUSED] += fell
    s.lines[Line.SQUARE] = np.where(fell, s.lines[Line.SQUARE], square)
    s.lines[Line.SHOWN] = np.where(fell, np.inf, shown)
    if fell.any():
        half = s.control[EpochControl.AT_ONCE] // 2
        s.control[EpochControl.AT_ONCE] = max(half, 1)
    for now, before in ((s.W, s.W_before), (s.alpha, s.alpha_before)):
        now[:, fell] = before[:, fell]
        before[:] = now
    s.sums[:] = 0
    reached = np.count_nonzero(~fell & (shown <= s.lines[Line.GOAL]))
    s.control[EpochControl.ENOUGH] = reached >= s.share * s.K
    return bool(s.control[EpochControl.ENOUGH])
