"""What fit, fit_many, path and the estimators share: how to train, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from batchsvm.core import checks
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
    goal : float or None
        The bound at which to stop, in the place of tol.
    averaging : {None, "tail", "decay"}
    checkpoints : iterable of int, or None
        The iterations to certify after; None leaves them to the loop.
    precision : {"auto", "tf32", "float32", "float64"}
        Of the products in the steps, on the gpu engine.
    callback : callable or None
        Called with the number of the problem and a `Checkpoint`.
    """

    method: Method | None = None
    batch_size: int | str = "auto"
    tol: float = 1e-3
    max_epochs: float = 1000.0
    averaging: str | None = None
    checkpoints: Iterable[int] | None = None
    callback: Callable[[int, Any], Any] | None = None
    goal: float | None = None
    precision: str = "auto"


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


def for_one(callback: Any) -> Callable[[int, Any], Any] | None:
    """A callback of one problem as one of many; refused if it cannot be called."""
    if callback is None:
        return None
    if not callable(callback):
        raise ValueError(f"callback must be callable or None, not {checks.shown(callback)}")
    return lambda k, seen: callback(seen)
