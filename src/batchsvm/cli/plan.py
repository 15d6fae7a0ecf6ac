"""batchsvm plan: how far this data can be parallelised, before any training."""

from __future__ import annotations

from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.loading import describe, load
from batchsvm.cli.output import print_json, progress
from batchsvm.cli.overwriting import refuse_overwriting, with_labels


@click.command(
    short_help="Measure sigma^2, show what batches bring, choose a size.",
    epilog="""\b
Example:
  batchsvm data get text-like --folder .
  batchsvm plan text-like.train.svm --lam 1e-3 --plot speedup.png""",
)
@click.argument("data", type=opt.DATA)
@opt.lam
@opt.tol
@opt.loss
@opt.where
@click.option("--plot", type=opt.DATA, help="Save a plot (.png, .svg or .pdf).")
@opt.reading
@opt.as_json
def plan(data: str, lam: float, tol: float, loss: Any, engine: str, device: int | None,
         plot: str | None, as_json: bool, **reading: Any) -> None:  # fmt: skip
    """Measure sigma^2 of DATA, and show which batch sizes bring what.

    DATA is LIBSVM text (plain, .gz, .bz2, .xz), .npz, .npy, .csv or .parquet.
    """
    import batchsvm

    refuse_overwriting(
        {"--plot": plot}, with_labels("DATA", data) | {"--labels": reading["labels"]}
    )
    chosen = opt.build_loss(loss)
    regression = chosen.task == "regression"
    found = load(data, reading, labels_needed=regression)
    with progress("measuring sigma^2"):
        made = batchsvm.plan(
            found.X, found.y if regression else None, lam, tol, chosen, engine=engine, device=device
        )
    if plot:
        save_plot(made, plot)
    if as_json:
        print_json(plan_facts(made) | {"data": data, "plot": plot})
        return
    click.echo(describe(data, found, chosen.task))
    click.echo(str(made).split("\n", 1)[1])
    if plot:
        click.echo(f"plot: {plot}")


def plan_facts(made: Any) -> dict[str, Any]:
    return {
        "rows": made.n, "columns": made.d, "lam": made.lam, "tol": made.tol,
        "sigma2": float(made.sigma2), "sigma2_how": made.sigma2.how,
        "sigma2_failure_probability": made.sigma2.failure_probability,
        "batch_size": made.batch_size, "batches": made.batches, "reason": made.reason,
        "table": [row._asdict() for row in made.table],
    }  # fmt: skip


def save_plot(made: Any, path: str) -> None:
    from pathlib import Path

    from batchsvm.displays import SpeedupDisplay, on_paper
    from batchsvm.files.atomic import replacing

    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"--plot must end in .png, .svg or .pdf, not {path!r}")
    with on_paper():
        figure = SpeedupDisplay.from_plan(made).figure_
        with replacing(path) as sink:
            figure.savefig(sink, format=kind, dpi=150)
