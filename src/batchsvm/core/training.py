"""Training K problems on placed data: choose how, run the loop, return solutions."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from batchsvm.core import data_checks
from batchsvm.core.blas_threads import blas_threads
from batchsvm.core.choice import WITHOUT_BETA_B, choose, refuse_options
from batchsvm.core.dual import host_alpha
from batchsvm.core.layout import Layout, Schedule, Workload, keeps_recent_mean, workload_of
from batchsvm.core.loop import Loop
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.planning import Plan
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.saving import Resumable, refuse_engine
from batchsvm.core.solution import Solution
from batchsvm.core.spectral import beta_b
from batchsvm.methods import Newton

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset, Dual, Trainer


@dataclass(frozen=True)
class Start:
    """Where training starts."""

    seed: int
    alpha: np.ndarray | Dual | None = None  # (n, K)


def train(
    data: Dataset,
    problem: Problem,
    options: FitOptions,
    start: Start,
    stop: StopFlag | None = None,
) -> list[Solution]:
    """Train up to `data.problems_at_once` problems; problem k has the seed + k, unless the trainer
    gives all of them one order of rows."""
    refuse_options(data, problem, options)
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
    layout, plan = choose(data, problem, trainer.facts, options)
    if isinstance(layout.method, Newton):
        trainer = data.newton_trainer(problem, trainer)
    schedule, resumed = _schedule(work, layout, plan, options, start.seed), None
    if saving is not None and goes_on:
        assert isinstance(trainer, Resumable)
        resumed = trainer.resume(schedule, saving)
    else:
        trainer.start(schedule, dual)
    rows, stop = min(plan.batch_size * plan.batches, plan.n), stop or StopFlag()
    loop = Loop(data, problem, trainer, rows, options, layout.trial)
    method, batch_size = layout.method, plan.batch_size
    with ExitStack() as stack:
        if isinstance(method, Newton):
            stack.enter_context(blas_threads(data.jobs))
        loop.train(dual is not None, stop, resumed)
        if loop.changes_over:
            by_newton = replace(schedule, method=Newton(), batch_size=plan.n)

            def follow(best: Dual) -> Trainer:
                stack.enter_context(blas_threads(data.jobs))
                newton = data.newton_trainer(problem, trainer)
                newton.start(by_newton, best)
                return newton

            loop.go_on_with(follow, stop)
            if loop.trainer is not trainer:
                method, batch_size = by_newton.method, by_newton.batch_size
    W, best = loop.trainer.best()
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
                method, batch_size,
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
    unaware = b == 1 or isinstance(method, WITHOUT_BETA_B)
    return Schedule(
        method=method,
        batch_size=b,
        workers=plan.workers,
        batches=plan.batches,
        beta_b=1.0 if unaware else beta_b(b, plan.n, plan.sigma2),
        averaging=options.averaging,
        recent_mean=open_choice and keeps_recent_mean(work, b, method),
        seed=seed,
        precision=options.precision,
        keeps_gram=layout.keeps_gram,
    )
