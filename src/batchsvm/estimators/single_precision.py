"""Models of float32 rows are float32 too, and are certified as they are after rounding."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from batchsvm.core.arrays import dtype_name
from batchsvm.core.certificate import Certificate, certify_point
from batchsvm.core.intercept import Intercept
from batchsvm.core.many import joined_points
from batchsvm.core.problem import Problem
from batchsvm.core.solution import LinearModel, Status
from batchsvm.engines import Dataset, is_placed
from batchsvm.models.scores import SHORT


def is_single(X: Any) -> bool:
    """Whether X is an array of float32, or of a type that is computed in float32."""
    return not is_placed(X) and hasattr(X, "dtype") and dtype_name(X) in SHORT


def in_single_precision(
    data: Dataset, problem: Problem, models: list[LinearModel], intercept: Intercept, tol: float
) -> list[LinearModel]:
    """The models in float32, each with the certificate of what it is then.

    Models that float32 cannot hold stay in float64.  One whose bound rounding takes above tol has
    the status ROUNDED.
    """
    short = [_shortened(model, isfinite(problem.radius)) for model in models]
    if not all(np.isfinite(model.coef).all() and isfinite(model.intercept) for model in short):
        return models
    alone = intercept.kind == "free"  # whose problems differ in their offset
    size = 1 if alone else int(min(problem.k, data.problems_at_once(None)))
    found = []
    for first in range(0, problem.k, size):
        which = range(first, min(first + size, problem.k))
        some = [short[k] for k in which]
        certificates = _certify(data, problem.some(which), some, intercept)
        found += [
            _with(model, certificate, tol)
            for model, certificate in zip(some, certificates, strict=True)
        ]
    return found


def _shortened(model: LinearModel, within_ball: bool) -> LinearModel:
    coef, intercept = (_single(v, within_ball) for v in (model.coef, np.array(model.intercept)))
    return replace(model, coef=coef, intercept=float(intercept))


def _single(values: np.ndarray, within_ball: bool) -> np.ndarray:
    """The values in float32; rounded towards zero where they must not leave a ball."""
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    if not within_ball:
        return found
    beyond = np.abs(found.astype(np.float64)) > np.abs(values)
    return np.where(beyond, np.nextafter(found, np.float32(0)), found)


def _certify(
    data: Dataset, problem: Problem, models: list[LinearModel], intercept: Intercept
) -> tuple[Certificate, ...]:
    W = np.column_stack([model.coef.astype(np.float64) for model in models])
    intercepts = np.array([model.intercept for model in models])
    if intercept.kind == "penalised":
        W = np.vstack([W, intercepts / intercept.scaling])
        problem = intercept.penalise(problem)
    elif intercept.kind == "free":
        problem = replace(problem, offset=intercepts)
    points = joined_points(data, [model.solution.dual for model in models])
    assert points is not None
    dual = data.dual(problem, points) if isinstance(points, np.ndarray) else points
    return certify_point(data, problem, W, dual)


def _with(model: LinearModel, certificate: Certificate, tol: float) -> LinearModel:
    solution = model.solution
    allowed = max(tol * certificate.primal, 2 * solution.certificate.bound)
    lost = solution.status.converged and certificate.bound > allowed
    status = Status.ROUNDED if lost else solution.status
    return replace(model, solution=replace(solution, certificate=certificate, status=status))
