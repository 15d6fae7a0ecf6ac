"""Training K problems on placed data: choose how, run the loop, return solutions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from batchsvm.core import checks, data_checks
from batchsvm.core.blas_threads import blas_threads
from batchsvm.core.device_layout import DeviceSize, DeviceWork, lay_out_on_device
from batchsvm.core.dual import host_alpha
from batchsvm.core.layout import (
    Layout,
    Schedule,
    Workload,
    keeps_recent_mean,
    lay_out,
    lay_out_as_asked,
    lay_out_newton,
    workload_of,
)
from batchsvm.core.loop import Loop
from batchsvm.core.newton_choice import newton_reason
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.planning import Plan, make_plan
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.saving import Resumable, refuse_engine
from batchsvm.core.solution import Solution
from batchsvm.core.spectral import Sigma2, SpectralQuery, beta_b, measure_sigma2
from batchsvm.methods import Asynchronous, Blocks, DualMethod, Gram, Guarded, Method, Newton

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset, Dual

MAX_UNIT_NORM = 1 + 1e-4  # text files round


@dataclass(frozen=True)
class Start:
    """Where training starts."""

    seed: int
    alpha: np.ndarray | Dual | None = None  # (n, K)
    data_seed: int | None = None  # of what is measured of the data; the seed if None


def train(
    data: Dataset,
    problem: Problem,
    options: FitOptions,
    start: Start,
    stop: StopFlag | None = None,
) -> list[Solution]:
    """Train up to `data.problems_at_once` problems; problem k has the seed + k, unless the trainer
    gives all of them one order of rows."""
    if not checks.is_word(options.batch_size, "auto"):
        words = f"'auto' or an integer from 1 to n = {data.n}"
        checks.whole("batch_size", options.batch_size, 1, data.n, words)
    if not data.cheap_passes:
        checks.refuse_corners(problem.loss, options.method, data.engine)
    _refuse_precision(data, options.precision)
    trainer = data.trainer(problem)
    data_checks.refuse_infinite_loss(float(trainer.facts.losses_at_zero.max()))
    saving = options.saving
    if saving is not None and isinstance(options.method, Newton):
        raise ValueError('checkpoint must be None for method "newton", whose trainings are short')
    if saving is not None and not isinstance(trainer, Resumable):
        refuse_engine(data.engine)
    goes_on = saving is not None and saving.saved is not None
    alpha = None if goes_on else start.alpha
    dual = _starting_point(data, problem, trainer.facts, alpha)
    work = workload_of(data, problem)
    layout, plan = _settle(
        data,
        problem,
        trainer.facts,
        options,
        start.seed if start.data_seed is None else start.data_seed,
    )
    if isinstance(layout.method, Newton):
        trainer = data.newton_trainer(problem, trainer)
    schedule, resumed = _schedule(work, layout, plan, options, start.seed), None
    if saving is not None and goes_on:
        assert isinstance(trainer, Resumable)
        resumed = trainer.resume(schedule, saving)
    else:
        trainer.start(schedule, dual)
    loop = Loop(data, problem, trainer, min(plan.batch_size * plan.batches, plan.n), options)
    with blas_threads(data.jobs) if isinstance(layout.method, Newton) else nullcontext():
        loop.train(dual is not None, stop or StopFlag(), resumed)
    W, best = trainer.best()
    solutions = []
    for k in range(problem.k):
        certificate, status = loop.best[k], loop.statuses[k]
        assert certificate is not None
        assert status is not None
        lam = float(problem.lam[k])
        solutions.append(
            Solution(
                W[:, k], best.only(k), certificate, loop.history(k), status,
                plan if k == 0 else replace(plan, lam=lam), None, problem.loss, lam,
                layout.method, plan.batch_size,
            )
        )  # fmt: skip
    return solutions


def _starting_point(
    data: Dataset, problem: Problem, facts: Facts, alpha: np.ndarray | Dual | None
) -> Dual | None:
    """The dual point to start from: one in the engine's memory stays there."""
    if alpha is None:
        return None
    solved = facts.losses_at_zero == 0.0
    if solved.any():  # where w = 0 has no loss, it is the solution
        alpha = np.where(solved, 0.0, host_alpha(alpha))
    if isinstance(alpha, np.ndarray) or not data.owns(alpha):
        return data.dual(problem, host_alpha(alpha))
    return alpha


def _schedule(
    work: Workload, layout: Layout, plan: Plan, options: FitOptions, seed: int
) -> Schedule:
    method = layout.method
    open_choice = options.method is None and options.batch_size == "auto"
    b = plan.batch_size
    return Schedule(
        method=method,
        batch_size=b,
        workers=plan.workers,
        batches=plan.batches,
        beta_b=beta_b(b, plan.n, plan.sigma2),
        averaging=options.averaging,
        recent_mean=open_choice and keeps_recent_mean(work, b, method),
        seed=seed,
        precision=options.precision,
        keeps_gram=layout.keeps_gram,
    )


def sigma2_for(
    data: Dataset, problem: Problem, query: SpectralQuery, known: float | None
) -> Sigma2:
    """sigma^2 of the rows with the bias of the first problem, if it is not known already."""
    if known is not None:
        return known if isinstance(known, Sigma2) else Sigma2(known, "given")
    bias = None if problem.bias is None else float(problem.bias[0])
    return measure_sigma2(data, replace(query, bias=bias))


def _settle(
    data: Dataset, problem: Problem, facts: Facts, options: FitOptions, seed: int
) -> tuple[Layout, Plan]:
    """Put a method and a batch size in the place of "auto"."""
    work, tol, size = workload_of(data, problem), options.tol, data.device_size
    quick = SpectralQuery("estimate", seed=seed)
    chosen = options.method is None and options.batch_size == "auto"
    if chosen and size is None:
        found = sigma2_for(data, problem, quick, None)
        lam_n = float(problem.lam[0]) * float(facts.total_weight[0])
        layout = lay_out(work, options.averaging is not None, found, lam_n)
        may = data.cheap_passes and _may_be_newton(options)
        why = newton_reason(work, problem, facts, tol) if may else None
        if why is not None:
            layout = lay_out_newton(work, Newton(), "auto", why)
        return layout, make_plan(problem, facts, work.columns, tol, found, layout)
    layout = _lay_out_as_asked(data, problem, options, size)
    method = layout.method
    serial = layout.batch_size == 1
    known = method.sigma2
    if isinstance(method, DualMethod) and method.step == "literal":
        refuse_long_rows(facts, 'step="general"')
        if known is None and not serial:  # the paper's own sigma^2, of the rows as they are
            known = sigma2_for(data, problem, SpectralQuery(normalize=False, seed=seed), None)
    # On one thread, guarded, in blocks, with Gram matrices, without waiting and in Newton's method,
    # nothing but the plan needs sigma^2.
    unaware = Guarded | Blocks | Gram | Asynchronous | Newton
    careless = serial or chosen or isinstance(method, unaware)
    found = sigma2_for(data, problem, quick if careless else SpectralQuery(seed=seed), known)
    plan = make_plan(problem, facts, work.columns, tol, found, layout)
    if isinstance(method, DualMethod) and method.sampling == "replacement" and plan.batch_size > 1:
        raise ValueError(
            'sampling must be "permutation" or "subsets" for a dual method with batch_size > 1,'
            f' not "replacement": a row twice in a batch of {plan.batch_size} can leave its box'
        )
    return layout, plan


def _may_be_newton(options: FitOptions) -> bool:
    """Whether nothing was asked for that Newton's method does not offer."""
    return options.averaging is None and options.checkpoints is None and options.saving is None


def _lay_out_as_asked(
    data: Dataset, problem: Problem, options: FitOptions, size: DeviceSize | None
) -> Layout:
    if isinstance(options.method, Newton):
        work = workload_of(data, problem)
        return lay_out_newton(work, options.method, options.batch_size, "as asked for")
    if size is not None:
        asked = None if options.batch_size == "auto" else int(options.batch_size)
        return device_layout(data, problem, size, options.method, asked, options.precision)
    return lay_out_as_asked(workload_of(data, problem), options.method, options.batch_size)


def _refuse_precision(data: Dataset, precision: str) -> None:
    if precision not in ("auto", "float64") and data.device_size is None:
        raise ValueError(
            f'precision must be "auto" or "float64" for engine="{data.engine}", whose steps are in'
            f' float64, not "{precision}"'
        )


def device_layout(
    data: Dataset,
    problem: Problem,
    size: DeviceSize,
    method: Method | None = None,
    batch_size: int | None = None,
    precision: str = "auto",
) -> Layout:
    """The layout on the device where the rows are; `size` is asked for once, since a driver takes
    its time to say what is free."""
    work = DeviceWork(data.n, problem.columns(data.d), data.nonzeros, problem.k, size, precision)
    return lay_out_on_device(work, method, batch_size)


def refuse_long_rows(facts: Facts, remedy: str) -> None:
    longest = float(np.sqrt(facts.largest_norm2.max()))
    if longest > MAX_UNIT_NORM:
        raise ValueError(
            f"X must have rows of norm at most 1 here, but the longest has {longest:.6g};"
            f" divide X by it, or use {remedy}"
        )
