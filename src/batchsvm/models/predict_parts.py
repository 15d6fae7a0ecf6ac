"""Predictions for a source, part by part: no more rows are in memory than are read at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from batchsvm.core import checks
from batchsvm.files.errors import SourceChangedError
from batchsvm.files.source import Source
from batchsvm.models.model import Model, model_of_estimator
from batchsvm.models.sources import naming_base, open_for_model

MAX_BYTES = 1 << 26


class PredictedPart(NamedTuple):
    """The predictions for a part of a source, or for some of its rows if it is long."""

    name: str  # of the part: the path of a file, or "chunk 3"
    predictions: np.ndarray  # labels, or numbers of a regressor, (rows,)
    scores: np.ndarray  # decision values, (rows,), or (rows, K) for more than two classes
    y: np.ndarray | None  # the labels that the source holds, if it does


def predict_parts(
    model: Any,
    source: Any,
    *,
    y: str | None = None,
    columns: Sequence[str] | None = None,
    zero_based: bool | None = None,
    max_bytes: int = MAX_BYTES,
    n_jobs: int | None = 1,
) -> Iterator[PredictedPart]:
    """Predict the rows of a source in one pass, in their order.

    Parameters
    ----------
    model : Model or fitted estimator
    source : path, list of paths, or re-iterable of tuples
        A folder, a pattern or a list of files, or chunks `(X, y)`, where y may be None: what
        `batchsvm.fit` takes (docs/streamed.md).
    y : str, optional
        The column of tables that holds the labels, if there is one; it is no feature then.
    columns : sequence of str, optional
        The columns of tables that are features: those that the model was trained on.  Others are
        left out.  Without it, a table with other columns is refused.
    zero_based : bool, optional
        Whether indices of LIBSVM text count from 0; as in the training data if None.
    max_bytes : int
        About how many bytes of rows are in memory at once.  A file with more of them is several
        items with the same name.
    n_jobs : int
        Threads for sparse rows; -1 means all cores.

    Yields
    ------
    PredictedPart
        With `name`, `predictions`, `scores` and `y`.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> chunks = [(np.array([[2.0], [-1.0]]), [1, 0]), (np.array([[-3.0]]), [0])]
    >>> model = batchsvm.BatchSVC(lam=0.1, random_state=0).fit(chunks)
    >>> for part in batchsvm.predict_parts(model, chunks):
    ...     print(part.name, part.predictions, part.y)
    chunk 0 [1 0] [1 0]
    chunk 1 [0] [0]
    """
    if hasattr(model, "coef_"):
        model = model_of_estimator(model)
    if not isinstance(model, Model):
        raise TypeError(
            "model must be a Model or a fitted linear estimator with coef_, not"
            f" {type(model).__name__}"
        )
    checks.whole("max_bytes", max_bytes, 1, 2**62, "a positive integer")
    jobs = checks.read_jobs(n_jobs)
    opened = open_for_model(model, source, y, None, columns, zero_based)
    return _with_hint(model, opened, zero_based, int(max_bytes), jobs)


def _with_hint(
    model: Model, source: Source, zero_based: bool | None, max_bytes: int, jobs: int
) -> Iterator[PredictedPart]:
    with naming_base(model, zero_based, ("zero_based=True", "zero_based=False")):
        yield from predicted(model, source, max_bytes, jobs)


def predicted(
    model: Model, source: Source, max_bytes: int = MAX_BYTES, jobs: int = 1
) -> Iterator[PredictedPart]:
    """The predictions for a source that was opened for this model."""
    for part, chunks in source.one_pass(max_bytes):
        fingerprint = part.fingerprint()
        for X, y, _ in chunks:
            if X.shape[0] == 0:
                continue
            scores = model.decision_function(X, jobs)
            yield PredictedPart(part.name, model.chosen(scores), scores, y)
        if part.fingerprint() != fingerprint:
            raise SourceChangedError(part.name, "it has changed while it was read")
