"""torch's L-BFGS on the sum of the same objectives, over the same X on the same device.

Its gradient is written out, which is faster than what autograd would make of it; products are
TF32, rows are taken in blocks.  The clock stands still while its objectives are computed in
float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import batchsvm
from benchmarks.gpu.dense import TOL, many_classes, many_lam
from benchmarks.gpu.measuring import Bench, facts_of

BLOCK_ROWS = 65536
ITERATIONS_PER_LOOK = 5
LIMIT_SECONDS = 40.0
REFERENCE_TOL = 1e-4  # of the dual values that both are compared with
LOSSES = ("squared_hinge", "logistic")


class SummedObjective:
    """sum_k P_k(w_k) of classes one against the rest, with its gradient; X and labels of torch."""

    def __init__(self, X: Any, labels: Any, classes: int, lam: float, loss: str) -> None:
        import torch

        self.torch, self.X, self.labels = torch, X, labels.long()
        self.classes, self.lam, self.loss = classes, lam, loss

    def blocks(self) -> Any:
        for start in range(0, len(self.X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            yield self.X[part], self.labels[part, None]

    def signed(self, scores: Any, own: Any) -> Any:
        """y times the scores, in place: y is +1 for the class of the row and -1 for the others."""
        scores.neg_()
        return scores.scatter_(1, own, scores.gather(1, own).neg_())

    def values(self, margins: Any) -> Any:
        if self.loss == "logistic":
            return self.torch.nn.functional.softplus(-margins)
        return (1 - margins).clamp_(min=0).square_()

    def slopes(self, margins: Any) -> Any:
        if self.loss == "logistic":
            return self.torch.sigmoid(-margins).neg_()
        return (1 - margins).clamp_(min=0).mul_(-2)

    def __call__(self, W: Any) -> tuple[float, Any]:
        total = self.torch.zeros((), dtype=self.torch.float64, device=W.device)
        gradient = self.torch.zeros_like(W)
        for rows, own in self.blocks():
            margins = self.signed(rows @ W.T, own)
            total += self.values(margins).sum(dtype=self.torch.float64)
            gradient.addmm_(self.signed(self.slopes(margins), own).T, rows)
        gradient.div_(len(self.X)).add_(W, alpha=self.lam)
        square = W.square().sum(dtype=self.torch.float64)
        return float(total / len(self.X) + self.lam / 2 * square), gradient

    def primals(self, W: Any) -> np.ndarray:
        """P_k of every class, in float64."""
        W = W.double()
        total = self.torch.zeros(self.classes, dtype=W.dtype, device=W.device)
        for rows, own in self.blocks():
            total += self.values(self.signed(rows.double() @ W.T, own)).sum(dim=0)
        found = total / len(self.X) + self.lam / 2 * W.square().sum(dim=1)
        return found.cpu().numpy()


def run(
    bench: Bench, objective: SummedObjective, duals: np.ndarray, limit: float
) -> list[tuple[float, float]]:
    """Seconds and the worst (P_k - D_k)/P_k after every few iterations, until that is tol."""
    torch = objective.torch
    K, d = objective.classes, objective.X.shape[1]
    W = torch.zeros((K, d), dtype=torch.float32, device=objective.X.device, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [W], max_iter=ITERATIONS_PER_LOOK, max_eval=10**9, tolerance_grad=0.0, tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> float:
        value, W.grad = objective(W.detach())
        return value

    objective(W.detach())  # loads what torch needs
    trace, spent = [], 0.0
    while True:
        seconds, _ = bench.seconds(lambda: optimiser.step(closure))
        spent += seconds
        P = objective.primals(W.detach())
        worst = float(((P - duals) / P).max())
        stuck = len(trace) > 4 and abs(trace[-4][1] - worst) <= 1e-12
        trace.append((spent, worst))
        if worst <= TOL or spent >= limit or stuck:
            return trace


def lbfgs(bench: Bench) -> None:
    try:
        import torch
    except ImportError:
        return bench.skip("L-BFGS", "torch is not installed")
    torch.backends.cuda.matmul.allow_tf32 = True
    X, labels, shape = many_classes(bench)
    lam = many_lam(bench)
    for loss in LOSSES:
        options: dict[str, Any] = {"random_state": 0, "engine": "gpu", "warn": False}

        def fit(tol: float, loss: str = loss, options: Any = options) -> Any:
            return batchsvm.fit_many(X, labels, loss, lam, tol=tol, **options)

        near = fit(REFERENCE_TOL)  # it compiles, too
        duals = np.array([solution.certificate.dual_below for solution in near])
        reference_gap = near.worst.relative_gap
        del near
        taken, solutions = bench.repeated(lambda fit=fit: fit(TOL), 3)
        ours = float(np.median(taken))
        about = facts_of(solutions)
        del solutions
        facts = shape | {"loss": loss, "lam": lam, "tol": TOL, "reference_gap": reference_gap}
        bench.keep(f"batchsvm, {loss}", taken, **facts, **about)
        objective = SummedObjective(
            torch.from_dlpack(X), torch.from_dlpack(labels), shape["classes"], lam, loss
        )
        trace = run(bench, objective, duals, 2.0 if bench.quick else LIMIT_SECONDS)
        seconds, worst = trace[-1]
        then = [gap for spent, gap in trace if spent <= ours]
        bench.keep(
            f"torch L-BFGS, {loss}", [seconds], **facts, problems=shape["classes"],
            worst_gap=worst, reached=worst <= TOL, ratio=seconds / ours, ours_seconds=ours,
            gap_when_ours_was_done=then[-1] if then else 1.0,
            iterations=ITERATIONS_PER_LOOK * len(trace), trace=trace,
        )  # fmt: skip
    return None
