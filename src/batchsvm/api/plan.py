"""What is known before training: sigma^2, and the plan of a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from batchsvm.api.place import Placing, placed_rows
from batchsvm.core import checks
from batchsvm.core.choice import choose, refuse_long_rows, refuse_options
from batchsvm.core.forecast import forecast
from batchsvm.core.intercept import first_penalised
from batchsvm.core.layout import workload_of
from batchsvm.core.many import trained_together
from batchsvm.core.options import FitOptions, read_options
from batchsvm.core.planning import Plan
from batchsvm.core.problem import Problem, make_problem
from batchsvm.core.reading import read_intercept, read_many, read_one
from batchsvm.core.spectral import (
    FAILURE_PROBABILITY,
    SAMPLED_ROWS,
    SIGMA2_METHODS,
    Sigma2,
    SpectralQuery,
    measure_sigma2,
)
from batchsvm.engines import Dataset
from batchsvm.losses import Loss
from batchsvm.methods import Method


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
    method: str | Method = "auto",
    batch_size: int | str = "auto",
    max_epochs: float = 1000,
    sample_weight: Any = None,
    averaging: str | None = None,
    intercept: str | None = None,
    scaling: float = 1.0,
    bias: float | None = None,
    offset: Any = None,
    sigma2: float | None = None,
    precision: str = "auto",
    n_jobs: int | None = None,
    engine: str = "auto",
    device: int | None = None,
    **placing: Unpack[Placing],
) -> Plan:
    """What `fit` would do with the same arguments, how long that is likely to take, and what
    batches can bring on this data.

    The method, the batch size, the threads and sigma^2 are those of `fit`; of many classes, they
    are those of the first.

    Parameters
    ----------
    y : array of shape (n,), optional
        Needed for regression losses, where P(0) depends on it, for free intercepts, whose scale
        depends on the shares of the classes, and for more than two classes, among which threads are
        divided.  X may be a source; y is then the name of the column of
        the labels.
    sigma2 : float, optional
        An upper bound on sigma^2 that is known, such as that of `batchsvm.sigma2(X)`.  Otherwise
        it is measured as `fit` does: exactly on little data, as a bound where the steps of the
        method depend on it, and as an estimate from 128 rows elsewhere.
    lam, tol, loss, method, batch_size, max_epochs, sample_weight, averaging, bias, offset, \
precision, n_jobs, engine, device, columns, max_memory, cache
        As for `batchsvm.fit`.
    intercept, scaling
        As for `batchsvm.fit_many`; a penalised intercept is a bias of `scaling`.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> plan = batchsvm.plan(np.eye(4), lam=0.1, tol=0.1)
    >>> plan.method_in_words, plan.batch_size, plan.batch_limit
    ('serial SDCA', 1, 4)
    """
    loss = checks.read_loss(loss)
    lam = checks.read_lam("lam", lam)
    options = read_options(method, batch_size, tol, max_epochs, averaging, precision=precision)
    kind = read_intercept(intercept, scaling)
    bias = checks.read_bias(bias)
    if bias is not None and intercept is not None:
        raise ValueError("bias must be None if intercept is given: it is a penalised intercept")
    if offset is not None and intercept is not None:
        raise ValueError("offset must be None if intercept is given: no fit takes both")
    if sigma2 is not None:
        checks.number("sigma2", sigma2, "between 0 and 1, or None", 0.0, 1.0 + 1e-9)
    where = engine, n_jobs, device
    with placed_rows(X, y, sample_weight, where, **placing) as (data, y, weights):
        if y is None and data.labels is None:
            if loss.task == "regression":
                raise ValueError("y must be given for a regression loss, since P(0) depends on it")
            y = np.ones(data.n, np.int8)
        if offset is None:
            problem, _ = read_many(data, y, loss, np.array([lam]), weights, "y")
        else:
            problem = make_problem(read_one(data, y, loss, weights, offset)[0], loss, lam)
        group, jobs = trained_together(data, problem, options, kind)
        with data.share(jobs) as view:
            if kind.kind == "free":
                group = first_penalised(view, group)
            elif bias is not None:
                group = replace(group, bias=np.full(group.k, bias))
            else:
                group = kind.penalise(group)
            return _plan_of(view, group, options, sigma2)


def _plan_of(data: Dataset, problem: Problem, options: FitOptions, sigma2: float | None) -> Plan:
    refuse_options(data, problem, options)
    facts = data.facts(problem)
    _, found = choose(data, problem, facts, options, sigma2)
    work = workload_of(data, problem)
    times = forecast(data, problem, facts, found, work, options.max_epochs)
    return replace(found, times=times)
