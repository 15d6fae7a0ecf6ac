"""The parameters of an estimator, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from batchsvm.core import checks
from batchsvm.core.intercept import INTERCEPTS, Intercept
from batchsvm.core.options import FitOptions, read_options
from batchsvm.engines import ENGINES
from batchsvm.losses import LOSSES, Loss

DEFAULT_C = 1.0  # of LinearSVC and LinearSVR
DEFAULT_STREAM_LAM = 1e-4  # of SGDClassifier and SGDRegressor


@dataclass(frozen=True)
class Settings:
    """What an estimator is to train, and how."""

    loss: Loss
    lam: float | None  # lam and C are not both given
    C: float | None
    intercept: Intercept
    options: FitOptions
    engine: str
    device: int | None
    n_jobs: int | None
    verbose: int

    def lam_for(self, total_weight: float) -> float:
        """lam for examples of this total weight: C = 1/(lam sum_i c_i)."""
        if self.lam is not None:
            return self.lam
        C = DEFAULT_C if self.C is None else self.C
        product = C * total_weight
        if not checks.LEAST_LAM <= product <= 1.0 / checks.LEAST_LAM:
            raise ValueError(
                f"C must give a lam = 1/(C * sum of the weights) between {checks.LEAST_LAM:.2g} and"
                f" {1.0 / checks.LEAST_LAM:.2g}, not {C!r} with weights of sum {total_weight!r}"
            )
        return 1.0 / product

    def for_placed(self) -> Settings:
        """For data that were placed with these settings."""
        return replace(self, engine="auto", device=None, n_jobs=None)

    @property
    def bias(self) -> float | None:
        """The constant column of a penalised intercept."""
        return self.intercept.scaling if self.intercept.kind == "penalised" else None


def read_settings(estimator: Any, task: str) -> Settings:
    """The settings of an estimator for "classification" or "regression"."""
    lam, C = getattr(estimator, "lam", None), getattr(estimator, "C", None)
    if lam is not None and C is not None:
        raise ValueError(
            f"lam and C must not both be given, but lam is {lam!r} and C is {C!r}:"
            " one is the other, C = 1/(lam * sum of the sample weights)"
        )
    lam = None if lam is None else checks.read_lam("lam", lam)
    C = None if C is None else checks.number("C", C, checks.POSITIVE, 0.0)
    checks.choice("fit_intercept", estimator.fit_intercept, (True, False))
    checks.choice("intercept", estimator.intercept, INTERCEPTS[1:])
    scaling = checks.read_column("intercept_scaling", estimator.intercept_scaling)
    checks.choice("warm_start", getattr(estimator, "warm_start", False), (True, False))
    if not checks.is_word(estimator.batch_size, "auto"):
        words = "'auto' or an integer from 1 to the number of rows"
        checks.whole("batch_size", estimator.batch_size, 1, 2**62, words)
    options = read_options(
        estimator.method, estimator.batch_size, estimator.tol, estimator.max_epochs,
        precision=estimator.precision,
    )  # fmt: skip
    checks.choice("engine", estimator.engine, ["auto", *ENGINES])
    checks.read_jobs(estimator.n_jobs)
    return Settings(
        loss=read_loss(estimator, task),
        lam=lam,
        C=C,
        intercept=Intercept(estimator.intercept if estimator.fit_intercept else None, scaling),
        options=options,
        engine=estimator.engine,
        device=checks.read_device(estimator.device),
        n_jobs=estimator.n_jobs,
        verbose=checks.read_verbose(estimator.verbose),
    )


def read_loss(estimator: Any, task: str) -> Loss:
    """The loss, by name or as an object; it must be one for this task."""
    given = estimator.loss
    if isinstance(given, str) or not hasattr(given, "_fields"):
        checks.choice("loss", given, [name for name, kind in LOSSES.items() if kind().task == task])
        given = LOSSES[given](**estimator._loss_parameters(given))
    loss = checks.read_loss(given)
    if loss.task != task:
        name = type(loss).__name__
        raise ValueError(f"loss must be one for {task}, not {name}, which is for {loss.task}")
    return loss


def read_seed(random_state: Any) -> int:
    """A seed; None draws it from NumPy's global generator, as everywhere in scikit-learn."""
    if random_state is None:
        random_state = check_random_state(None)
    return checks.read_seed(random_state)


def total_weight(weights: np.ndarray | None, n: int) -> float:
    return float(n if weights is None else weights.sum())
