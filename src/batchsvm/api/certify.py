"""Certify any point, and what a certificate proves of single rows."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any, Unpack

import numpy as np

from batchsvm.api.place import Placing, placed_rows
from batchsvm.core import checks, data_checks
from batchsvm.core.certificate import Certificate, certify_point
from batchsvm.core.problem import make_problem
from batchsvm.core.proven import distance_to_optimum
from batchsvm.core.reading import (
    read_one,
)
from batchsvm.core.solution import Solution
from batchsvm.losses import Loss
from batchsvm.methods import Pegasos


def certify(
    X: Any,
    y: Any,
    w: Any,
    alpha: Any,
    loss: str | Loss = "hinge",
    lam: float = 1e-4,
    sample_weight: Any = None,
    *,
    radius: float = inf,
    n_jobs: int | None = None,
    bias: float | None = None,
    offset: Any = None,
    engine: str = "auto",
    device: int | None = None,
    **placing: Unpack[Placing],
) -> Certificate:
    """Compute the certificate of any point (w, alpha) from scratch.

    `alpha` must lie in its box; `w` need not be w(alpha).  A `radius` constrains w to
    ||w|| <= radius; `bias` and `offset` are those of `fit`.  X may be a source; y is then the
    name of the column of the labels, or None, and `columns`, `max_memory` and `cache` are those of
    `place`.

    Examples
    --------
    >>> import batchsvm
    >>> certificate = batchsvm.certify([[1.0], [1.0]], [1, 1], [0.5], [0.5, 0.5], lam=1.0)
    >>> certificate.primal, certificate.dual
    (0.625, 0.375)
    """
    loss = checks.read_loss(loss)
    lam = checks.read_lam("lam", lam)
    if not (checks.is_scalar(radius) and radius == inf):
        radius = checks.number("radius", radius, checks.POSITIVE, 0.0)
    bias = checks.read_bias(bias)
    where = engine, n_jobs, device
    with placed_rows(X, y, sample_weight, where, once=True, **placing) as (data, y, weights):
        w = data_checks.read_vector("w", w, data.d + (bias is not None))
        alpha = data_checks.read_vector("alpha", alpha, data.n)
        if np.linalg.norm(w) > radius * (1 + 1e-9):
            raise ValueError(
                f"w must have norm at most radius = {radius!r}, not {float(np.linalg.norm(w))!r}"
            )
        targets, _ = read_one(data, y, loss, weights, offset)
        problem = make_problem(targets, loss, lam, bias, radius=radius)
        dual = data.dual(problem, alpha[:, np.newaxis])
        [certificate] = certify_point(data, problem, w[:, np.newaxis], dual)
        return certificate


def proven(
    X: Any,
    y: Any,
    solution: Solution,
    sample_weight: Any = None,
    *,
    bias: float | None = None,
    offset: Any = None,
    n_jobs: int | None = None,
    engine: str = "auto",
    device: int | None = None,
    **placing: Unpack[Placing],
) -> np.ndarray:
    """What the certificate proves about each row at the optimum, which itself is not known.

    Parameters
    ----------
    X, y, sample_weight, bias, offset
        What the solution was trained on.
    solution : Solution
        A result of `fit`.  A smaller bound settles more rows.  Its certificate is recomputed, not
        trusted.

    Returns
    -------
    ndarray of shape (n,) of int8
        1: alpha_i of the optimum is at its upper bound; 0: alpha_i is 0, so that row i is no
        support vector; -1: not settled.

    Examples
    --------
    >>> import batchsvm
    >>> X, y = [[1.0], [3.0], [-1.0], [-3.0]], [1, 1, -1, -1]
    >>> solution = batchsvm.fit(X, y, lam=0.1, tol=1e-6, random_state=0)
    >>> batchsvm.proven(X, y, solution)
    array([-1,  0, -1,  0], dtype=int8)
    """
    if not isinstance(solution, Solution):
        raise TypeError(f"solution must be what fit returns, not {type(solution).__name__}")
    if solution.free_intercept:
        raise ValueError(
            "solution must have no free intercept: P is not strongly convex in it, so that no row"
            ' is settled; use intercept="penalised"'
        )
    bias = checks.read_bias(bias)
    where = engine, n_jobs, device
    with placed_rows(X, y, sample_weight, where, **placing) as (data, y, weights):
        W = data_checks.read_vector("solution.w", solution.w, data.d + (bias is not None))
        W = W[:, np.newaxis]
        alpha = data_checks.read_vector("solution.alpha", solution.alpha, data.n)
        targets, _ = read_one(data, y, solution.loss, weights, offset)
        problem = make_problem(targets, solution.loss, solution.lam, bias)
        if isinstance(solution.method, Pegasos):
            problem = replace(problem, radius=float(solution.method.radius))
        dual = data.dual(problem, alpha[:, np.newaxis])
        [certificate] = certify_point(data, problem, W, dual)
        distance = distance_to_optimum(certificate, solution.lam)
        return data.settled(problem, W, np.array([distance]))[:, 0]
