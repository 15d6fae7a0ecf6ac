"""batchsvm plan: what train would do, how long it may take, and what batches could bring."""

from __future__ import annotations

from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.loading import describe
from batchsvm.cli.output import print_json, progress
from batchsvm.cli.rows import is_streamed, refuse_outputs, rows_of


@click.command(
    short_help="Show what train would do, and what batches could bring.",
    epilog="""\b
Example:
  batchsvm data get text-like --folder .
  batchsvm plan text-like.train.svm --lam 1e-3 --plot speedup.png""",
)
@click.argument("data", type=opt.READ)
@opt.lam
@opt.tol
@opt.loss
@opt.steps
@opt.max_epochs
@opt.intercept
@opt.averaging
@opt.jobs
@opt.where
@opt.precision
@click.option("--theory", is_flag=True, help="Show the worst cases of Theorems 1 and 2 too.")
@click.option("--plot", type=opt.DATA, help="Save a plot (.png, .svg or .pdf).")
@opt.source
@opt.reading
@opt.as_json
def plan(data: str, lam: float, tol: float, loss: Any, method: Any, batch_size: Any,
         max_epochs: float, intercept: float | str, averaging: str, jobs: int, engine: str,
         device: int | None, precision: str, theory: bool, plot: str | None, as_json: bool,
         **reading: Any) -> None:  # fmt: skip
    """Show what train would do with DATA and the same options, how long it may take, and which
    batch sizes could bring what.

    DATA is LIBSVM text (plain, .gz, .bz2, .xz), .npz, .npy, .csv or .parquet, a folder of such
    files, or a pattern in quotes.
    """
    import batchsvm
    from batchsvm.core import checks
    from batchsvm.core.options import read_options

    refuse_outputs({"--plot": plot}, data, reading, engine)
    if plot:
        check_plot(plot)
    chosen, rule = opt.build_loss(loss), opt.build_method(method)
    averages = None if averaging == "none" else averaging
    if is_streamed(data, reading, engine):  # the first pass may take long
        checks.read_lam("lam", lam)
        read_options(rule, batch_size, tol, max_epochs, averages, precision=precision)
    where = {"engine": engine, "device": device, "n_jobs": jobs}
    with rows_of(data, reading, where, labels_needed=chosen.task == "regression") as found:
        with progress("measuring sigma^2"):
            made = batchsvm.plan(
                found.X, found.y, lam, tol, chosen, method=rule, batch_size=batch_size,
                max_epochs=max_epochs, averaging=averages, sample_weight=found.weights,
                precision=precision, **opt.intercept_options(intercept), **found.where,
            )  # fmt: skip
        shape = found.facts()
    if plot:
        save_plot(made, plot)
    if as_json:
        print_json(plan_facts(made, theory) | {"data": data, "plot": plot})
        return
    click.echo(describe(data, shape, chosen.task))
    click.echo(made.describe(theory).split("\n", 1)[1])
    if plot:
        click.echo(f"plot: {plot}")


def plan_facts(made: Any, theory: bool) -> dict[str, Any]:
    """The plan; with `theory`, the worst cases of each batch size too."""
    hidden = set() if theory else {"pegasos_T", "t0", "T0", "T"}
    rows = [row._asdict() for row in made.table]
    return {
        "rows": made.n, "columns": made.d, "lam": made.lam, "tol": made.tol,
        "sigma2": float(made.sigma2), "sigma2_how": made.sigma2.how,
        "sigma2_failure_probability": made.sigma2.failure_probability,
        "method": made.method_in_words, "fallback": made.fallback,
        "is_trial": made.is_trial,
        "batch_size": made.batch_size, "batches": made.batches,
        "workers": made.workers, "reason": made.reason, "batch_limit": made.batch_limit,
        "times": [forecast._asdict() for forecast in made.times],
        "table": [{key: row[key] for key in row if key not in hidden} for row in rows],
    }  # fmt: skip


def check_plot(path: str) -> str:
    """The kind of file that a plot goes to; refused before any work if it cannot be drawn."""
    from pathlib import Path

    from batchsvm.displays.panels import load_pyplot

    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"--plot must end in .png, .svg or .pdf, not {path!r}")
    load_pyplot()
    return kind


def save_plot(made: Any, path: str) -> None:
    from batchsvm.displays import SpeedupDisplay, on_paper
    from batchsvm.files.atomic import replacing

    kind = check_plot(path)
    with on_paper():
        figure = SpeedupDisplay.from_plan(made).figure_
        with replacing(path) as sink:
            figure.savefig(sink, format=kind, dpi=150)
