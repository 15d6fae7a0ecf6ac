"""partial_fit: what a chunk of a stream does to an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchsvm.core.arrays import to_host
from batchsvm.engines.cpu.online import Stream, StreamProblem, start_stream
from batchsvm.estimators.parameters import DEFAULT_STREAM_LAM, Settings, read_seed


def check_streams(settings: Settings) -> float:
    """Refuse what a stream cannot do; returns lam."""
    if settings.C is not None:
        raise ValueError(
            f"C must be None for partial_fit, not {settings.C!r}: it depends on the number of rows,"
            " which a stream does not have; give lam instead"
        )
    if settings.intercept.kind == "free":
        raise ValueError(
            "intercept must be 'penalised' for partial_fit, not 'free': Pegasos takes steps of"
            " length 1/(lam t) in everything it trains"
        )
    return DEFAULT_STREAM_LAM if settings.lam is None else settings.lam


def take_chunk(
    estimator: Any, X: Any, targets: np.ndarray, weights: np.ndarray | None, settings: Settings
) -> None:
    """Go on with the stream of this estimator, start one, or start from what fit has found."""
    lam = check_streams(settings)
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
    estimator._keep_stream(stream, rng)


def _fitted(estimator: Any, settings: Settings, count: int) -> tuple[np.ndarray | None, int]:
    """The w that fit has left, and from how many rows."""
    if not hasattr(estimator, "dual_coef_"):
        return None, 0
    coef = np.atleast_2d(to_host(estimator.coef_))
    if settings.bias is not None:
        coef = np.column_stack([coef, to_host(estimator.intercept_) / settings.bias])
    return (coef, estimator.dual_coef_.shape[-1]) if len(coef) == count else (None, 0)


def _refuse_change(parameter: str, now: Any, before: Any) -> None:
    if now != before:
        raise ValueError(
            f"{parameter} must stay {before!r} while a stream goes on, not become {now!r};"
            " clone the estimator to start another stream"
        )
