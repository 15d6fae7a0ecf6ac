"""What fit, fit_many, path and the estimators share: how to train, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from batchsvm.core import checks
from batchsvm.core.saving import Saving
from batchsvm.methods import Method

PRECISIONS = ("tf32", "float32", "float64")  # from the fastest to the most exact


@dataclass(frozen=True)
class FitOptions:
    """How to train; `read_options` checks it.

    Attributes
    ----------
    method : Method or None
        None is "auto".
    batch_size : int or "auto"
    tol, max_epochs : float
    goal : callable or None
        From the smallest P that was seen to the bound at which to stop, in the place of tol, for a
        penalised problem of a free intercept.
    proves : bool
        Whether what is returned is certified.  Otherwise a reliable estimate of the gap may end
        training: the joint problem of a free intercept is certified.
    averaging : {None, "tail", "decay"}
    checkpoints : iterable of int, or None
        The iterations to certify after; None leaves them to the loop.
    precision : {"auto", "tf32", "float32", "float64"}
        Of the products in the steps, on the gpu engine.
    callback : callable or None
        Called with the number of the problem and a `Checkpoint`.
    saving : Saving or None
        Where the state of the training is saved, and goes on from.
    """

    method: Method | None = None
    batch_size: int | str = "auto"
    tol: float = 1e-3
    max_epochs: float = 1000.0
    averaging: str | None = None
    checkpoints: Iterable[int] | None = None
    callback: Callable[[int, Any], Any] | None = None
    goal: Callable[[float], float] | None = None
    proves: bool = True
    precision: str = "auto"
    saving: Saving | None = None


def read_options(
    method: Any = "auto",
    batch_size: Any = "auto",
    tol: Any = 1e-3,
    max_epochs: Any = 1000,
    averaging: Any = None,
    checkpoints: Any = "auto",
    precision: Any = "auto",
) -> FitOptions:
    """The options, each refused with a sentence if it is not allowed."""
    chosen = checks.read_method(method)
    tol = checks.read_tol(tol)
    max_epochs = checks.number("max_epochs", max_epochs, checks.POSITIVE, 0.0)
    averaging = checks.read_averaging(averaging, chosen)
    asked = checks.read_checkpoints(checkpoints, averaging)
    checks.choice("precision", precision, ["auto", *PRECISIONS])
    return FitOptions(
        chosen, batch_size, tol, max_epochs, averaging, asked, precision=str(precision)
    )


def refuse_no_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable or None, not {checks.shown(callback)}")


def for_one(callback: Any) -> Callable[[int, Any], Any] | None:
    """A callback of one problem as one of many; refused if it cannot be called as such."""
    refuse_no_callback(callback)
    if callback is None:
        return None
    _refuse_signature(callback, 1, "one argument, a Checkpoint, for one problem")
    return lambda k, seen: callback(seen)


def for_many(callback: Any) -> Callable[[int, Any], Any] | None:
    """A callback of many problems; refused if it cannot be called as such."""
    refuse_no_callback(callback)
    if callback is not None:
        words = "two arguments, the number of a problem and a Checkpoint, for many problems"
        _refuse_signature(callback, 2, words)
    return callback


def _refuse_signature(callback: Any, count: int, words: str) -> None:
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):  # of a function in C, which does not tell
        return
    try:
        signature.bind(*range(count))
    except TypeError:
        raise ValueError(f"callback must take {words}, but it takes {signature}") from None
