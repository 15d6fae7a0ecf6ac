"""train --cv: lam chosen by cross-validation, and the table of what was tried."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from batchsvm.cli.output import table
from batchsvm.losses import Loss


class Lams(click.ParamType):
    """Values of lam with commas between them."""

    name = "lams"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "LAM,LAM,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(word) for word in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} must be numbers with commas between them", param, ctx)


def choose_lam(
    found: Any, loss: Loss, folds: int, lams: tuple[float, ...] | None, options: dict[str, Any]
) -> dict[str, Any]:
    """The lam with the best mean accuracy over the folds, and all that were tried.

    `options` are those of the training: fold for fold, all but lam is as in the fit that follows.
    """
    from batchsvm import BatchSVCCV

    if loss.task != "classification":
        raise click.UsageError(
            "--cv must be left out for a regression loss: it chooses lam by accuracy"
        )
    if found.data is None:
        raise click.UsageError("--cv must be left out for DATA that is streamed")
    free, scaling = options["free_intercept"], options["intercept_scaling"]
    chosen = BatchSVCCV(
        None if lams is None else list(lams), cv=folds, loss=loss, method=options["method"],
        batch_size=options["batch_size"], tol=options["tol"], max_epochs=options["max_epochs"],
        fit_intercept=free or bool(scaling), intercept="free" if free else "penalised",
        intercept_scaling=scaling or 1.0, class_weight=options["class_weight"],
        random_state=options["random_state"],
        **found.where,
    ).fit(found.X, found.y, found.weights)  # fmt: skip
    means, spreads = chosen.scores_.mean(axis=0), chosen.scores_.std(axis=0)
    worst = chosen.gaps_.max(axis=0)
    return {
        "folds": folds,
        "lam": chosen.lam_,
        "table": [
            {
                "lam": float(lam), "accuracy": float(mean), "spread": float(spread),
                "relative_gap": float(gap),
            }
            for lam, mean, spread, gap in zip(chosen.lams_, means, spreads, worst, strict=True)
        ],
    }  # fmt: skip


def table_of_lams(chosen: dict[str, Any]) -> str:
    """What each lam came to, and which one was chosen."""
    rows = [
        [
            f"{line['lam']:.4g}", f"{line['accuracy']:.4f}", f"{line['spread']:.4f}",
            f"{line['relative_gap']:.1e}",
            "chosen" if np.isclose(line["lam"], chosen["lam"]) else "",
        ]
        for line in chosen["table"]
    ]  # fmt: skip
    return table(["lam", "accuracy", "spread", "relative_gap", ""], rows, left=0)
