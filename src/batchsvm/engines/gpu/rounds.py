"""One round of exact batches on a device: what its kernels read and write, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from batchsvm.engines.gpu.device import CudaDevice
from batchsvm.engines.gpu.kernels import FEW_PROBLEMS
from batchsvm.losses import Loss
from batchsvm.methods.gram import GAMMA


@dataclass(eq=False)
class GramState:
    """What the kernels of a round read and write; arrays of the device, problem by problem."""

    loss: Loss
    real: str  # of the numbers below: "float32" or "float64"
    precision: str  # of the products
    d: int
    K: int
    S: int
    B: int
    sweeps: int
    cut: Any  # (batches, B): rows, -1 for none
    gram: Any  # (batches, B, B), or (S, B, B) if it is not kept
    gram_is_kept: bool
    targets: Any
    constants: Any  # (K,)
    problems: Any  # (K,)
    unit: Any  # (K,): 1/(lam N)
    bias: Any  # (K,), or None
    W: Any  # (K, p)
    alpha: Any  # (batches, K, B)
    beta: Any  # (K,)
    refused: Any
    order: Any  # the batches of an epoch, S per round, -1 for none
    round: Any  # one integer
    ticket: Any  # one integer, which counts problems at the end of a round
    rows: Any  # (S B, d): work space
    products: Any  # (K, S B)
    changes: Any  # (K, S B): v of each row
    # Where w and alpha move by theta at the end of a round; None where one batch moves them itself.
    fresh: Any  # (S, K, B): alpha after the steps
    Delta: Any  # (parts, K, d): what w changes by
    estimate: Any  # (S, K): N times the gap that the epoch has shown
    partial: Any  # (4, S, K): sums over each batch

    @property
    def curvature(self) -> float:
        """The second derivative of the conjugate, where that is constant."""
        return float(getattr(self.loss, "conjugate_curvature", 0.0))


def run_round(device: CudaDevice, rows: Any, state: GramState) -> None:
    """One round: the batches at `state.round` take their steps, and w follows."""
    kernels, W, precision = device.kernels, state.W[:, : state.d], state.precision
    if state.rows is not None:
        kernels.gather(rows, state.cut, state.rows, state)
    if not state.gram_is_kept:
        stack = state.rows.reshape(state.S, state.B, state.d)
        device.matmul(stack, stack, state.gram, transpose_b=True, precision=precision)
    if state.K <= FEW_PROBLEMS:
        kernels.row_products(rows, state.cut, W, state.products, state)
        kernels.solve(state)
        kernels.add_rows(rows, state.cut, state.changes, state.Delta, state)
    else:
        device.matmul(W, state.rows, state.products, transpose_b=True, precision=precision)
        kernels.solve(state)
        to, adds = (W, True) if state.Delta is None else (state.Delta[0], False)
        device.matmul(state.changes, state.rows, to, accumulate=adds, precision=precision)
    if state.Delta is not None:
        kernels.finish(state, GAMMA)
    else:
        kernels.advance(state)
