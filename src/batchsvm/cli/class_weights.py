"""train --class-weight: weights of classes as weights of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import click
import numpy as np

from batchsvm.cli.output import label_text
from batchsvm.losses import Loss


class Weighing(NamedTuple):
    """Weights of rows, what those of each class were multiplied by, and class weights by label."""

    weights: np.ndarray | None
    factors: np.ndarray | None = None
    given: Any = None


def weigh_classes(class_weight: Any, found: Any, loss: Loss) -> Weighing:
    """The weights of rows in memory, multiplied by those of their classes."""
    if class_weight is None:
        return Weighing(found.weights)
    if loss.task != "classification":
        raise click.UsageError("--class-weight must be left out for a regression loss")
    if found.data is None:
        raise click.UsageError(
            "--class-weight must be left out for DATA that is streamed: give the weights of its"
            " rows as a column by --weights"
        )
    from batchsvm.estimators.labels import read_classes, weigh

    classes = read_classes(found.y)
    given = class_weight
    if isinstance(class_weight, dict):
        named = {label_text(label): label.item() for label in classes.labels}
        for name in class_weight:
            if name not in named:
                some = ", ".join(list(named)[:8])
                raise click.UsageError(
                    f"--class-weight must name labels of DATA, which are {some}, not {name!r}"
                )
        given = {named[name]: weight for name, weight in class_weight.items()}
    weights, factors = weigh(given, classes, found.weights)
    return Weighing(weights, factors, given)
