"""The kernels of `engines/gpu/sparse_kernels.py` in NumPy, restated plainly.

What a device adds up in any order is added up in one order here.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from batchsvm.engines.gpu.sparse_kernels import Control, Setting
from batchsvm.engines.gpu.sparse_read import CsrFact
from batchsvm.engines.gpu.strips import STRIPS, in_strips

TINY = {"float32": 1e-30, "float64": 1e-300}
AFTER_REFUSAL = 1.5


def in_order(array):
    """The way back from `in_strips`."""
    return array.reshape(STRIPS, -1, array.shape[1]).swapaxes(0, 1).reshape(array.shape)


def examples(targets, constants, problems, loss, rows, k):
    """Sign, weight and offset of some rows."""
    problem = int(problems[k])

    def column(array):
        return array[0 if len(array) == 1 else problem][rows]

    real = constants.dtype
    if targets.codes is not None:
        y = np.where(targets.codes[rows] == problem, 1, -1).astype(real)
    else:
        y = column(targets.y)
    fixed = constants[k] + (0 if targets.offsets is None else column(targets.offsets))
    weight = np.ones(len(rows), real) if targets.weights is None else column(targets.weights)
    if loss.task == "classification":
        return y, weight, -y * fixed
    return np.ones(len(rows), real), weight, y - fixed


def plain(rows):
    """Dense rows in float64."""
    if rows.kind == "bfloat16":
        bits = rows.values.view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return rows.values.astype(np.float64)


def as_csr(rows):
    """Sparse rows in float64; a copy of its own, which SciPy may sort in place."""
    end = int(rows.starts[-1])
    parts = rows.values[:end].astype(np.float64), rows.indices[:end].copy(), rows.starts.copy()
    return sp.csr_array(parts, shape=(rows.n, rows.d))


def chosen_rows(rows, numbers, real):
    """Some rows, dense or sparse, as the numbers of the steps."""
    if rows.is_dense:
        return plain(rows)[numbers].astype(real)
    return as_csr(rows)[numbers].astype(real)


class SimulatedSparse:
    """Stands for what `DeviceKernels` adds."""

    # csr.cu

    def csr_check(self, rows, norms2, facts):
        values, indices, starts = rows.values, rows.indices, rows.starts
        largest = facts.view(np.float64)
        for row in range(starts.size - 1):
            norms2[row] = 0
            begin, end = int(starts[row]), int(starts[row + 1])
            facts[CsrFact.FALLS] |= end < begin
            if begin < 0 or end <= begin or end > indices.size:
                continue
            own = indices[begin:end]
            with np.errstate(over="ignore", invalid="ignore"):
                norms2[row] = np.sum(values[begin:end].astype(np.float64) ** 2)
            largest[CsrFact.LARGEST_NORM2] = np.maximum(largest[CsrFact.LARGEST_NORM2], norms2[row])
            facts[CsrFact.BELOW_ZERO] = max(facts[CsrFact.BELOW_ZERO], -own.min())
            facts[CsrFact.HIGHEST] = max(facts[CsrFact.HIGHEST], own.max())
            facts[CsrFact.UNORDERED] |= bool((own[1:] <= own[:-1]).any())
            facts[CsrFact.LONGEST] = max(facts[CsrFact.LONGEST], end - begin)
        facts[CsrFact.FIRST], facts[CsrFact.LAST] = starts[0], starts[-1]

    def csr_norms2(self, rows, out):
        X = as_csr(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            out[:] = X.multiply(X).sum(axis=1)

    def csr_dense(self, rows, cut, out):
        assert not out.any()
        out[cut >= 0] = as_csr(rows)[cut[cut >= 0]].toarray()

    def csr_products(self, rows, cut, W, out):
        assert W.dtype == out.dtype == np.float64
        found = (as_csr(rows)[np.maximum(cut, 0)] @ W.T).T
        out[:] = np.where(cut >= 0, found, 0)

    def csr_combine(self, rows, cut, coefficients, out):
        kept, padding = cut >= 0, out.shape[1] - rows.d
        found = as_csr(rows)[cut[kept]].T @ coefficients[:, kept].T
        out += in_strips(np.pad(found, ((0, padding), (0, 0)))).T

    def from_strips(self, array, out, adds=False):
        found = in_order(array)[: out.shape[1]].T.astype(np.float64)
        out[:] = out + found if adds else found

    def csr_columns(self, columns, coefficients, out):
        out += (as_csr(columns) @ coefficients.T).T

    def csr_take(self, rows, chosen, taken):
        for r, row in enumerate(chosen):
            own = slice(rows.starts[row], rows.starts[row + 1])
            there = slice(taken.starts[r], taken.starts[r + 1])
            taken.values[there], taken.indices[there] = rows.values[own], rows.indices[own]

    # peaks.cu and sparse.cu

    def column_peaks(self, rows, out):
        X = plain(rows) if rows.is_dense else as_csr(rows)
        found = abs(X).max(axis=0)
        out[:] = found if rows.is_dense else found.toarray().ravel()

    def train_batches(self, s, first, count, target):
        assert s.w.dtype == s.alpha.dtype == s.constants.dtype == s.real
        assert s.deltas.dtype == (s.real if s.scales is None else np.int64)
        control = s.control
        control[Control.DONE] = 0
        for place in range(first, first + count):
            batch = s.order[place]
            cut = s.cut[batch]
            kept = np.flatnonzero(cut >= 0)
            step = _pegasos_step if s.rule == "PEGASOS" else _dual_step
            step(s, cut[kept], s.alpha[batch, 0], kept)
            control[Control.TURN] = 1 - control[Control.TURN]
            control[Control.DONE] += 1
            if (place + 1) % len(s.cut) == 0:
                control[Control.SHOWN], control[Control.ESTIMATE] = control[Control.ESTIMATE], 0.0
                if s.rule != "PEGASOS" and control[Control.SHOWN] <= target:
                    break


def _at(s, numbers, scale=1):
    """Rows of a batch, what the problem knows of them, and their responses."""
    X = chosen_rows(s.rows, numbers, s.real)
    sign, weight, offset = examples(s.targets, s.constants, s.problems, s.loss, numbers, 0)
    d, bias = s.rows.d, s.settings[Setting.BIAS]
    products = X @ s.w[:d]
    if len(s.w) > d:
        products = products + np.asarray(bias, s.real) * s.w[d]
    return X, sign, weight, (sign * (np.asarray(scale, s.real) * products) - offset).astype(s.real)


def _combined(s, X, coefficients):
    """sum_i c_i x_i, with the bias entry."""
    if s.scales is not None:
        found = _in_fixed_point(s, sp.coo_array(X), coefficients)
    else:
        found = np.asarray(X.T @ coefficients)
    if len(s.w) > s.rows.d:
        total = coefficients.astype(np.float64).sum()
        found = np.append(found, s.settings[Setting.BIAS] * total).astype(s.real)
    return found


def _in_fixed_point(s, X, coefficients):
    """sum_i c_i x_i by integers; what would overflow on a device is an error."""
    terms = np.rint(coefficients[X.row].astype(np.float64) * X.data * s.scales[X.col])
    sizes = np.zeros(s.rows.d)
    np.add.at(sizes, X.col, np.abs(terms))
    assert sizes.max() < 2.0**63, "a sum in fixed point has overflowed"
    found = np.zeros(s.rows.d, np.int64)
    np.add.at(found, X.col, terms.astype(np.int64))
    return (found / s.scales).astype(s.real)


def _dual_step(s, numbers, alpha, kept):
    """One iteration of a dual method; `alpha` is that of the batch, and is changed."""
    loss, settings, control = s.loss, s.settings, s.control
    beta, unit, beta_b = control[Control.BETA], settings[Setting.UNIT], settings[Setting.BETA_B]
    X, sign, weight, a = _at(s, numbers)
    old = alpha[kept]
    norm2 = np.maximum(
        s.norms2[numbers] + settings[Setting.BIAS] ** 2, settings[Setting.LEAST_NORM2]
    )
    q = np.maximum((beta * norm2 * weight * unit).astype(s.real), TINY[s.real])
    moved = np.asarray(loss.dual_step(old, a, q), s.real)
    if s.scales is not None:
        limit = np.asarray(settings[Setting.LIMIT], s.real)
        moved = np.clip(moved, old - limit, old + limit)
    best = np.where(weight > 0, moved, old)
    coefficients = (sign * weight * (best - old)).astype(s.real)
    change = _combined(s, X, coefficients)
    c, a, to, old64 = (x.astype(np.float64) for x in (weight, a, best, old))
    gaps = c * (loss.value(a) + loss.conjugate(old64) + old64 * a)
    control[Control.ESTIMATE] += gaps[c > 0].sum()
    refuses = False
    if s.rule == "ADAPTIVE":
        delta = c * (to - old64)
        spread = np.sum(norm2 * delta**2)
        square = np.sum(change.astype(np.float64) ** 2)
        gain = np.sum((c * (loss.conjugate(old64) - loss.conjugate(to)) - delta * a)[delta != 0])
        refuses = spread > 0 and not gain - unit * square / 2 > 0
        if spread > 0:
            rho, gamma = min(max(square / spread, 1.0), beta_b), settings[Setting.GAMMA]
            beta = max(beta**gamma * rho ** (1 - gamma), 1.0)
        if refuses:
            beta = min(AFTER_REFUSAL * beta, beta_b)
            control[Control.REFUSED] += 1
        control[Control.BETA] = beta
    if not refuses:
        s.w += np.asarray(unit, s.real) * change
        alpha[kept] = best


def _pegasos_step(s, numbers, g, kept):
    """One iteration of Pegasos; `g` is that of the batch, and is changed."""
    settings, control = s.settings, s.control
    lam, radius, shrink = settings[Setting.LAM], settings[Setting.RADIUS], control[Control.SHRINK]
    t = control[Control.ITERATIONS]
    X, sign, weight, a = _at(s, numbers, shrink / (lam * max(t, 1)))
    chi = np.where(weight > 0, -s.loss.subgradient(a), 0).astype(s.real)
    if s.scales is not None:
        chi = np.clip(chi, -settings[Setting.LIMIT], settings[Setting.LIMIT]).astype(s.real)
    change = _combined(s, X, (settings[Setting.SHARE] * sign * weight * chi).astype(s.real))
    s.w[:] = np.asarray(shrink, s.real) * s.w + change
    g[kept] += chi
    control[Control.ITERATIONS] = t + 1
    size, limit = np.linalg.norm(s.w.astype(np.float64)), radius * lam * (t + 1)
    control[Control.SHRINK] = limit / size if 0 < radius and size > limit else 1.0
