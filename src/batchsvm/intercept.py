"""A linear model <w, x> + b: no intercept b, a penalised one, or a free one, all certified.

penalised
    A column of the constant value `scaling` is added to X (LIBLINEAR's way, and that of
    scikit-learn's LinearSVC): b = scaling * (last entry of w), and lam/2 (b/scaling)^2 is part
    of the objective.  It is an ordinary problem without an intercept, and its certificate is
    the ordinary one.

free
    P(w, b) = (1/N) sum_i c_i phi(s_i (<w, x_i> + b) - o_i) + lam/2 ||w||^2, and b costs nothing.
    By Lagrange duality

        min over w and b of P  =  max of D(alpha) over the box, subject to sum_i s_i alpha_i = 0,

    with the D of `problem.py`: the constraint is what minimising over b adds.  Every alpha in
    the box with sum_i s_i alpha_i = 0 bounds the optimum from below.

    The method is the proximal point method in b (for the dual: the method of multipliers): with
    b_k the intercept so far, a penalised problem about b_k,

        min over w and b of P(w, b) + lam/2 ((b - b_k)/scaling)^2,

    is solved by the core's own methods, from the alpha before it.  Its alpha has
    sum_i s_i alpha_i = lam N (b_{k+1} - b_k)/scaling^2, which goes to zero.  `balance` makes that
    sum zero exactly, and P(w, b_{k+1}) and D of the balanced alpha are computed from scratch.
    Steps of b that shrink at a steady rate are drawn out to where they lead (Aitken), those that
    do not shrink get a larger `scaling`, and problems are solved only as well as b is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Any

import numpy as np
import scipy.sparse

from batchsvm import data_inputs, inputs
from batchsvm.api import certify, fit
from batchsvm.certificate import Certificate
from batchsvm.losses import Loss
from batchsvm.shortfall import warn_if_short
from batchsvm.solution import Checkpoint, History, Solution, Status

INTERCEPTS = (None, "penalised", "free")
OUTER_ITERATIONS = 200
FIRST_TOL = 1e-3  # of the first problem, or half of tol where that is larger
STEADY = 0.75  # how much of a step the next one may be, to be drawn out


@dataclass(frozen=True, eq=False)
class LinearModel:
    """<coef, x> + intercept, and the solution that certifies it.

    `solution.w` is `coef`; with a penalised intercept it has one more entry, intercept/scaling.
    """

    coef: np.ndarray
    intercept: float
    solution: Solution


def fit_linear(
    X: Any,
    y: Any,
    loss: str | Loss = "hinge",
    lam: float = 1e-4,
    *,
    intercept: str | None = None,
    scaling: float = 1.0,
    initial: LinearModel | tuple[np.ndarray, float] | None = None,
    **options: Any,
) -> LinearModel:
    """Train with or without an intercept; `options` are those of `batchsvm.fit`.

    With a free intercept, a callback is called once a penalised problem, with b as the last
    entry of the checkpoint's w.

    Parameters
    ----------
    intercept : {None, "penalised", "free"}
    scaling : float
        The value of the constant column of a penalised intercept.
    initial : LinearModel or (alpha, intercept), optional
        Where to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from batchsvm.intercept import fit_linear
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = fit_linear(X, [0, 0, 1, 1], lam=0.01, tol=1e-6, intercept="free", random_state=0)
    >>> model.coef.round(2), round(model.intercept, 2)
    (array([2.]), -3.0)
    """
    inputs.choice("intercept", intercept, INTERCEPTS)
    if isinstance(initial, LinearModel):
        initial = initial.solution.alpha, initial.intercept
    if intercept == "free":
        return _fit_free(X, y, inputs.read_loss(loss), lam, initial, **options)
    bias = None if intercept is None else scaling
    if initial is not None:
        options["initial"] = _start(initial[0], X.shape[1] + (bias is not None))
    solution = fit(X, y, loss, lam, bias=bias, **options)
    if bias is None:
        return LinearModel(solution.w, 0.0, solution)
    return LinearModel(solution.w[:-1], float(bias * solution.w[-1]), solution)


def _start(alpha: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """What `fit` takes as `initial`; it computes w(alpha) itself."""
    return np.zeros(d), alpha


def balance(signs: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """An alpha near this one with sum_i signs_i alpha_i = 0 in exact arithmetic.

    The terms of the heavier side are scaled down, which keeps them in any box that holds 0.
    They are whole multiples of a power of two, few enough for float64 to sum without error.

    >>> balance(np.array([1.0, 1.0, -1.0]), np.array([0.5, 0.5, 0.5]))
    array([0.25, 0.25, 0.5 ])
    """
    terms = signs * alpha
    weight = float(np.abs(terms).sum())
    if weight == 0.0:
        return np.zeros_like(alpha)
    unit = 2.0 ** (ceil(log2(weight)) - 51)
    counts = np.trunc(terms / unit)
    excess = float(counts.sum())
    side = counts > 0 if excess > 0 else counts < 0
    heavy = np.abs(counts[side])
    goal = float(heavy.sum()) - abs(excess)
    scaled = np.floor(heavy * (goal / max(float(heavy.sum()), 1.0)))
    missing = goal - float(scaled.sum())
    room = heavy - scaled if missing > 0 else scaled
    before = np.cumsum(room) - room
    scaled += np.sign(missing) * np.clip(abs(missing) - before, 0.0, room)
    counts[side] = np.sign(counts[side]) * scaled
    return signs * counts * unit


@dataclass
class _Targets:
    """y as `problem.py` has it: signs s, offsets o, weights c."""

    loss: Loss
    signs: np.ndarray
    offsets: np.ndarray
    weights: np.ndarray

    def value(self, b: float) -> float:
        """P(0, b)."""
        losses = self.loss.value(self.signs * b - self.offsets)
        return float(self.weights @ losses) / float(self.weights.sum())

    def slope(self, b: float) -> float:
        slopes = self.loss.subgradient(self.signs * b - self.offsets)
        return float((self.weights * self.signs) @ slopes)

    def best_constant(self) -> float:
        """A b near the minimum of P(0, b): good enough to start from."""
        low, high = float(self.offsets.min()) - 1.0, float(self.offsets.max()) + 1.0
        while self.slope(low) > 0 and low > -1e3:
            low *= 2.0
        while self.slope(high) < 0 and high < 1e3:
            high *= 2.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if self.slope(middle) > 0 else (middle, high)
        return (low + high) / 2


def _read_targets(y: Any, n: int, loss: Loss, sample_weight: Any) -> _Targets:
    target, _ = data_inputs.read_targets(y, n, loss)
    weights = data_inputs.read_weights(sample_weight, n)
    weights = np.ones(n) if weights is None else weights
    if loss.task == "regression":
        return _Targets(loss, np.ones(n), target, weights)
    return _Targets(loss, target, np.zeros(n), weights)


def _fit_free(
    X: Any,
    y: Any,
    loss: Loss,
    lam: float,
    initial: tuple[np.ndarray, float] | None,
    *,
    tol: float = 1e-3,
    max_epochs: float = 1000,
    sample_weight: Any = None,
    callback: Callable[[Checkpoint], Any] | None = None,
    random_state: Any = None,
    n_jobs: int | None = 1,
    warn: bool = True,
    **options: Any,
) -> LinearModel:
    tol = inputs.number("tol", tol, "a finite number that is not negative", -1e-300)
    max_epochs = inputs.number("max_epochs", max_epochs, "a finite positive number", 0.0)
    seed = inputs.read_seed(random_state)
    n, d = X.shape
    targets = _read_targets(y, n, loss, sample_weight)
    at_zero = targets.value(0.0)
    alpha, b = (None, targets.best_constant()) if initial is None else initial
    # b moves far enough if `scaling` is no smaller than rows are long, nor than lam demands:
    # the curvature of P in b is about 1 over the size of the losses.
    scaling = max(_typical_norm(X), (10.0 * lam * max(targets.value(b), 1.0)) ** 0.5)
    best: LinearModel | None = None
    records: list[tuple[float, ...]] = []
    epochs = iterations = seconds = certifying = 0.0
    floor = tol / 2
    inner = max(floor, FIRST_TOL)
    last_step = 0.0
    try:
        for outer in range(OUTER_ITERATIONS):
            start = None if alpha is None else _start(alpha, d + 1)
            solution = fit(
                X, y, loss, lam, bias=scaling, offset=b, initial=start,
                tol=inner * at_zero / max(targets.value(b), 1e-300),
                max_epochs=max_epochs - epochs, sample_weight=sample_weight, n_jobs=n_jobs,
                random_state=(seed + outer) % 2**64, warn=False, **options,
            )  # fmt: skip
            alpha = solution.alpha
            w, step = solution.w[:-1].copy(), scaling * float(solution.w[-1])
            b += step
            balanced = balance(targets.signs, alpha)
            seen = certify(
                X, y, w, balanced, loss, lam, sample_weight, offset=b, n_jobs=n_jobs,
            )  # fmt: skip
            # P(0, b) is not the scale of tol, but P(0, 0), as for the other intercepts.
            relative = seen.gap / at_zero if at_zero > 0 else seen.relative_gap
            certificate = replace(seen, relative_gap=relative)
            history = solution.history
            epochs += float(history.epoch[-1])
            iterations += float(history.iteration[-1])
            seconds += float(history.seconds[-1])
            certifying += float(history.certify_seconds[-1])
            records.append(
                (iterations, epochs, seconds, certifying, certificate.primal, certificate.dual,
                 certificate.gap, float(history.beta[-1]), float(history.refused[-1]))
            )  # fmt: skip
            if best is None or certificate.gap < best.solution.certificate.gap:
                joint = replace(solution, w=w, alpha=balanced, certificate=certificate)
                best = LinearModel(w, b, joint)
            asked = callback is not None and callback(
                Checkpoint(int(iterations), epochs, seconds, certificate, *2 * [np.append(w, b)])
            )
            status = _why_stop(
                certificate, tol * at_zero, solution.status, asked, epochs >= max_epochs
            )
            if status is not None:
                break
            # What is missing is the price of balancing, which the next problem lowers, or the
            # accuracy of the last one.
            floor = floor / 2 if inner == floor else floor
            inner = max(floor, min(certificate.relative_gap / 10, inner / 4))
            if 0.0 < step * last_step and abs(step) <= STEADY * abs(last_step):
                b += step * step / (last_step - step)
            elif 0.0 < step * last_step:  # b goes steadily, and too slowly
                scaling *= 2.0
            last_step = step
        else:
            status = Status.MAX_EPOCHS
    except KeyboardInterrupt:  # while a problem was set up or certified, or from the callback
        if best is None:
            raise
        status = Status.INTERRUPTED
    assert best is not None
    return _finish(best, status, records, tol, max_epochs, warn)


def _why_stop(
    certificate: Certificate, goal: float, inner: Status, asked: Any, spent: bool
) -> Status | None:
    if inner is Status.INTERRUPTED:  # within tol or not, it is to end what comes next too
        return inner
    if certificate.gap + certificate.rounding <= goal:
        return Status.CONVERGED
    if inner is Status.DIVERGED:
        return inner
    if certificate.gap <= certificate.rounding:
        return Status.PRECISION
    if asked:
        return Status.STOPPED
    return Status.MAX_EPOCHS if spent else None


def _finish(
    best: LinearModel, status: Status, records: list, tol: float, max_epochs: float, warn: bool
) -> LinearModel:
    history = History(*(np.array(column) for column in zip(*records, strict=True)))
    plan = replace(best.solution.plan, tol=tol)
    solution = replace(best.solution, status=status, history=history, plan=plan)
    if warn:
        warn_if_short(solution, max_epochs)
    return replace(best, solution=solution)


def _typical_norm(X: Any) -> float:
    """The root of the mean of ||x_i||^2, or 1 if all rows are zero."""
    if scipy.sparse.issparse(X):
        squares = float(np.einsum("i,i->", X.data, X.data, dtype=np.float64))
    else:
        squares = float(np.einsum("ij,ij->", X, X, dtype=np.float64))
    return float(np.sqrt(squares / X.shape[0])) or 1.0
