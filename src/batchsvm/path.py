"""Models for many values of lam, each started from the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchsvm import data_inputs, inputs
from batchsvm.certificate import Certificate
from batchsvm.intercept import LinearModel, fit_linear
from batchsvm.losses import Loss
from batchsvm.shortfall import warn_if_short
from batchsvm.solution import Status


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
        lines = [f"{'lam':>10} {'primal':>10} {'gap':>9} {'epochs':>7} {'support vectors':>16}"]
        for lam, model in zip(self.lams, self.models, strict=True):
            certificate, epochs = model.solution.certificate, model.solution.history.epoch[-1]
            gap = max(0.0, certificate.gap)  # below zero by rounding alone
            lines.append(
                f"{lam:>10.4g} {certificate.primal:>10.6g} {gap:>9.2g} {epochs:>7.1f}"
                f" {certificate.support_vectors:>16,}"
            )
        return "\n".join(lines)


def read_lams(lams: Any) -> np.ndarray:
    """The values of lam as they were given."""
    values = np.atleast_1d(data_inputs.read_vector("lams", np.ravel(lams), np.size(lams)))
    if values.size == 0 or not (values > 0).all():
        raise ValueError(f"lams must hold at least one number, and positive ones, not {lams!r}")
    return values


def walk(
    X: Any, y: Any, lams: Iterable[float], initial: Any = None, **options: Any
) -> Iterator[LinearModel]:
    """Models for lams in this order, each started from the alpha of the one before.

    The box of alpha does not depend on lam.  Kept as it is, alpha needs a half to a fifth of the
    epochs of a start from zero; scaled so that w(alpha) stays, it needs more.  A model that
    Ctrl-C has stopped is the last one.
    """
    for lam in lams:
        model = fit_linear(X, y, lam=float(lam), initial=initial, **options)
        initial = model
        yield model
        if model.solution.status is Status.INTERRUPTED:
            return


def path(
    X: Any,
    y: Any,
    lams: Any,
    loss: str | Loss = "hinge",
    *,
    intercept: str | None = None,
    scaling: float = 1.0,
    max_epochs: float = 1000,
    warn: bool = True,
    **options: Any,
) -> Path:
    """Train for every lam of `lams`, from the largest to the smallest, each from the last one.

    Ctrl-C ends the path with the best certified point of the lam under way, and warns.

    Parameters
    ----------
    X, y, loss
        As for `batchsvm.fit`.
    lams : array of positive numbers
    intercept : {None, "penalised", "free"}
        No intercept, one that is penalised like the coefficients, or one that costs nothing.
    scaling : float
        The constant that a penalised intercept multiplies.
    max_epochs : float
        For each lam.
    warn : bool
        Whether to warn of each point that stopped above tol.
    **options
        Whatever else `batchsvm.fit` takes: tol, sample_weight, random_state, ...

    Returns
    -------
    Path

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [-0.5, -1.0]])
    >>> path = batchsvm.path(X, [1, 1, 0, 0], [1.0, 0.1, 0.01], tol=1e-4, random_state=0)
    >>> all(certificate.relative_gap <= 1e-4 for certificate in path.certificates)
    True
    >>> path.coefs.shape
    (3, 2)
    """
    lams = read_lams(lams)
    inputs.choice("intercept", intercept, (None, "penalised", "free"))
    falling = np.argsort(-lams, kind="stable")
    models: list[LinearModel] = []
    X = X if hasattr(X, "shape") else np.asarray(X, dtype=np.float64)
    walked = walk(
        X, y, lams[falling], loss=loss, intercept=intercept, scaling=scaling,
        max_epochs=max_epochs, warn=False, **options,
    )  # fmt: skip
    try:
        models.extend(walked)
    except KeyboardInterrupt:  # before the lam under way had a certified point
        if not models:
            raise
    if warn:
        for model in models[:-1]:
            warn_if_short(model.solution, max_epochs)
        warn_if_short(models[-1].solution, max_epochs, _left_out(len(models), lams.size))
    found = np.argsort(falling[: len(models)])
    models = [models[k] for k in found]
    lams = lams[np.sort(falling[: len(models)])]
    coefs = np.array([model.coef for model in models])
    intercepts = np.array([model.intercept for model in models])
    return Path(lams, coefs, intercepts, tuple(models))


def _left_out(trained: int, count: int) -> str:
    if trained == count:
        return ""
    return f"Ctrl-C ended the path: it has the {trained} largest of {count} values of lam."
