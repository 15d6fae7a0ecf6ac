"""What a fit returns: the point, its certificate, how it got there and why it stopped."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from batchsvm.certificate import Certificate
from batchsvm.losses import Loss
from batchsvm.methods import METHODS, DualMethod, Method
from batchsvm.model import Model, model_of_solution
from batchsvm.planning import Plan


class Status(Enum):
    """Why training stopped; each member's value is its sentence."""

    CONVERGED = "the certified gap is within tol"
    PRECISION = "the gap is below its own rounding error, so that a smaller one proves nothing"
    MAX_EPOCHS = "max_epochs was reached before the gap was within tol"
    DIVERGED = "the iterates grew beyond all bounds"
    STOPPED = "the callback asked to stop"
    INTERRUPTED = "interrupted from the keyboard; this is the best certified point until then"

    @property
    def converged(self) -> bool:
        return self is Status.CONVERGED


@dataclass(frozen=True, eq=False)
class History:
    """One entry a checkpoint, as arrays; entry 0 is the starting point.

    `seconds` is time spent optimising, `certify_seconds` time spent on certificates, both
    since the start and without compiling.  `beta` is the beta in force (NaN for Pegasos),
    `refused` the number of steps that the aggressive rule has refused so far.
    """

    iteration: np.ndarray
    epoch: np.ndarray
    seconds: np.ndarray
    certify_seconds: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    gap: np.ndarray
    beta: np.ndarray
    refused: np.ndarray

    def __len__(self) -> int:
        return self.iteration.size


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a callback is given.

    `w` is the certified point and `iterate` the last iterate, which is the same unless
    iterates are averaged or a mean of recent ones is better; both are read-only views, to be
    copied by who keeps them.
    """

    iteration: int
    epoch: float
    seconds: float
    certificate: Certificate
    w: np.ndarray = field(repr=False)
    iterate: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class Solution:
    """A trained model with its certificate.

    Attributes
    ----------
    w : ndarray of shape (d,)
        The linear predictor.
    alpha : ndarray of shape (n,)
        The dual point that certifies it.
    certificate : Certificate
        Primal, dual and gap of (w, alpha), computed from scratch.
    history : History
        The certificates along the way.
    status : Status
        Why training stopped.
    plan : Plan
        sigma^2, the table of batch sizes, and the reason for the one used.
    classes : ndarray or None
        The two labels that stand for -1 and +1 (classification), or the only one.
    loss, lam, method, batch_size
        What was trained, and how.
    """

    w: np.ndarray = field(repr=False)
    alpha: np.ndarray = field(repr=False)
    certificate: Certificate
    history: History = field(repr=False)
    status: Status
    plan: Plan = field(repr=False)
    classes: np.ndarray | None
    loss: Loss
    lam: float
    method: Method
    batch_size: int

    def __str__(self) -> str:
        serial = self.batch_size == 1 and isinstance(self.method, DualMethod)
        name = "serial SDCA" if serial else f"{self.method.name}, batch size {self.batch_size}"
        return (
            f"{name}: {self.status.value}, after"
            f" {self.history.epoch[-1]:.4g} epochs and {self.history.seconds[-1]:.3g} s\n"
            f"{self.certificate}"
        )

    def save(self, path: str | os.PathLike[str], y: Any = None) -> None:
        """Write a model file (docs/model_file.md), replacing an old one at once or not at all.

        With `y`, the labels of the training data, the file holds a digest of them.
        """
        model_of_solution(self, y).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Solution:
        """The solution that `save` wrote; `batchsvm.load` reads every kind of model."""
        return cls.from_model(Model.load(path))

    @classmethod
    def from_model(cls, model: Model) -> Solution:
        """The solution that a model of one fit without an intercept came from."""
        if model.coef.shape[0] != 1 or model.intercept_scaling or model.intercept.any():
            raise ValueError(
                "model must be of one fit without an intercept to be a Solution, not of"
                f" {model.coef.shape[0]} with intercept {model.intercept.tolist()}; load it with"
                " batchsvm.load"
            )
        for name in ("alpha", "plan", "loss", "lam", "batch_size"):
            if getattr(model, name) is None:
                raise ValueError(f"model must come from a fit, but it has no {name}")
        for name in ("certificates", "history", "statuses", "method"):
            if not getattr(model, name):
                raise ValueError(f"model must come from a fit, but it has no {name}")
        assert model.alpha is not None
        assert model.plan is not None
        assert model.loss is not None
        assert model.lam is not None
        assert model.batch_size is not None
        history = dict(model.history[0])
        for name in ("iteration", "refused"):
            history[name] = history[name].astype(np.int64)
        return cls(
            model.coef[0], model.alpha[0], model.certificates[0], History(**history),
            Status[model.statuses[0]], model.plan, model.classes, model.loss, model.lam,
            METHODS[model.method](**model.method_parameters), model.batch_size,
        )  # fmt: skip
