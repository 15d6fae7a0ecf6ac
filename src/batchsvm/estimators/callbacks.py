"""Who watches a fit: a progress bar whose measure is the gap, and scikit-learn's callbacks.

`sklearn.callback` exists from scikit-learn 1.9 on.  With an older one, estimators have no
`set_callbacks`, and everything else works.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from batchsvm.core.progress import gap_bar
from batchsvm.core.solution import Checkpoint, LinearModel

F = TypeVar("F", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this scikit-learn has no callbacks."""

    def _with_callbacks(method):
        return method


def with_callbacks(method: F) -> F:
    """scikit-learn's decorator of `fit`, with the type of what it decorates."""
    return _with_callbacks(method)


# One of these an estimator has if somebody listens; to tell nobody takes a tenth of a millisecond.
LISTENED = ("_skl_callbacks", "_parent_callback_ctx")


class Watch:
    """The watchers of one fit of one or more problems; a context manager.

    `attributes(k, w)` are the fitted attributes of the estimator as if problem k had stopped
    at w: what scikit-learn's callbacks make a fitted copy of.  `data` is what these are told of:
    X, y and the sample weights.
    """

    def __init__(
        self,
        estimator: Any,
        names: list[str],
        data: tuple[Any, Any, Any],
        attributes: Callable[[int, np.ndarray], dict[str, Any]],
        tol: float,
        verbose: int,
    ) -> None:
        self.estimator, self.names, self.attributes = estimator, names, attributes
        self.bar = gap_bar(names, tol) if verbose else None
        self.show: Callable[[int, Checkpoint], None] | None = None
        self.root: Any = None
        self.count, self.several = len(names), len(names) > 1
        X, y, sample_weight = data
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._contexts: dict[int, Any] = {}
        self._lock = Lock()  # problems may be trained by several threads

    def __enter__(self) -> Watch:
        if self.bar is not None:
            self.show = self.bar.__enter__()
        if any(hasattr(self.estimator, name) for name in LISTENED):
            subtasks = len(self.names) if self.several else None
            self.root = self.estimator._init_callback_context(max_subtasks=subtasks)
            self.root.call_on_fit_task_begin(**self.data)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.bar is not None:
            self.bar.__exit__(*error)

    def finish(self, attributes: dict[str, Any]) -> None:
        """The fit is over, and left these attributes."""
        if self.root is not None:
            self.root.call_on_fit_task_end(**self.data, reconstruction_attributes=attributes)

    def callback(self) -> Callable[[int, Checkpoint], bool] | None:
        """What problems call at their certificates; None if nobody watches."""
        listens = self.root is not None and bool(getattr(self.estimator, "_skl_callbacks", None))
        if not listens and self.show is None:
            return None

        def see(k: int, seen: Checkpoint) -> bool:
            if self.show is not None:
                self.show(k, seen)
            with self._lock:
                return listens and self._tell(k, seen)

        return see

    def close(self, k: int, model: LinearModel) -> None:
        """Problem k is trained."""
        w = model.solution.w
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
