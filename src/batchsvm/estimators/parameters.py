"""The parameters of an estimator, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from batchsvm import inputs
from batchsvm.intercept import INTERCEPTS
from batchsvm.losses import LOSSES, Loss

DEFAULT_C = 1.0  # of LinearSVC and LinearSVR
DEFAULT_STREAM_LAM = 1e-4  # of SGDClassifier and SGDRegressor
POSITIVE = "a finite positive number"


@dataclass(frozen=True)
class Settings:
    """What an estimator is to train, and how."""

    loss: Loss
    lam: float | None  # lam and C are not both given
    C: float | None
    intercept: str | None
    scaling: float
    method: Any
    batch_size: int | str
    tol: float
    max_epochs: float
    jobs: int
    verbose: int

    def lam_for(self, total_weight: float) -> float:
        """lam for examples of this total weight: C = 1/(lam sum_i c_i)."""
        if self.lam is not None:
            return self.lam
        return 1.0 / ((DEFAULT_C if self.C is None else self.C) * total_weight)

    @property
    def bias(self) -> float | None:
        """The constant column of a penalised intercept."""
        return self.scaling if self.intercept == "penalised" else None

    def options(self, jobs: int) -> dict[str, Any]:
        """What `fit_linear` is told."""
        return {
            "loss": self.loss,
            "intercept": self.intercept,
            "scaling": self.scaling,
            "method": self.method,
            "batch_size": self.batch_size,
            "tol": self.tol,
            "max_epochs": self.max_epochs,
            "n_jobs": jobs,
            "warn": False,
        }


def read_settings(estimator: Any, task: str) -> Settings:
    """The settings of an estimator for "classification" or "regression"."""
    lam, C = getattr(estimator, "lam", None), getattr(estimator, "C", None)
    if lam is not None and C is not None:
        raise ValueError(
            f"lam and C must not both be given, but lam is {lam!r} and C is {C!r}:"
            " one is the other, C = 1/(lam * sum of the sample weights)"
        )
    lam = None if lam is None else inputs.number("lam", lam, POSITIVE, 0.0)
    C = None if C is None else inputs.number("C", C, POSITIVE, 0.0)
    inputs.choice("fit_intercept", estimator.fit_intercept, (True, False))
    inputs.choice("intercept", estimator.intercept, INTERCEPTS[1:])
    scaling = inputs.number("intercept_scaling", estimator.intercept_scaling, POSITIVE, 0.0)
    inputs.read_method(estimator.method)
    if estimator.batch_size != "auto":
        words = "'auto' or an integer from 1 to the number of rows"
        inputs.whole("batch_size", estimator.batch_size, 1, 2**62, words)
    inputs.choice("warm_start", getattr(estimator, "warm_start", False), (True, False))
    words = "a finite number that is not negative"
    return Settings(
        loss=read_loss(estimator, task),
        lam=lam,
        C=C,
        intercept=estimator.intercept if estimator.fit_intercept else None,
        scaling=scaling,
        method=estimator.method,
        batch_size=estimator.batch_size,
        tol=inputs.number("tol", estimator.tol, words, -1e-300),
        max_epochs=inputs.number("max_epochs", estimator.max_epochs, POSITIVE, 0.0),
        jobs=inputs.read_jobs(estimator.n_jobs),
        verbose=read_verbose(estimator.verbose),
    )


def read_verbose(verbose: Any) -> int:
    words = "0 for silence or a positive integer for a progress bar"
    return inputs.whole("verbose", int(verbose) if verbose in (True, False) else verbose, 0, 2**31,
                        words)  # fmt: skip


def read_loss(estimator: Any, task: str) -> Loss:
    """The loss, by name or as an object; it must be one for this task."""
    given = estimator.loss
    if isinstance(given, str) or not hasattr(given, "_fields"):
        inputs.choice("loss", given, [name for name, kind in LOSSES.items() if kind().task == task])
        given = LOSSES[given](**estimator._loss_parameters(given))
    loss = inputs.read_loss(given)
    if loss.task != task:
        name = type(loss).__name__
        raise ValueError(f"loss must be one for {task}, not {name}, which is for {loss.task}")
    return loss


def read_seed(random_state: Any) -> int:
    """A seed; None draws it from NumPy's global generator, as everywhere in scikit-learn."""
    if random_state is None:
        random_state = check_random_state(None)
    return inputs.read_seed(random_state)


def total_weight(weights: np.ndarray | None, n: int) -> float:
    return float(n if weights is None else weights.sum())
