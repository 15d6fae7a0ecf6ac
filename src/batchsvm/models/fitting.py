"""From data to a `Model` and back: several classes, an intercept, and the check of a file.

The intercept is the coefficient of one more column that holds `intercept_scaling` everywhere (the
`bias` of `fit`); it is penalised like any other, so that the certificate is that of the
problem solved.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm.api import fit_many
from batchsvm.core import checks, data_checks
from batchsvm.core.certificate import Certificate, certify_point
from batchsvm.core.one_vs_rest import encode
from batchsvm.core.problem import make_problem
from batchsvm.core.solution import Solutions
from batchsvm.engines import placed
from batchsvm.losses import Loss
from batchsvm.models.fingerprint import fingerprint
from batchsvm.models.model import Model, model_of_solutions


def fit_model(
    X: Any, y: Any, loss: str | Loss = "hinge", *, intercept_scaling: float = 0.0, **options: Any
) -> tuple[Model, Solutions]:
    """Train on any number of classes; `options` are those of `fit_many`.

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
    X, y = X if sp.issparse(X) else np.asarray(X), data_checks.as_labels("y", y)
    if intercept_scaling:
        checks.number("intercept_scaling", intercept_scaling, "0 or a positive number", 0.0)
    intercept: dict[str, Any] = (
        {"intercept": "penalised", "scaling": intercept_scaling} if intercept_scaling else {}
    )
    solutions = fit_many(X, y, loss, **intercept, **options)
    return model_of_solutions(solutions, X, y, intercept_scaling), solutions


def certify_model(
    model: Model, X: Any, y: Any, sample_weight: Any = None, n_jobs: int | None = None
) -> list[Certificate]:
    """The certificates of a model on the data it was trained on, computed from scratch.

    One for each row of `model.coef`.  ValueError if the model has no dual points, or if the
    data has another shape than the training data had.

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
    scaling = model.intercept_scaling
    radius = float(model.method_parameters.get("radius", inf))
    W = model.coef.T
    if scaling:
        W = np.vstack([W, model.intercept / scaling])
    with placed(X, n_jobs=n_jobs) as data:
        weights = data_checks.read_weights(sample_weight, data.n)
        if model.classes is None:
            target, _ = data_checks.read_targets(y, data.n, model.loss)
            targets = data.targets(target, weights)
        else:
            targets = encode(data_checks.as_labels("y", y), model.classes).targets(data, weights)
        problem = make_problem(targets, model.loss, model.lam, scaling or None, radius=radius)
        dual = data.dual(problem, model.alpha.T)
        return list(certify_point(data, problem, W, dual))
