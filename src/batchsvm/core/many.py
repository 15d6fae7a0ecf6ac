"""Many problems over the same rows: in one trainer where the engine takes many, else side by side
on the threads of the data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.dual import host_alpha
from batchsvm.core.intercept import Intercept, LinearStart, fit_linear
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag, in_parallel
from batchsvm.core.problem import Problem
from batchsvm.core.solution import LinearModel
from batchsvm.core.training import Start, train

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset, Dual


def train_many(
    data: Dataset,
    problem: Problem,
    options: FitOptions,
    intercept: Intercept,
    seed: int,
    initial: Sequence[LinearStart] | None = None,
    done: Callable[[int, LinearModel], None] = lambda k, model: None,
) -> list[LinearModel]:
    """A linear model for each problem; problem k has the seed + k, unless one
    trainer gives all of them one order of rows.

    `done(k, model)` is called as soon as problem k is trained, by the thread that did it.

    After Ctrl-C, what has been certified is returned if each problem has a certified point, and
    KeyboardInterrupt is raised if one has none.
    """
    starts = [
        replace(initial[k] if initial else LinearStart(), seed=(seed + k) % 2**64)
        for k in range(problem.k)
    ]
    group, jobs = trained_together(data, problem, options, intercept)
    if group.k > 1:
        together = _train_in_groups(data, problem, options, intercept, starts, group.k)
        for k, model in enumerate(together):
            done(k, model)
        return together
    models: list[LinearModel | None] = [None] * problem.k
    stop, outer = StopFlag(), min(problem.k, data.jobs)

    def one(k: int) -> None:
        own = replace(options, callback=_callback_of(options, k))
        with data.share(jobs) as view:
            found = fit_linear(view, problem.only(k), own, intercept, starts[k], stop)
        models[k] = found
        done(k, found)
        if found.solution.status.ends_all:
            raise KeyboardInterrupt  # for the others

    try:
        in_parallel(one, problem.k, outer, stop)
    except KeyboardInterrupt:
        missing = models.count(None)
        if missing:
            raise KeyboardInterrupt(
                f"{missing} of {problem.k} fits had no certified point yet, so that nothing was"
                " fitted"
            ) from None
    return [model for model in models if model is not None]


def trained_together(
    data: Dataset, problem: Problem, options: FitOptions, intercept: Intercept
) -> tuple[Problem, int]:
    """The first problems that are trained by one trainer, and its threads."""
    at_once = data.problems_at_once(options.method)
    if problem.k > 1 and at_once > 1 and intercept.kind != "free":
        return problem.some(range(int(min(problem.k, at_once)))), data.jobs
    return problem.only(0), data.jobs // min(problem.k, data.jobs)


def _train_in_groups(
    data: Dataset,
    problem: Problem,
    options: FitOptions,
    intercept: Intercept,
    starts: Sequence[LinearStart],
    size: int,
) -> list[LinearModel]:
    """So many problems in one trainer, one group after another."""
    models: list[LinearModel] = []
    for first in range(0, problem.k, size):
        which = range(first, min(first + size, problem.k))
        group = problem if size == problem.k else problem.some(which)
        own = replace(options, callback=_callback_from(options, first))
        found = _train_together(data, group, own, intercept, [starts[k] for k in which])
        # The next group needs the memory that the dual points of this one take.
        models += found if size == problem.k else [model.fetched() for model in found]
        if any(model.solution.status.ends_all for model in models):
            break
    if len(models) < problem.k:
        raise KeyboardInterrupt(
            f"{problem.k - len(models)} of {problem.k} fits had not begun, so that nothing was"
            " fitted"
        )
    return models


def _callback_from(options: FitOptions, first: int) -> Any:
    """The callback of a group of problems that begins with this one."""
    callback = options.callback
    if callback is None or first == 0:
        return callback
    return lambda k, seen: callback(first + k, seen)


def _train_together(
    data: Dataset,
    problem: Problem,
    options: FitOptions,
    intercept: Intercept,
    starts: Sequence[LinearStart],
) -> list[LinearModel]:
    biased = intercept.penalise(problem)
    points = joined_points(data, [start.point for start in starts])
    begin = Start(starts[0].seed, points)
    solutions = train(data, biased, options, begin)
    return [intercept.model_of(solution) for solution in solutions]


def joined_points(
    data: Dataset, points: Sequence[np.ndarray | Dual | None]
) -> np.ndarray | Dual | None:
    """The dual points of all problems as one, in the engine's memory if all of them are there."""
    if all(point is None for point in points):
        return None
    handles = [p for p in points if p is not None and not isinstance(p, np.ndarray)]
    if len(handles) == len(points) and all(data.owns(handle) for handle in handles):
        return data.joined_dual(handles)
    return np.hstack([np.zeros((data.n, 1)) if p is None else host_alpha(p) for p in points])


def _callback_of(options: FitOptions, k: int) -> Any:
    callback = options.callback
    return None if callback is None else lambda _, seen: callback(k, seen)
