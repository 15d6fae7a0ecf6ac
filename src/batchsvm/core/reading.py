"""What the public functions are given, as problems on placed data: targets, starts, intercepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core import checks, data_checks
from batchsvm.core.intercept import INTERCEPTS, Intercept, LinearStart
from batchsvm.core.one_vs_rest import find_classes
from batchsvm.core.problem import Problem, make_problem
from batchsvm.core.solution import LinearModel, Solution, Solutions
from batchsvm.losses import Loss

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset


def read_intercept(intercept: Any, scaling: Any) -> Intercept:
    checks.choice("intercept", intercept, INTERCEPTS)
    return Intercept(intercept, checks.read_column("scaling", scaling))


def read_one(
    data: Dataset, y: Any, loss: Loss, sample_weight: Any = None, offset: Any = None
) -> tuple[Any, np.ndarray | None]:
    """The targets of one problem, and the two classes; those of the data where y is None."""
    if y is None:
        weights = data_checks.read_weights(sample_weight, data.n)
        fixed = None if offset is None else data_checks.read_offset(offset, data.n)
        return _own_targets(data, loss, weights, fixed, most=2)
    target, classes = data_checks.read_targets(y, data.n, loss, data.over_blocks)
    weights = data_checks.read_weights(sample_weight, data.n)
    fixed = None if offset is None else data_checks.read_offset(offset, data.n)
    return data.targets(target, weights, fixed), classes


def read_many(
    data: Dataset,
    targets: Any,
    loss: Loss,
    lams: np.ndarray,
    sample_weight: Any,
    name: str = "targets",
) -> tuple[Problem, np.ndarray | None]:
    """The problems of `fit_many` and `path`, and the classes if they are one against the rest;
    errors call the targets by this name."""
    if targets is None:
        weights = data_checks.read_weights(sample_weight, data.n)
        kept, classes = _own_targets(data, loss, weights)
        return _with_lams(kept, loss, lams), classes
    y, classes = data_checks.as_labels(name, targets), None
    if y.ndim not in (1, 2) or y.shape[0] != data.n or 0 in y.shape:
        raise ValueError(
            f"{name} must have shape ({data.n},) or ({data.n}, K), a row per row of X, not"
            f" {y.shape}"
        )
    if y.ndim == 2:
        weights = data_checks.read_weights(sample_weight, data.n, y.shape[1])
        columns = [
            data_checks.read_targets(column, data.n, loss, name=data_checks.column_name(k, name))[0]
            for k, column in enumerate(y.T)
        ]
        kept = data.targets(np.asfortranarray(np.column_stack(columns)), weights)
    elif loss.task == "classification":
        data_checks.refuse_bad_labels(y, name)
        found = find_classes(y)
        classes = found.labels
        kept = found.targets(data, data_checks.read_weights(sample_weight, data.n, found.k))
    else:
        weights = data_checks.read_weights(sample_weight, data.n)
        kept = data.targets(data_checks.read_targets(y, data.n, loss, name=name)[0], weights)
    return _with_lams(kept, loss, lams), classes


def _with_lams(kept: Any, loss: Loss, lams: np.ndarray) -> Problem:
    if 1 not in (kept.k, lams.size) and kept.k != lams.size:
        raise ValueError(
            f"lam must be a number or {kept.k} numbers, one per problem, not {lams.size}"
        )
    return make_problem(kept, loss, lams if lams.size > 1 else float(lams[0]))


def _own_targets(
    data: Dataset, loss: Loss, weights: Any, offset: Any = None, most: float = inf
) -> tuple[Any, np.ndarray | None]:
    """The targets that came with the rows, and their classes, at most so many."""
    labels = data.labels
    if labels is None:
        raise ValueError(data_checks.NO_LABELS)
    if loss.task == "regression":
        return data.own_targets("numbers", weights, offset), None
    classes = labels.classes
    how = "signs" if classes is None or classes.size <= 2 or most == 2 else "codes"
    return data.own_targets(how, weights, offset), classes


def problem_names(classes: np.ndarray | None, k: int) -> list[str]:
    if classes is not None and len(classes) == k > 1:
        return [f"class {label!r}" for label in classes.tolist()]
    return ["fit"] if k == 1 else [f"problem {number}" for number in range(k)]


def labelled(model: LinearModel, classes: np.ndarray | None) -> LinearModel:
    """The model with the labels in its solution, if these are those of one problem."""
    if classes is None or len(classes) > 2:
        return model
    return replace(model, solution=replace(model.solution, classes=classes))


def read_initial(initial: Any, columns: int, n: int) -> np.ndarray | None:
    """The alpha to start from, (n, 1), or None."""
    if initial is None:
        return None
    if isinstance(initial, Solution):
        initial = initial.w, initial.alpha
    if not (isinstance(initial, tuple | list) and len(initial) == 2):
        raise ValueError(
            f"initial must be a Solution or a pair (w, alpha), not {type(initial).__name__}"
        )
    data_checks.read_vector("w of initial", initial[0], columns)
    return data_checks.read_vector("alpha of initial", initial[1], n)[:, np.newaxis]


def read_starts(initial: Any, k: int, n: int) -> Sequence[LinearStart] | None:
    """Where each problem starts from."""
    if initial is None:
        return None
    if not isinstance(initial, Solutions) or len(initial) != k:
        found = f"{len(initial)}" if isinstance(initial, Solutions) else type(initial).__name__
        raise ValueError(f"initial must be Solutions of {k} problems, not {found}")
    alphas = [data_checks.read_vector("alpha of initial", s.alpha, n) for s in initial]
    return [
        LinearStart(alpha=alpha, intercept=float(b))
        for alpha, b in zip(alphas, initial.intercept, strict=True)
    ]
