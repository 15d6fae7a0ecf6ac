"""Models for many values of lam, each started from the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from batchsvm.core.certificate import Certificate
from batchsvm.core.convergence_warning import warn_unless_converged
from batchsvm.core.intercept import Intercept, LinearStart, fit_linear
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem
from batchsvm.core.solution import LinearModel, Status

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset


@dataclass(frozen=True, eq=False)
class Path:
    """One certified model for each lam, in the order in which they were asked for.

    After Ctrl-C it has those values of lam alone that were begun.

    Attributes
    ----------
    lams : ndarray of shape (k,)
    coefs : ndarray of shape (k, d)
    intercepts : ndarray of shape (k,)
    models : tuple of LinearModel
        Each with its `solution`: alpha, history, status, plan.
    """

    lams: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    models: tuple[LinearModel, ...]

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        return tuple(model.solution.certificate for model in self.models)

    def __str__(self) -> str:
        lines = [f"{'lam':>10} {'primal':>10} {'bound':>9} {'epochs':>7} {'support vectors':>16}"]
        for lam, model in zip(self.lams, self.models, strict=True):
            certificate, epochs = model.solution.certificate, model.solution.history.epoch[-1]
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
        if model.solution.status is Status.INTERRUPTED:
            return


def train_path(
    data: Dataset,
    problem: Problem,
    lams: np.ndarray,
    options: FitOptions,
    intercept: Intercept,
    start: LinearStart,
) -> Path:
    """The path over all lams, from the largest to the smallest."""
    falling = np.argsort(-lams, kind="stable")
    models: list[LinearModel] = []
    try:
        models.extend(train_along(data, problem, lams[falling], options, intercept, start))
    except KeyboardInterrupt:  # before the lam under way had a certified point
        if not models:
            raise
    found = np.argsort(falling[: len(models)])
    models = [models[k] for k in found]
    lams = lams[np.sort(falling[: len(models)])]
    coefs = np.array([model.coef for model in models])
    intercepts = np.array([model.intercept for model in models])
    return Path(lams, coefs, intercepts, tuple(models))


def warn_of_path(path: Path, count: int, max_epochs: float) -> None:
    """Warn of each point that stopped above tol, and of values of lam that Ctrl-C left out."""
    also = ""
    if len(path.models) < count:
        also = (
            f"Ctrl-C ended the path: it has the {len(path.models)} largest of {count} values of"
            " lam."
        )
    last = int(np.argmin(path.lams))
    for k, model in enumerate(path.models):
        warn_unless_converged(model.solution, max_epochs, also if k == last else "")
