"""What is known of data before training: sigma^2, and what batches can bring."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from batchsvm.api.place import Placing, placed_rows
from batchsvm.core import checks
from batchsvm.core.planning import Plan, make_plan
from batchsvm.core.problem import make_problem
from batchsvm.core.reading import (
    read_one,
)
from batchsvm.core.spectral import (
    FAILURE_PROBABILITY,
    SAMPLED_ROWS,
    SIGMA2_METHODS,
    Sigma2,
    SpectralQuery,
    measure_sigma2,
)
from batchsvm.core.training import device_layout, refuse_long_rows, sigma2_for
from batchsvm.losses import Loss


def sigma2(
    X: Any,
    method: str = "auto",
    *,
    normalize: bool = True,
    sampled_rows: int = SAMPLED_ROWS,
    failure_probability: float = FAILURE_PROBABILITY,
    n_jobs: int | None = None,
    random_state: Any = 0,
    engine: str = "auto",
    device: int | None = None,
    y: str | None = None,
    **placing: Unpack[Placing],
) -> Sigma2:
    """An upper bound on sigma^2 = ||X||^2 / n, with rows scaled to unit norm.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    method : {"auto", "exact", "lanczos", "sample", "crude", "estimate"}
        "auto" is exact on small data and otherwise random-start Lanczos, 16 passes over
        the data.  "sample" looks at `sampled_rows` rows; "crude" multiplies the largest
        row sum and column sum.  "estimate" takes a quick look at 128 rows, and is no bound.
    normalize : bool
        Scale each row to unit norm first.  Otherwise rows must have norm at most 1.
    failure_probability : float
        The probability with which "lanczos" and "sample" may return less than sigma^2.

    Returns
    -------
    Sigma2
        A float with attributes `how` and `failure_probability`.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> float(batchsvm.sigma2(np.eye(4)))
    0.25
    """
    checks.choice("method", method, SIGMA2_METHODS)
    words = "strictly between 0 and 1"
    checks.number("failure_probability", failure_probability, words, 0.0, 1.0)
    seed = checks.read_seed(random_state)
    checks.whole("sampled_rows", sampled_rows, 1, 2**62, "a positive integer")
    query = SpectralQuery(
        method, bool(normalize), None, int(sampled_rows), float(failure_probability), seed
    )
    where = engine, n_jobs, device
    with placed_rows(X, y, None, where, **placing) as (data, _, _):
        targets = data.targets(np.ones(data.n, np.int8))
        facts = data.facts(make_problem(targets, checks.read_loss("hinge"), 1.0))  # X is finite
        if not normalize:
            refuse_long_rows(facts, "normalize=True")
        return measure_sigma2(data, query)


def plan(
    X: Any,
    y: Any = None,
    lam: float = 1e-4,
    tol: float = 1e-3,
    loss: str | Loss = "hinge",
    *,
    sigma2: float | None = None,
    n_jobs: int | None = None,
    engine: str = "auto",
    device: int | None = None,
    **placing: Unpack[Placing],
) -> Plan:
    """What batches can bring on this data: sigma^2, a table of batch sizes, and a choice.

    `y` is needed only for regression losses, where P(0) depends on it.  X may be a source; y is
    then the name of the column of the labels.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> plan = batchsvm.plan(np.eye(4), lam=0.1, tol=0.1)
    >>> plan.batch_size
    4
    """
    loss = checks.read_loss(loss)
    lam = checks.read_lam("lam", lam)
    tol = checks.read_tol(tol)
    if sigma2 is not None:
        checks.number("sigma2", sigma2, "between 0 and 1, or None", 0.0, 1.0 + 1e-9)
    where = engine, n_jobs, device
    with placed_rows(X, y, None, where, **placing) as (data, y, _):
        if y is None and data.labels is None:
            if loss.task == "regression":
                raise ValueError("y must be given for a regression loss, since P(0) depends on it")
            y = np.ones(data.n, np.int8)
        targets, _ = read_one(data, y, loss)
        problem = make_problem(targets, loss, lam)
        found = sigma2_for(data, problem, SpectralQuery(), sigma2)
        size = data.device_size
        layout = None if size is None else device_layout(data, problem, size)
        return make_plan(problem, data.facts(problem), data.d, tol, found, layout)
