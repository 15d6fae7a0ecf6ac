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

    with the D of `core/problem.py`: the constraint is what minimising over b adds.  Every alpha in
    the box with sum_i s_i alpha_i = 0 bounds the optimum from below.

    The method is the proximal point method in b (for the dual: the method of multipliers): with
    b_k the intercept so far, a penalised problem about b_k,

        min over w and b of P(w, b) + lam/2 ((b - b_k)/scaling)^2,

    is solved by the core's own methods, from the alpha before it; the data are placed once.  Its
    alpha has sum_i s_i alpha_i = lam N (b_{k+1} - b_k)/scaling^2, which goes to zero.
    `Dataset.balanced` makes that sum zero exactly, and P(w, b_{k+1}) and D of the balanced alpha
    are computed from scratch.  Steps of b that shrink at a steady rate are drawn out to where
    they lead (Aitken), those that do not shrink get a larger `scaling`, and problems are solved
    only as well as b is known.  Newton's method takes no more steps for a large `scaling`, with
    which b moves as far as it likes: one problem suffices then.  Where estimates of the gap are
    reliable, penalised problems end without certificates of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batchsvm.compiled import clock
from batchsvm.core.best_constant import best_constant, constant_value
from batchsvm.core.certificate import Certificate, allowed_bound, certify_point
from batchsvm.core.choice import choose, refuse_options
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.planning import Plan
from batchsvm.core.problem import Problem
from batchsvm.core.solution import Checkpoint, History, LinearModel, Solution, Status
from batchsvm.core.training import Start, train
from batchsvm.methods import Newton

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset, Dual

INTERCEPTS = (None, "penalised", "free")
MAX_OUTER_ITERATIONS = 200
FIRST_TOL = 1e-3  # of the first problem, or half of tol where that is larger; relative to P
# By how much the scaling is larger where Newton's method solves the penalised problems, which takes
# no more steps then: one problem suffices instead of two to four.
NEWTON_SCALING = 100.0
MOST_STUCK = 10  # problems in a row that have no digits left, while the joint gap does not fall
LONG_EPOCHS = 300  # of its steps for such a problem: if it needs more, digits are missing
STEADY = 0.75  # how much of a step the next one may be, to be drawn out


class Intercept(NamedTuple):
    """Which intercept a linear model has."""

    kind: str | None = None
    scaling: float = 1.0  # the constant column of a penalised one

    def penalise(self, problem: Problem) -> Problem:
        """The problem with the constant column of a penalised intercept, if that is what it is."""
        if self.kind != "penalised":
            return problem
        return replace(problem, bias=np.full(problem.k, float(self.scaling)))

    def model_of(self, solution: Solution) -> LinearModel:
        """The model that a solution of `penalise(problem)` stands for."""
        if self.kind != "penalised":
            return LinearModel(solution.w, 0.0, solution)
        w = solution.w
        return LinearModel(w[:-1], float(self.scaling * w[-1]), solution)


@dataclass(frozen=True)
class LinearStart:
    """Where the training of a linear model starts."""

    seed: int = 0
    alpha: np.ndarray | Dual | None = None  # (n,), or the handle of one dual point
    intercept: float = 0.0

    @property
    def point(self) -> np.ndarray | Dual | None:
        """alpha with a column for the one problem, (n, 1)."""
        alpha = self.alpha
        return alpha[:, np.newaxis] if isinstance(alpha, np.ndarray) else alpha


def fit_linear(
    data: Dataset,
    problem: Problem,
    options: FitOptions,
    intercept: Intercept,
    start: LinearStart,
    stop: StopFlag | None = None,
) -> LinearModel:
    """Train one problem (K = 1) with or without an intercept.

    With a free intercept, a callback is called once per penalised problem, with b as the last
    entry of the checkpoint's w.
    """
    stop = stop or StopFlag()
    if intercept.kind == "free":
        return _FreeIntercept(data, problem, options, start, stop).fit()
    biased = intercept.penalise(problem)
    begin = Start(start.seed, start.point)
    [solution] = train(data, biased, options, begin, stop)
    return intercept.model_of(solution)


def first_scaling(data: Dataset, problem: Problem, at_zero: float) -> float:
    """The scaling of the first penalised problem of a free intercept.  b moves far enough if it is
    no smaller than rows are long, nor than lam demands: the curvature of P in b is about 1 over the
    size of the losses, which are `at_zero` for the best constant."""
    typical = float(np.sqrt(data.mean_norm2)) or 1.0
    return max(typical, float((10.0 * float(problem.lam[0]) * max(at_zero, 1.0)) ** 0.5))


def first_penalised(data: Dataset, problem: Problem) -> Problem:
    """The first penalised problem of a free intercept, which begins at the best constant."""
    constant = best_constant(data, problem)
    scaling = first_scaling(data, problem, constant_value(data, problem, constant))
    return replace(problem, bias=np.array([scaling]), offset=np.array([constant]))


class _FreeIntercept:
    """The proximal point method in b, on one problem."""

    def __init__(
        self,
        data: Dataset,
        problem: Problem,
        options: FitOptions,
        start: LinearStart,
        stop: StopFlag,
    ) -> None:
        self.data, self.problem, self.options, self.start = data, problem, options, start
        self.stop = stop
        self.constant = best_constant(data, problem)
        self.at_zero = constant_value(data, problem, self.constant)
        self.best: LinearModel | None = None
        self.newton: Newton | None = None  # where "auto" has taken it
        self.plan: Plan | None = None  # of the first penalised problem
        self.trusts = True  # whether penalised problems may end without a certificate
        self.records: list[tuple[float, ...]] = []
        self.estimates: list[np.ndarray] = []  # of the penalised problems
        self.epochs = self.iterations = self.seconds = self.certifying = 0.0

    @property
    def goal(self) -> float:
        """The bound at which the problem is solved."""
        return allowed_bound(self.options.tol, self.primal, self.at_zero)

    @property
    def primal(self) -> float:
        """The best P so far."""
        return self.at_zero if self.best is None else self.best.solution.certificate.primal

    def fit(self) -> LinearModel:
        try:
            status = self._iterate()
        except KeyboardInterrupt:  # while a problem was set up or certified, or from the callback
            if self.best is None:
                raise
            status = Status.INTERRUPTED
        best = self.best
        assert best is not None
        columns = (np.array(column) for column in zip(*self.records, strict=True))
        history = replace(History(*columns), estimates=np.concatenate(self.estimates))
        plan = replace(self.plan or best.solution.plan, tol=self.options.tol)
        return replace(
            best,
            solution=replace(
                best.solution, status=status, history=history, plan=plan, free_intercept=True
            ),
        )

    def _iterate(self) -> Status:
        start = self.start
        point = start.point if self.at_zero > 0.0 else None  # else a constant fits all targets
        b = start.intercept if point is not None else self.constant
        scaling = first_scaling(self.data, self.problem, self.at_zero)
        floor = self.options.tol / 2
        inner = max(floor, FIRST_TOL)
        self.plan = self._newton_plan(b, scaling)
        is_long = self.plan is not None
        if is_long:
            self.newton, scaling, inner = Newton(), NEWTON_SCALING * scaling, floor
        last_step, last_gap, stuck = 0.0, inf, 0
        for outer in range(MAX_OUTER_ITERATIONS):
            most = self.options.max_epochs - self.epochs
            most = min(most, LONG_EPOCHS) if is_long else most
            solution = self._solve_penalised(outer, point, b, scaling, inner, most)
            point = solution.dual
            w, step = solution.w[:-1].copy(), scaling * float(solution.w[-1])
            b += step
            certificate, asked = self._certify(solution, w, b)
            spent = self.epochs >= self.options.max_epochs
            status = _why_stop(certificate, self.goal, solution.status, asked, spent)
            if status is not None:
                return status
            is_stuck = solution.status is Status.PRECISION and solution.history.epoch[-1] == 0.0
            if is_long and (is_stuck or solution.status is Status.MAX_EPOCHS):
                scaling, is_long = scaling / NEWTON_SCALING, False  # a long column costs digits
            # b may still be on its way, in steps that grow.
            stuck = stuck + 1 if is_stuck and certificate.gap >= last_gap else 0
            if stuck == MOST_STUCK:
                return Status.PRECISION
            # An estimate that was too small would end the next problem too soon as well.
            self.trusts = certificate.gap <= last_gap / 2
            last_gap = certificate.gap
            # What is missing is the price of balancing, which the next problem lowers, or the
            # accuracy of the last one.
            floor = floor / 2 if inner == floor else floor
            inner = max(floor, min(certificate.relative_gap / 10, inner / 4))
            if 0.0 < step * last_step and abs(step) <= STEADY * abs(last_step):
                b += step * step / (last_step - step)
            elif 0.0 < step * last_step:  # b goes steadily, and too slowly
                scaling *= 2.0
            last_step = step
        return Status.MAX_EPOCHS

    def _newton_plan(self, b: float, scaling: float) -> Plan | None:
        """The plan, if Newton's method is to solve the penalised problems with a Hessian that is
        formed: then b may move as far as it likes at once."""
        options, data = self.options, self.data
        if options.method is None and options.batch_size != "auto":
            return None
        near = self._near(b, scaling)
        columns, most = near.columns(data.d), data.tuning.max_hessian_columns
        method = options.method or Newton()
        if not (data.cheap_passes and isinstance(method, Newton)):
            return None
        if not method.forms_hessian(columns, most):
            return None
        refuse_options(data, near, options)
        layout, plan = choose(data, near, data.facts(near), options)
        return plan if isinstance(layout.method, Newton) else None

    def _near(self, b: float, scaling: float) -> Problem:
        """The penalised problem about b."""
        return replace(self.problem, bias=np.array([scaling]), offset=np.array([b]))

    def _solve_penalised(
        self, outer: int, point: np.ndarray | Dual | None, b: float, scaling: float, tol: float,
        max_epochs: float,
    ) -> Solution:  # fmt: skip
        """min over w and b' of P(w, b') + lam/2 ((b' - b)/scaling)^2, to a part tol of P."""
        near = self._near(b, scaling)
        primal = self.primal
        options = replace(
            self.options,
            goal=lambda seen: tol * max(min(seen, primal), self.options.tol * self.at_zero),
            proves=not self.trusts,
            max_epochs=max_epochs,
            callback=None,
            # With few epochs left, "auto" would leave Newton's method.
            method=self.options.method or self.newton,
        )
        seed = (self.start.seed + outer) % 2**64
        begin = Start(seed, point)
        [solution] = train(self.data, near, options, begin, self.stop)
        if self.plan is None:
            self.plan = solution.plan
        self.newton = solution.method if isinstance(solution.method, Newton) else None
        return solution

    def _certify(self, solution: Solution, w: np.ndarray, b: float) -> tuple[Certificate, bool]:
        """Certify the joint problem at (w, b), note it, and ask the callback whether to stop."""
        at_b = replace(self.problem, offset=np.array([b]))
        began = clock()
        balanced = self.data.balanced(at_b, solution.dual)
        [seen] = certify_point(self.data, at_b, w[:, np.newaxis], balanced)
        self.certifying += clock() - began
        self._keep(solution, w, b, balanced, seen)
        best = self.best
        assert best is not None
        certificate = best.solution.certificate
        history = solution.history
        self.estimates.append(history.estimates + np.array([self.epochs, 0.0]))
        self.epochs += float(history.epoch[-1])
        self.iterations += float(history.iteration[-1])
        self.seconds += float(history.seconds[-1])
        self.certifying += float(history.certify_seconds[-1])
        self.records.append(
            (self.iterations, self.epochs, self.seconds, self.certifying, seen.primal,
             seen.dual, certificate.gap, float(history.beta[-1]), float(history.refused[-1]))
        )  # fmt: skip
        if self.options.callback is None:
            return certificate, False
        place = int(self.iterations), self.epochs, self.seconds
        point = np.append(w, b)
        return certificate, bool(self.options.callback(0, Checkpoint(*place, seen, point, point)))

    def _keep(
        self, solution: Solution, w: np.ndarray, b: float, dual: Dual, seen: Certificate
    ) -> None:
        """Keep (w, b) and the dual point, each if it is the best one so far."""
        if self.best is None:
            joint = replace(solution, w=w, dual=dual, certificate=seen)
            self.best = LinearModel(w, b, joint)
            return
        before = self.best.solution.certificate
        if not seen.has_better_w(before):
            w, b = self.best.coef, self.best.intercept
        if not seen.has_better_alpha(before):
            dual = self.best.solution.dual
        joint = replace(solution, w=w, dual=dual, certificate=before.joined(seen))
        self.best = LinearModel(w, b, joint)


def _why_stop(
    certificate: Certificate, goal: float, inner: Status, asked: Any, spent: bool
) -> Status | None:
    if inner.ends_all:  # within tol or not, it is to end what comes next too
        return inner
    if certificate.bound <= goal or certificate.primal == 0.0:
        return Status.CONVERGED
    if inner is Status.DIVERGED:
        return inner
    if certificate.gap <= certificate.rounding:
        return Status.PRECISION
    if asked:
        return Status.STOPPED
    return Status.MAX_EPOCHS if spent else None
