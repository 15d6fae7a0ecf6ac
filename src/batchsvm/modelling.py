"""From data to a `Model` and back: several classes, an intercept, and the check of a file.

More than two classes are fits of one class against the rest over the same rows.  The
intercept is the coefficient of one more column that holds `intercept_scaling` everywhere (the
`bias` of `fit`); it is penalised like any other, so that the certificate is that of the
problem solved.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm import inputs
from batchsvm.api import certify, fit
from batchsvm.certificate import Certificate
from batchsvm.fingerprint import fingerprint
from batchsvm.losses import Loss
from batchsvm.model import Model, history_of, name_of_loss, parameters_of
from batchsvm.shortfall import warn_of_classes
from batchsvm.solution import Solution, Status

MAX_EPOCHS = 1000  # as in `fit`
# Called before each fit with its number, how many there are, and the class in words.
Announce = Callable[[int, int, str], None]


def fit_model(
    X: Any,
    y: Any,
    loss: str | Loss = "hinge",
    *,
    intercept_scaling: float = 0.0,
    announce: Announce | None = None,
    **options: Any,
) -> tuple[Model, list[Solution]]:
    """Train on any number of classes; `options` are those of `fit`.

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
    loss = inputs.read_loss(loss)
    X = X if sp.issparse(X) else np.asarray(X)
    y = np.asarray(y)
    if intercept_scaling:
        inputs.number("intercept_scaling", intercept_scaling, "0 or a positive number", 0.0)
    bias = intercept_scaling or None
    classes = np.unique(y) if loss.task == "classification" else None
    several = classes is not None and classes.size > 2
    targets = [(str(c), y == c) for c in classes] if several and classes is not None else [("", y)]
    if several:  # one warning for all of them
        warn, options["warn"] = options.get("warn", True), False
    solutions = []
    for k, (name, target) in enumerate(targets):
        if announce is not None:
            announce(k, len(targets), name)
        target = np.where(target, 1.0, -1.0) if several else target
        solutions.append(fit(X, target, loss, bias=bias, **options))
        if solutions[-1].status is Status.INTERRUPTED and k + 1 < len(targets):
            raise KeyboardInterrupt(f"{len(targets) - k - 1} classes were not trained at all")
    if several and warn:
        names = [name for name, _ in targets]
        warn_of_classes(solutions, names, options.get("max_epochs", MAX_EPOCHS))
    first = solutions[0]
    w = np.array([solution.w for solution in solutions])
    d = X.shape[1]
    model = Model(
        coef=np.ascontiguousarray(w[:, :d]),
        intercept=w[:, d] * intercept_scaling if intercept_scaling else np.zeros(len(w)),
        classes=classes if several else first.classes,
        loss=loss,
        loss_name=name_of_loss(loss),
        lam=first.lam,
        trained_on=fingerprint(X, y),
        intercept_scaling=float(intercept_scaling),
        alpha=np.array([solution.alpha for solution in solutions]),
        certificates=tuple(solution.certificate for solution in solutions),
        statuses=tuple(solution.status.name for solution in solutions),
        method=first.method.name,
        method_parameters=parameters_of(first.method),
        batch_size=first.batch_size,
        history=tuple(history_of(solution.history) for solution in solutions),
        plan=first.plan,
    )
    return model, solutions


def certify_model(
    model: Model, X: Any, y: Any, sample_weight: Any = None, n_jobs: int | None = 1
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
    found = []
    for k, target in enumerate(_targets(model, np.asarray(y))):
        w = np.append(model.coef[k], model.intercept[k] / scaling) if scaling else model.coef[k]
        found.append(
            certify(
                X, target, w, model.alpha[k], model.loss, model.lam, sample_weight,
                radius=radius, n_jobs=n_jobs, bias=scaling or None,
            )
        )  # fmt: skip
    return found


def _targets(model: Model, y: np.ndarray) -> list[np.ndarray]:
    """What each row of `coef` was trained on."""
    classes = model.classes
    if classes is None:
        return [y]
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise ValueError(
            f"the labels must be among the model's classes {classes[:5].tolist()}, but"
            f" {unknown[0].item()!r} is not"
        )
    if classes.size == 1:
        numeric = classes.dtype.kind in "fiub"
        return [np.full(y.shape, -1.0 if numeric and not classes[0] > 0 else 1.0)]
    if classes.size == 2:
        return [np.where(y == classes[1], 1.0, -1.0)]
    return [np.where(y == c, 1.0, -1.0) for c in classes]
