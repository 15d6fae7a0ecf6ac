"""Passes over all rows of a device for K problems: certificates, scores, products for sigma^2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.rounding import response_error
from batchsvm.core.vectors import column_norms
from batchsvm.engines.gpu.dual import DeviceDual
from batchsvm.engines.gpu.kernels import CHUNK_ROWS, THREADS
from batchsvm.losses import Loss

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

SPACE_BYTES = 2**29  # of work space in float64 for the rows of one block, and for its products
MAX_BLOCKS_OF_THREADS = 65535  # in the second direction of a launch: problems at once


@dataclass(frozen=True, eq=False)
class PointPass:
    """What kernels need at (W, alpha) of K problems, on the device and in float64, and what this
    host knows of them."""

    facts: Facts
    norms: np.ndarray  # (K,): ||w||
    loss: Loss
    dual: DeviceDual
    targets: Any
    constants: Any  # (K,): the fixed part of predictions
    problems: Any  # (K,): which column of the targets each problem has
    lengths: Any  # (n,): ||x_i||
    bias: Any  # (K,), or None
    w_bias: Any  # (K,): the bias entries of W, or None
    per_length: Any  # (K,): see core/rounding.ResponseError
    constant_error: Any  # (K,)
    relative_error: float


def _block_places(data: GpuDataset, dual: DeviceDual) -> int:
    return max(1, SPACE_BYTES // (8 * data.rows.work_columns(dual.k)))


def blocks_of(data: GpuDataset, dual: DeviceDual) -> Iterator[tuple[int, Any]]:
    """The positions of a dual point in blocks of bounded size: where each begins, and its cut.  A
    block may begin within a batch."""
    count, places = _block_places(data, dual), dual.cut.reshape(-1)
    for begin in range(0, places.size, count):
        yield begin, places[begin : begin + count]


def point_pass(
    data: GpuDataset, problem: Problem, dual: DeviceDual, W: np.ndarray | None, facts: Facts
) -> PointPass:
    """What the kernels need at (W, alpha); without W, for `combination` alone."""
    p, K = problem.columns(data.d), problem.k
    norms, errors = np.zeros(K), np.zeros((3, K))
    if W is not None:
        norms = column_norms(W)
        is_rounded = (norms != 0.0) | problem.has_offset
        if not is_rounded.all():  # the square of a tiny entry is 0
            is_rounded |= W.any(axis=0)
        for k in np.flatnonzero(is_rounded).tolist():
            errors[:, k] = response_error(
                float(norms[k]), p, facts.longest_row, float(problem.offset[k]), problem.radius
            )
    targets = problem.targets
    has_bias = problem.bias is not None
    # Kernels read alpha of all problems as one array; that of some of them may be a view.
    dual = replace(dual, alpha=data.device.xp.ascontiguousarray(dual.alpha))
    bias = np.zeros(K) if problem.bias is None else problem.bias
    w_bias = W[-1] if has_bias and W is not None else np.zeros(K)
    # One upload: each takes longer than the kernels for little data.
    numbers = data.device.upload(np.stack([problem.offset, bias, w_bias, errors[0], errors[2]]))
    return PointPass(
        facts,
        norms,
        problem.loss,
        dual,
        targets.columns("float64"),  # type: ignore[attr-defined]
        numbers[0],
        targets.problems(K),  # type: ignore[attr-defined]
        data.lengths,
        numbers[1] if has_bias else None,
        numbers[2] if has_bias and W is not None else None,
        numbers[3],
        numbers[4],
        float(errors[1].max()),
    )


def sums(data: GpuDataset, at: PointPass, W: np.ndarray, weights: Any = None) -> Sums:
    """The sums of a full pass at (W, alpha): one read of X.  `weights` are the first d rows of W,
    transposed, if the device has them."""
    device, K = data.device, W.shape[1]
    if weights is None:
        weights = device.upload(np.ascontiguousarray(W[: data.d].T))
    total = None
    for begin, cut in blocks_of(data, at.dual):
        products = device.xp.empty((K, cut.size))
        data.rows.products(cut, weights, products)
        found = device.kernels.point_sums(at, products, begin)
        total = found if total is None else total + found
    depth = _depth(data, at.dual)
    return Sums(device.to_host(total), at.norms, at.facts._replace(depth=depth))


def _depth(data: GpuDataset, dual: DeviceDual) -> float:
    """The additions that a term goes through: in a thread, over the threads of a block, over the
    chunks of a block of positions, and over these blocks."""
    places = dual.cut.size
    block = min(_block_places(data, dual), places)
    return CHUNK_ROWS / THREADS + 16 + -(-block // CHUNK_ROWS) + -(-places // block)


def combination(data: GpuDataset, at: PointPass) -> Any:
    """sum_i alpha_i s_i x_i of each problem, (K, p), on the device: one read of X."""
    device, K = data.device, at.dual.k
    V, totals = device.xp.zeros((K, data.d)), 0.0
    for begin, cut in blocks_of(data, at.dual):
        coefficients = device.xp.empty((K, cut.size))
        device.kernels.coefficients(at, begin, coefficients)
        data.rows.combine(cut, coefficients, V)
        if at.bias is not None:
            totals = totals + coefficients.sum(axis=1)
    if at.bias is None:
        return V
    return device.xp.concatenate([V, (at.bias * totals)[:, None]], axis=1)


def scores(data: GpuDataset, W: np.ndarray) -> np.ndarray:
    """X W on the host, (n, K), each column contiguous."""
    device = data.device
    weights = device.upload(np.ascontiguousarray(W.T, dtype=np.float64))
    out = np.empty((data.n, len(weights)), order="F")
    for start, cut in data.row_blocks(len(weights)):
        part = device.xp.empty((len(weights), cut.size))
        data.rows.products(cut, weights, part)
        out[start : start + cut.size] = device.to_host(part).T
    return out
