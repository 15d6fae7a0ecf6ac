"""What a fit returns: the point, its certificate, how it got there and why it stopped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from batchsvm.core.certificate import Certificate
from batchsvm.core.dual import DroppedDual, dual_of
from batchsvm.core.planning import Plan, method_in_words
from batchsvm.losses import Loss
from batchsvm.methods import Method

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dual


class Status(Enum):
    """Why training stopped; each member's value is its sentence."""

    CONVERGED = "the proven bound is within tol"
    PRECISION = "the gap is below its own rounding error, so that a smaller one proves nothing"
    ROUNDED = "the bound was within tol until the model was rounded to float32, as X is"
    MAX_EPOCHS = "max_epochs was reached before the bound was within tol"
    DIVERGED = "the iterates grew beyond all bounds"
    STOPPED = "the callback asked to stop"
    INTERRUPTED = "interrupted from the keyboard; this is the best certified point until then"
    DATA_LOST = "the data could not be read any more; this is the best certified point until then"

    @property
    def converged(self) -> bool:
        return self is Status.CONVERGED

    @property
    def ends_all(self) -> bool:
        """Whether fits that would come after this one are not to begin."""
        return self in (Status.INTERRUPTED, Status.DATA_LOST)


def no_estimates() -> np.ndarray:
    """The estimates of an engine that makes none."""
    return np.zeros((0, 2))


@dataclass(frozen=True, eq=False)
class History:
    """One entry per checkpoint, as arrays; entry 0 is the starting point.

    `seconds` is time spent optimising, `certify_seconds` time spent on certificates, both
    since the start and without compiling.  `beta` is the beta in force (NaN for Pegasos),
    `refused` the number of steps that the aggressive rule has refused so far.  `primal` and
    `dual` are those of the checkpoint's own w and alpha; `gap` is that of the best w and the best
    alpha until then, which a fit that ended there would return.

    `estimates` has a row for each epoch, or for some of many: epochs so far, and the gap at its
    end, as far as the visits of the epoch show it.  They cost nothing and prove nothing.  An
    engine may have none.
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
    estimates: np.ndarray = field(default_factory=no_estimates)

    def __len__(self) -> int:
        return self.iteration.size


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The argument of a callback.

    `w` is the certified point and `iterate` the last iterate, which is the same unless iterates
    are averaged or a mean of recent ones is better.  Both are read-only views: copy them to keep
    them.
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
        The linear predictor: of all certified points, the one with the smallest primal.
    dual : Dual
        The dual point that certifies it: of all certified points, the one with the largest dual,
        which may come from another checkpoint.  It is in the memory of the engine.
    alpha : ndarray of shape (n,)
        The dual point on this host, fetched when it is first used.
    certificate : Certificate
        Primal, dual and gap of (w, alpha), computed from scratch.
    history : History
        The certificates during training.
    status : Status
        Why training stopped.
    plan : Plan
        sigma^2, the table of batch sizes, and the reason for the one used.
    classes : ndarray or None
        The labels that stand for -1 and +1 (classification), or the only label.
    loss, lam, method, batch_size
        The settings of the fit; the method and the batch size are those that training ended with.
    free_intercept : bool
        Whether the model has an intercept that is not penalised and is not part of w.
    """

    w: np.ndarray = field(repr=False)
    dual: Dual = field(repr=False)
    certificate: Certificate
    history: History = field(repr=False)
    status: Status
    plan: Plan = field(repr=False)
    classes: np.ndarray | None
    loss: Loss
    lam: float
    method: Method
    batch_size: int
    free_intercept: bool = False

    @cached_property
    def alpha(self) -> np.ndarray:
        return self.dual.fetch()[:, 0]

    def fetched(self) -> Solution:
        """The solution with its dual point on this host, which outlives the engine's memory."""
        kept = isinstance(self.dual, DroppedDual)
        return replace(self, dual=self.dual if kept else dual_of(self.alpha))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: no memory of an engine."""
        return dict(vars(self.fetched()))

    def __str__(self) -> str:
        name = method_in_words(self.method.name, self.batch_size)
        name = name if name != self.method.name else f"{name}, batch size {self.batch_size}"
        if self.plan.fallback == self.method.name:
            name = f"{self.plan.method_in_words}, then {name}"
        epochs = f"{self.history.epoch[-1]:.4g}"
        return (
            f"{name}: {self.status.value}, after"
            f" {epochs} epoch{'s' * (epochs != '1')} and {self.history.seconds[-1]:.3g} s\n"
            f"{self.certificate}"
        )

    def save(self, path: str | os.PathLike[str], y: Any = None) -> None:
        """Write a model file (docs/model_file.md), atomically.

        With `y`, the labels of the training data, the file contains a digest of them.
        """
        from batchsvm.models import save

        save(self, path, y)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Solution:
        """The solution that `save` wrote; `batchsvm.load` reads every kind of model."""
        from batchsvm.models import Model

        return cls.from_model(Model.load(path))

    @classmethod
    def from_model(cls, model: Any) -> Solution:
        """The solution that a model of one fit without an intercept came from."""
        from batchsvm.models import solution_of_model

        return solution_of_model(model)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """<coef, x> + intercept, and the solution that certifies it.

    `solution.w` is `coef`; with a penalised intercept it has one more entry, intercept/scaling.
    """

    coef: np.ndarray
    intercept: float
    solution: Solution

    def fetched(self) -> LinearModel:
        """The model with its dual point on this host."""
        return replace(self, solution=self.solution.fetched())

    def without_alpha(self) -> LinearModel:
        """The model without its dual point, whose memory is given back."""
        dual = DroppedDual(self.solution.lam)
        return replace(self, solution=replace(self.solution, dual=dual))


class Solutions(Sequence[Solution]):
    """The solutions of many problems over the same rows, in their order.

    Attributes
    ----------
    coef : ndarray of shape (K, d)
    intercept : ndarray of shape (K,)
    certificates : tuple of Certificate
    worst : Certificate
        The one with the largest relative gap.
    classes : ndarray or None
        The labels, where classes were trained one against the rest.
    """

    def __init__(self, models: Sequence[LinearModel], classes: np.ndarray | None = None) -> None:
        self.models = tuple(models)
        self.classes = classes
        self.coef = np.array([model.coef for model in self.models])
        self.intercept = np.array([model.intercept for model in self.models])

    @overload
    def __getitem__(self, k: int) -> Solution: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Solution]: ...
    def __getitem__(self, k: int | slice) -> Solution | Sequence[Solution]:
        if isinstance(k, slice):
            return [model.solution for model in self.models[k]]
        return self.models[k].solution

    def __len__(self) -> int:
        return len(self.models)

    @property
    def worst_solution(self) -> Solution:
        """The one with the largest relative gap."""
        return max(self, key=lambda solution: solution.certificate.relative_gap)

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        return tuple(solution.certificate for solution in self)

    @property
    def worst(self) -> Certificate:
        return self.worst_solution.certificate

    @property
    def names(self) -> list[str]:
        """A word for each problem: its class, or its number."""
        if self.classes is not None and len(self.classes) == len(self) > 1:
            return [repr(label) for label in self.classes.tolist()]
        return [str(k) for k in range(len(self))]

    def __str__(self) -> str:
        converged = sum(solution.status.converged for solution in self)
        return f"{len(self)} problems, {converged} within tol; the worst: {self.worst}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"
