"""Labels and class weights."""

from __future__ import annotations

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
    if len(present) < 2:
        where = "" if weights is None else " among the rows of positive weight"
        only = f"one class, {classes[present[0]].item()!r}" if len(present) else "none"
        raise ValueError(
            f"y must have at least two classes{where}, but it has {only};"
            " batchsvm.fit takes one class too"
        )


def weigh(class_weight: Any, found: Classes, weights: np.ndarray | None) -> np.ndarray | None:
    """Sample weights times class weights; None where all are 1.

    "balanced" counts a row by its weight, so that weight k is k copies of a row here too.
    """
    if class_weight is None:
        return weights
    classes, codes = found
    if isinstance(class_weight, str):
        checks.choice("class_weight", class_weight, ["balanced"])
        counts = np.bincount(codes, weights, minlength=len(classes))
        total = counts.sum()
        factors = np.divide(total, len(classes) * counts, out=np.zeros(len(classes)),
                            where=counts > 0)  # fmt: skip
    elif isinstance(class_weight, dict):
        for label, weight in class_weight.items():
            checks.number(f"class_weight of {label!r}", weight, "a number >= 0", -1e-300)
        factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    else:
        raise ValueError(
            "class_weight must be None, 'balanced' or a dict of label: weight, not"
            f" {class_weight!r}"
        )
    factor = factors[codes]
    return factor if weights is None else factor * weights
