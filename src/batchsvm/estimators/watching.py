"""Who watches a fit: a progress bar whose measure is the gap, and scikit-learn's callbacks.

`sklearn.callback` exists from scikit-learn 1.9 on.  With an older one, estimators have no
`set_callbacks`, and everything else works.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from threading import Lock
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from batchsvm.solution import Checkpoint

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this scikit-learn has no callbacks."""

    def with_callbacks(method):
        return method


SMALLEST = 1e-16
# One of these an estimator has if somebody listens; to tell nobody takes a tenth of a millisecond.
LISTENED = ("_skl_callbacks", "_parent_callback_ctx")


class GapBar:
    """One bar for each problem; it is full when the relative gap has come down to tol.

    Between the first gap and tol it moves with the logarithm of the gap, which a linearly
    convergent method lowers at a constant rate.
    """

    def __init__(self, names: list[str], tol: float) -> None:
        self.tol = max(tol, SMALLEST)
        self.first: dict[int, float] = {}
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("gap {task.fields[gap]:.2e}, tol {task.fields[tol]:.0e}"),
            TextColumn("epoch {task.fields[epoch]:.1f}"),
            TimeElapsedColumn(),
        )
        self.tasks = [
            self.progress.add_task(name, total=1.0, start=False, gap=1.0, tol=tol, epoch=0.0)
            for name in names
        ]

    def fraction(self, k: int, gap: float) -> float:
        """How much of the way from the first gap to tol is done."""
        gap = max(gap, SMALLEST)
        first = self.first.setdefault(k, gap)
        if gap <= self.tol:
            return 1.0
        return min(max(log(first / gap) / log(first / self.tol), 0.0), 1.0)

    def show(self, k: int, seen: Checkpoint) -> None:
        gap = max(0.0, seen.certificate.relative_gap)  # below zero by rounding alone
        task = self.tasks[k]
        self.progress.start_task(task)
        done = max(self.fraction(k, gap), self.progress.tasks[k].completed)
        self.progress.update(task, completed=done, gap=gap, epoch=seen.epoch)


class Watch:
    """The watchers of one fit of one or more problems; a context manager.

    `attributes(k, w)` are the fitted attributes of the estimator as if problem k had stopped
    at w: what scikit-learn's callbacks make a fitted copy of.
    """

    def __init__(
        self,
        estimator: Any,
        names: list[str],
        X: Any,
        y: Any,
        sample_weight: Any,
        attributes: Callable[[int, np.ndarray], dict[str, Any]],
        tol: float,
        verbose: int,
    ) -> None:
        self.estimator, self.names, self.attributes = estimator, names, attributes
        self.bar = GapBar(names, tol) if verbose else None
        self.root: Any = None
        self.several = len(names) > 1
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._contexts: dict[int, Any] = {}
        self._lock = Lock()  # problems may be trained by several threads

    def __enter__(self) -> Watch:
        if self.bar is not None:
            self.bar.progress.start()
        if any(hasattr(self.estimator, name) for name in LISTENED):
            subtasks = len(self.names) if self.several else None
            self.root = self.estimator._init_callback_context(max_subtasks=subtasks)
            self.root.call_on_fit_task_begin(**self.data)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.bar is not None:
            self.bar.progress.stop()

    def finish(self, attributes: dict[str, Any]) -> None:
        """The fit is over, and left these attributes."""
        if self.root is not None:
            self.root.call_on_fit_task_end(**self.data, reconstruction_attributes=attributes)

    def callback(self, k: int) -> Callable[[Checkpoint], bool] | None:
        """What problem k calls at its certificates; None if nobody watches."""
        listens = self.root is not None and bool(getattr(self.estimator, "_skl_callbacks", None))
        if not listens and self.bar is None:
            return None

        def see(seen: Checkpoint) -> bool:
            with self._lock:
                if self.bar is not None:
                    self.bar.show(k, seen)
                return listens and self._tell(k, seen)

        return see

    def close(self, k: int, w: np.ndarray) -> None:
        """Problem k is trained."""
        with self._lock:
            context = self._contexts.get(k)
            if context is not None and self.several:
                context.call_on_fit_task_end(
                    **self.data, reconstruction_attributes=lambda: self.attributes(k, w)
                )

    def _tell(self, k: int, seen: Checkpoint) -> bool:
        if k not in self._contexts:
            context = self.root
            if self.several:
                context = self.root.subcontext(task_name=self.names[k], max_subtasks=None)
                context.call_on_fit_task_begin(**self.data)
            self._contexts[k] = context
        step = self._contexts[k].subcontext(task_name="certificate")
        step.call_on_fit_task_begin(**self.data)
        w = seen.w.copy()
        return bool(
            step.call_on_fit_task_end(
                **self.data, reconstruction_attributes=lambda: self.attributes(k, w)
            )
        )
