"""Labels and class weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from batchsvm.core import checks
from batchsvm.core.one_vs_rest import Classes, find_classes, two_numbers


def read_classes(y: np.ndarray) -> Classes:
    """The classes in order, and for each row the number of its class."""
    found = two_numbers(y)
    if found is None:
        check_classification_targets(y)
        found = find_classes(y)
    return found


def refuse_one_class(found: Classes, weights: np.ndarray | None) -> None:
    classes, codes = found
    if len(classes) > 1 and weights is None:
        return
    present = np.unique(codes if weights is None else codes[weights > 0])
    refuse_few(classes[present], weights is not None)


def refuse_few(present: np.ndarray, has_weights: bool) -> None:
    """Refuse fewer than two classes among the rows that count."""
    if len(present) < 2:
        where = " among the rows of positive weight" if has_weights else ""
        only = f"one class, {present[0].item()!r}" if len(present) else "none"
        raise ValueError(
            f"y must have at least two classes{where}, but it has {only};"
            " batchsvm.fit takes one class too"
        )


def weigh(
    class_weight: Any, found: Classes, weights: np.ndarray | None
) -> tuple[np.ndarray | None, np.ndarray]:
    """Sample weights times class weights, None where all are 1; and the class weights.

    "balanced" counts a row by its weight, so that weight k is k copies of a row here too.
    """
    classes, codes = found

    def totals() -> np.ndarray:
        return np.bincount(codes, weights, minlength=len(classes))

    factors = class_factors(class_weight, classes, totals)
    if factors is None:
        return weights, np.ones(len(classes))
    factor = factors[codes]
    return factor if weights is None else factor * weights, factors


def class_factors(
    class_weight: Any, classes: np.ndarray, totals: Callable[[], np.ndarray]
) -> np.ndarray | None:
    """What the weights of the rows of each class are multiplied by; None where that is 1.  `totals`
    are the weights of the classes, which "balanced" asks for."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        checks.choice("class_weight", class_weight, ["balanced"])
        counts = totals()
        return np.divide(counts.sum(), len(classes) * counts, out=np.zeros(len(classes)),
                         where=counts > 0)  # fmt: skip
    if isinstance(class_weight, dict):
        for label, weight in class_weight.items():
            checks.number(f"class_weight of {label!r}", weight, "a number >= 0", -1e-300)
        return compute_class_weight(class_weight, classes=classes, y=classes)
    raise ValueError(
        f"class_weight must be None, 'balanced' or a dict of label: weight, not {class_weight!r}"
    )
