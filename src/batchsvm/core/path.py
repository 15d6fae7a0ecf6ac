"""Models for many values of lam, each started from the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from batchsvm.core.certificate import Certificate
from batchsvm.core.convergence_warning import (
    convergence_problem,
    problems_sentence,
    warn_of_convergence,
)
from batchsvm.core.intercept import Intercept, LinearStart, fit_linear
from batchsvm.core.many import train_many
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem
from batchsvm.core.solution import LinearModel, Solutions

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset

ALPHAS = ("auto", "all", "last")


@dataclass(frozen=True, eq=False)
class Path:
    """Certified models for each lam, in the order in which they were asked for.

    After Ctrl-C it has those values of lam alone that were begun.

    Attributes
    ----------
    lams : ndarray of shape (L,)
    coefs : ndarray of shape (L, d), or (L, K, d) of K problems
    intercepts : ndarray of shape (L,), or (L, K)
    models : tuple of LinearModel, or of Solutions
        A `LinearModel` has its `solution`: alpha, history, status, plan.  `Solutions` are those
        of K problems.
    """

    lams: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    models: tuple[LinearModel | Solutions, ...]

    @property
    def certificates(self) -> tuple[Certificate | tuple[Certificate, ...], ...]:
        """The certificate of each lam, or those of its K problems."""
        return tuple(
            model.solution.certificate if isinstance(model, LinearModel) else model.certificates
            for model in self.models
        )

    def __str__(self) -> str:
        """A line for each lam; of many problems, it is that of the worst."""
        lines = [f"{'lam':>10} {'primal':>10} {'bound':>9} {'epochs':>7} {'support vectors':>16}"]
        for lam, model in zip(self.lams, self.models, strict=True):
            solution = model.solution if isinstance(model, LinearModel) else model.worst_solution
            certificate, epochs = solution.certificate, solution.history.epoch[-1]
            lines.append(
                f"{lam:>10.4g} {certificate.primal:>10.6g} {certificate.bound:>9.2g} {epochs:>7.1f}"
                f" {certificate.support_vectors:>16,}"
            )
        return "\n".join(lines)


def train_along(
    data: Dataset,
    problem: Problem,
    lams: Iterable[float],
    options: FitOptions,
    intercept: Intercept,
    start: LinearStart,
    stop: StopFlag | None = None,
) -> Iterator[LinearModel]:
    """Models for lams in this order, each started from the alpha of the one before.

    The box of alpha does not depend on lam.  Kept as it is, alpha needs a half to a fifth of the
    epochs of a start from zero; scaled so that w(alpha) stays, it needs more.  A model that
    Ctrl-C has stopped is the last one.
    """
    for lam in lams:
        own = replace(problem, lam=np.array([float(lam)]))
        model = fit_linear(data, own, options, intercept, start, stop)
        start = replace(start, alpha=model.solution.dual, intercept=model.intercept)
        yield model
        if model.solution.status.ends_all:
            return


def train_many_along(
    data: Dataset,
    problem: Problem,
    lams: Iterable[float],
    options: FitOptions,
    intercept: Intercept,
    seed: int,
) -> Iterator[list[LinearModel]]:
    """As `train_along`, for K problems that have the same lam at a time."""
    starts: list[LinearStart] | None = None
    for lam in lams:
        own = replace(problem, lam=np.full(problem.k, float(lam)))
        models = train_many(data, own, options, intercept, seed, starts)
        starts = [LinearStart(alpha=m.solution.dual, intercept=m.intercept) for m in models]
        yield models
        if any(model.solution.status.ends_all for model in models):
            return


def train_path(
    data: Dataset,
    problem: Problem,
    lams: np.ndarray,
    options: FitOptions,
    intercept: Intercept,
    seed: int,
    alphas: str = "auto",
) -> tuple[np.ndarray, list[list[LinearModel]]]:
    """The models of each lam, trained from the largest to the smallest, in the order of `lams`; and
    these, or those that Ctrl-C has left.

    `alphas` says whether the dual points of all of them are kept, or those of the last one alone.
    """
    falling = np.argsort(-lams, kind="stable")
    steps: Iterator[list[LinearModel]]
    if problem.k == 1:
        start = LinearStart(seed)
        alone = train_along(data, problem, lams[falling], options, intercept, start)
        steps = ([model] for model in alone)
    else:
        steps = train_many_along(data, problem, lams[falling], options, intercept, seed)
    keeps_all = data.keeps_all_alphas if alphas == "auto" else alphas == "all"
    found: list[list[LinearModel]] = []
    try:
        for models in steps:
            if found and not keeps_all:
                found[-1] = [model.without_alpha() for model in found[-1]]
            found.append(models)
    except KeyboardInterrupt:  # before the lam under way had a certified point
        if not found:
            raise
    order = np.argsort(falling[: len(found)])
    return lams[np.sort(falling[: len(found)])], [found[j] for j in order]


def make_path(
    lams: np.ndarray, steps: Sequence[Sequence[LinearModel]], classes: np.ndarray | None
) -> Path:
    """The path of one problem or of many."""
    coefs = np.array([[model.coef for model in models] for models in steps])
    intercepts = np.array([[model.intercept for model in models] for models in steps])
    if coefs.shape[1] == 1:
        return Path(lams, coefs[:, 0], intercepts[:, 0], tuple(models[0] for models in steps))
    return Path(lams, coefs, intercepts, tuple(Solutions(models, classes) for models in steps))


def warn_of_path(path: Path, count: int, max_epochs: float) -> None:
    """Warn of each lam where training stopped above tol, and of those that Ctrl-C left out."""
    also = ""
    if len(path.models) < count:
        also = (
            f"Ctrl-C ended the path: it has the {len(path.models)} largest of {count} values of"
            " lam."
        )
    last = int(np.argmin(path.lams))
    for j, model in enumerate(path.models):
        words = [_sentence(model, max_epochs), also if j == last else ""]
        if any(words):
            warn_of_convergence(" ".join(word for word in words if word))


def _sentence(model: LinearModel | Solutions, max_epochs: float) -> str | None:
    """What is to be said of one lam."""
    if isinstance(model, LinearModel):
        return convergence_problem(model.solution, max_epochs)
    what = "problems" if model.classes is None else "classes"
    return problems_sentence(model, model.names, max_epochs, what=what)
