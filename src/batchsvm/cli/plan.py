"""batchsvm plan: how far this data can be parallelised, before any training."""

from __future__ import annotations

from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.loading import describe
from batchsvm.cli.output import print_json, progress
from batchsvm.cli.rows import is_streamed, refuse_outputs, rows_of


@click.command(
    short_help="Measure sigma^2, show what batches bring, choose a size.",
    epilog="""\b
Example:
  batchsvm data get text-like --folder .
  batchsvm plan text-like.train.svm --lam 1e-3 --plot speedup.png""",
)
@click.argument("data", type=opt.READ)
@opt.lam
@opt.tol
@opt.loss
@opt.where
@click.option("--plot", type=opt.DATA, help="Save a plot (.png, .svg or .pdf).")
@opt.source
@opt.reading
@opt.as_json
def plan(data: str, lam: float, tol: float, loss: Any, engine: str, device: int | None,
         plot: str | None, as_json: bool, **reading: Any) -> None:  # fmt: skip
    """Measure sigma^2 of DATA, and show which batch sizes bring what.

    DATA is LIBSVM text (plain, .gz, .bz2, .xz), .npz, .npy, .csv or .parquet, a folder of such
    files, or a pattern in quotes.
    """
    import numpy as np

    import batchsvm
    from batchsvm.core import checks

    refuse_outputs({"--plot": plot}, data, reading, engine)
    chosen = opt.build_loss(loss)
    regression = chosen.task == "regression"
    if is_streamed(data, reading, engine):  # the first pass may take long
        checks.read_lam("lam", lam)
        checks.read_tol(tol)
    where = {"engine": engine, "device": device, "n_jobs": None}
    with rows_of(data, reading, where, labels_needed=regression) as found:
        # Labels make no difference to a classification, and there may be more than two of them.
        y = found.y if regression else np.ones(found.n, np.int8)
        with progress("measuring sigma^2"):
            made = batchsvm.plan(found.X, y, lam, tol, chosen, **found.where)
        shape = found.facts()
    if plot:
        save_plot(made, plot)
    if as_json:
        print_json(plan_facts(made) | {"data": data, "plot": plot})
        return
    click.echo(describe(data, shape, chosen.task))
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
