"""partial_fit: what a chunk of a stream does to an estimator."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from batchsvm.core import checks
from batchsvm.core.arrays import to_host
from batchsvm.engines.cpu.online import Stream, StreamProblem, start_stream
from batchsvm.estimators.parameters import DEFAULT_STREAM_LAM, Settings, read_seed
from batchsvm.estimators.single_precision import is_single
from batchsvm.estimators.training import dense_coef
from batchsvm.losses import LOSSES

F = TypeVar("F", bound=Callable[..., Any])


def if_it_can_stream(method: F) -> F:
    """`available_if`, with the type of the method that it decorates."""
    return available_if(_can_stream)(method)


def _can_stream(estimator: Any) -> bool:
    """Whether an estimator with these parameters has `partial_fit`; AttributeError if not.  What
    is wrong with any estimator is left to `read_settings`."""
    sentence = _why_not(estimator)
    if sentence is not None:
        raise AttributeError(sentence)
    return True


def _why_not(estimator: Any) -> str | None:
    if estimator.C is not None:
        return (
            f"C must be None for partial_fit, not {estimator.C!r}: it depends on the number of"
            " rows, which a stream does not have; give lam instead"
        )
    if estimator.fit_intercept and checks.is_word(estimator.intercept, "free"):
        return (
            "intercept must be 'penalised' for partial_fit, not 'free': Pegasos takes steps of"
            " length 1/(lam t) in everything it trains"
        )
    given = estimator.loss
    loss = LOSSES[given]() if isinstance(given, str) and given in LOSSES else given
    if getattr(loss, "lipschitz", 0.0) == inf:
        return (
            "loss must have a Lipschitz constant for partial_fit, and"
            f" {checks.shown(estimator.loss)} has none; use fit, or another loss"
        )
    class_weight = getattr(estimator, "class_weight", None)
    if isinstance(class_weight, str):
        return (
            f"class_weight must be None or a dict for partial_fit, not {class_weight!r}:"
            " a stream has no class frequencies yet"
        )
    return None


def take_chunk(
    estimator: Any, X: Any, targets: np.ndarray, weights: np.ndarray | None, settings: Settings
) -> None:
    """Go on with the stream of this estimator, start one, or start from what fit has found."""
    lam = DEFAULT_STREAM_LAM if settings.lam is None else settings.lam
    stream: Stream | None = getattr(estimator, "stream_", None)
    count, n = targets.shape
    if stream is None:
        seed = read_seed(estimator.random_state)
        w, rows = _fitted(estimator, settings, count)
        size = settings.options.batch_size
        problem = StreamProblem(settings.loss, lam, settings.bias, count, size)
        stream = start_stream(X, problem, seed, w, rows)
        rng = np.random.default_rng(seed)
    else:
        rng = estimator._stream_rng
        _refuse_change("lam", lam, stream.lam)
        _refuse_change("loss", settings.loss, stream.loss)
        _refuse_change("the penalised intercept's scaling", settings.bias, stream.bias)
    stream.take(X, targets, np.ones(n) if weights is None else weights, rng)
    estimator._keep_stream(stream, rng, np.float32 if is_single(X) else np.float64)


def _fitted(estimator: Any, settings: Settings, count: int) -> tuple[np.ndarray | None, int]:
    """The w that fit has left, and from how many rows."""
    if not hasattr(estimator, "dual_coef_"):
        return None, 0
    coef = np.atleast_2d(to_host(dense_coef(estimator)))
    if settings.bias is not None:
        coef = np.column_stack([coef, to_host(estimator.intercept_) / settings.bias])
    return (coef, estimator.dual_coef_.shape[-1]) if len(coef) == count else (None, 0)


def _refuse_change(parameter: str, now: Any, before: Any) -> None:
    if now != before:
        raise ValueError(
            f"{parameter} must stay {before!r} while a stream goes on, not become {now!r};"
            " clone the estimator to start another stream"
        )
