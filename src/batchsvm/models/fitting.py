"""From data to a `Model` and back: several classes, an intercept, and the check of a file.

The intercept is the coefficient of one more column that holds `intercept_scaling` everywhere (the
`bias` of `fit`); it is penalised like any other, so that the certificate is that of the
problem solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from batchsvm.api import fit_many
from batchsvm.core import checks, data_checks
from batchsvm.core.best_constant import primal_at_zero
from batchsvm.core.certificate import Certificate, allowed_bound, certify_point
from batchsvm.core.one_vs_rest import encode
from batchsvm.core.options import read_options
from batchsvm.core.problem import Problem, make_problem
from batchsvm.core.solution import Solutions
from batchsvm.engines import Dataset, is_placed, placed
from batchsvm.losses import Loss
from batchsvm.models.fingerprint import fingerprint
from batchsvm.models.model import Model, model_of_solutions


def fit_model(
    X: Any,
    y: Any = None,
    loss: str | Loss = "hinge",
    *,
    intercept_scaling: float = 0.0,
    free_intercept: bool = False,
    **options: Any,
) -> tuple[Model, Solutions]:
    """Train on any number of classes; `options` are those of `fit_many`.

    There is no intercept, or one that costs nothing, or a penalised one.  X may be data that were
    placed from a source, which bring their labels: y then is None.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]]), np.array(["a", "b", "c"])
    >>> model, _ = fit_model(X, y, lam=0.1, random_state=0)
    >>> model.predict(X)
    array(['a', 'b', 'c'], dtype='<U1')
    >>> len(model.certificates)
    3
    """
    data_checks.refuse_masked("X", X)
    if not is_placed(X):
        X = X if hasattr(X, "shape") else np.asarray(X)
    if y is not None or not is_placed(X):
        y = data_checks.as_labels("y", y)
    if intercept_scaling:
        checks.read_column("intercept_scaling", intercept_scaling, "0 or a positive number")
    intercept: dict[str, Any] = {"intercept": "free"} if free_intercept else {}
    if intercept_scaling:
        intercept = {"intercept": "penalised", "scaling": intercept_scaling}
    solutions = fit_many(X, y, loss, **intercept, **options)
    model = model_of_solutions(solutions, X, y, intercept_scaling)
    names, zero_based = (getattr(X, name, None) for name in ("feature_names", "zero_based"))
    return replace(model, feature_names=names, zero_based=zero_based), solutions


def check_options(
    *,
    intercept_scaling: float = 0.0,
    free_intercept: bool = False,
    lam: Any = 1e-4,
    random_state: Any = None,
    **options: Any,
) -> None:
    """Refuse options of `fit_model` that no data could make good, before any are read."""
    checks.read_lams("lam", lam)
    read_options(**options)
    checks.read_seed(random_state)
    if intercept_scaling:
        checks.read_column("intercept_scaling", intercept_scaling, "0 or a positive number")


def certify_model(
    model: Model,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    *,
    engine: str = "auto",
    device: int | None = None,
) -> list[Certificate]:
    """The certificates of a model on the data it was trained on, computed from scratch.

    One for each row of `model.coef`.  ValueError if the model has no dual points, or if the
    data has another shape than the training data had.  X may be data that were placed from a
    source, which bring their labels and weights: y then is None.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]]), np.array([0, 1, 1])
    >>> model, solutions = fit_model(X, y, lam=0.1, random_state=0, intercept_scaling=1.0)
    >>> certify_model(model, X, y) == [solutions[0].certificate]
    True
    """
    if model.alpha is None or model.lam is None:
        raise ValueError("the model holds no dual point, without which there is no certificate")
    if model.loss is None:
        raise ValueError(
            f"the model's loss {model.loss_name!r} is not one of this library: use batchsvm.certify"
        )
    shape = [
        words for words in model.trained_on.differences(fingerprint(X)) if "label" not in words
    ]
    if shape:
        raise ValueError(f"this is not the data the model was trained on: {' and '.join(shape)}")
    W = model.coef.T
    if model.intercept_scaling:
        W = np.vstack([W, model.intercept / model.intercept_scaling])
    with placed(X, engine, n_jobs, device=checks.read_device(device)) as data:
        problem = _problem_of(model, data, y, sample_weight)
        if model.free_intercept:
            return _certify_free(model, data, problem)
        dual = data.dual(problem, model.alpha.T)
        return list(certify_point(data, problem, W, dual))


def _certify_free(model: Model, data: Dataset, problem: Problem) -> list[Certificate]:
    """The certificates of free intercepts, whose dual points are put into balance."""
    assert model.alpha is not None
    found: list[Certificate] = []
    for k in range(problem.k):
        own = replace(problem.only(k), offset=model.intercept[k : k + 1])
        dual = data.balanced(own, data.dual(own, model.alpha[k][:, np.newaxis]))
        found += certify_point(data, own, model.coef[k][:, np.newaxis], dual)
    return found


def is_within(
    model: Model,
    X: Any,
    y: Any,
    certificates: Sequence[Certificate],
    tol: float,
    sample_weight: Any = None,
) -> bool:
    """Whether each of the model's certificates is within tol, as a fit would judge it."""
    short = [k for k, found in enumerate(certificates) if not found.relative_gap <= tol]
    if not short:
        return True
    has_intercept = bool(model.intercept_scaling) or model.free_intercept
    with placed(X) as data:  # within tol^2 P0, where the objective is next to nothing?
        problem = _problem_of(model, data, y, sample_weight)
        return all(
            certificates[k].bound
            <= allowed_bound(
                tol,
                certificates[k].primal,
                primal_at_zero(data, problem.only(k), has_intercept),
            )
            for k in short
        )


def _problem_of(model: Model, data: Dataset, y: Any, sample_weight: Any = None) -> Problem:
    """The problems that a model was trained on."""
    assert model.loss is not None
    weights = data_checks.read_weights(sample_weight, data.n)
    if y is None:
        targets = _own_targets(model, data, weights)
    elif model.classes is None:
        target, _ = data_checks.read_targets(y, data.n, model.loss)
        targets = data.targets(target, weights)
    else:
        classes = encode(data_checks.as_labels("y", y), model.classes)
        if model.class_weights is not None:
            factors = model.class_weights[classes.codes]
            weights = factors if weights is None else factors * weights
        targets = classes.targets(data, weights)
    radius = float(model.method_parameters.get("radius", inf))
    bias = model.intercept_scaling or None
    return make_problem(targets, model.loss, model.lam, bias, radius=radius)


def _own_targets(model: Model, data: Dataset, weights: np.ndarray | None) -> Any:
    """The targets that came with the rows, whose classes are those of the model."""
    if data.labels is None:
        raise ValueError(data_checks.NO_LABELS)
    if model.classes is None:
        return data.own_targets("numbers", weights)
    found = data.labels.classes
    if found is None or not np.array_equal(found, model.classes):
        few = "too many" if found is None else str(found[:5].tolist())
        raise ValueError(
            f"the labels must be the model's classes {model.classes[:5].tolist()}, but they are"
            f" {few}"
        )
    how = "signs" if found.size <= 2 else "codes"
    return data.own_targets(how, weights, class_weights=model.class_weights)
