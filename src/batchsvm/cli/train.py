"""batchsvm train: from a data file to a certified model file."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.loading import describe, facts, load
from batchsvm.cli.output import certificate_facts, print_json
from batchsvm.cli.overwriting import refuse_overwriting, with_labels
from batchsvm.cli.wording import in_options


class BatchSize(click.ParamType):
    name = "integer"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "B|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        if value == "auto" or isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither 'auto' nor an integer", param, ctx)


@click.command(
    short_help="Train a model, certify it, write it to a file.",
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder .
  batchsvm train breast-cancer.train.svm cancer.model --lam 0.01 --report cancer.html""",
)
@click.argument("data", type=opt.DATA)
@click.argument("model", type=opt.DATA)
@opt.lam
@opt.loss
@click.option(
    "--method",
    type=opt.Named("method", opt.METHODS),
    default="auto",
    show_default=True,
    help=f"{', '.join(opt.METHODS)}; with a parameter: aggressive:gamma=0.9",
)
@click.option(
    "--batch-size",
    "-b",
    type=BatchSize(),
    default="auto",
    show_default=True,
    help="Rows in a batch; auto is 1 with method auto, else about 1/sigma^2.",
)
@opt.tol
@click.option(
    "--max-epochs",
    type=float,
    default=1000,
    show_default=True,
    help="Stop after this many passes over the data.",
)
@click.option(
    "--intercept",
    type=float,
    default=0.0,
    show_default=True,
    metavar="SCALE",
    help="Learn an intercept: the (penalised) coefficient of a column of SCALE.",
)
@click.option(
    "--averaging",
    type=click.Choice(["none", "tail", "decay"]),
    default="none",
    show_default=True,
    help="Return an average of the iterates.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed, the same run.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Threads; -1 is all cores.")
@opt.where
@opt.precision
@click.option(
    "--report",
    type=opt.DATA,
    help="Write a page of HTML about data, plan and fit. For its curve it certifies more often,"
    " which may give a better model.",
)
@opt.reading
@opt.as_json
def train(
    data: str,
    model: str,
    lam: float,
    loss: Any,
    method: Any,
    batch_size: Any,
    tol: float,
    max_epochs: float,
    intercept: float,
    averaging: str,
    seed: int,
    jobs: int,
    engine: str,
    device: int | None,
    precision: str,
    report: str | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Train a linear model on DATA, certify it, and write it to MODEL.

    More than two classes are trained one against the rest, each with its certificate.
    Exit status 1 says that the model was written but its proven bound is above --tol.
    """
    from batchsvm.models.fitting import fit_model

    refuse_overwriting(
        {"MODEL": model, "--report": report},
        with_labels("DATA", data) | {"--labels": reading["labels"]},
    )
    chosen, rule = opt.build_loss(loss), opt.build_method(method)
    found = load(data, reading, labels_needed=True)
    curve = report is not None and averaging != "tail"  # whose start the end decides
    made, solutions = fit_model(
        found.X,
        found.y,
        chosen,
        intercept_scaling=intercept,
        lam=lam,
        method=rule,
        batch_size=batch_size,
        tol=tol,
        max_epochs=max_epochs,
        random_state=seed,
        averaging=None if averaging == "none" else averaging,
        n_jobs=jobs,
        engine=engine,
        device=device,
        precision=precision,
        verbose=sys.stderr is not None and sys.stderr.isatty(),
        checkpoints=often(found.X.shape[0], batch_size) if curve else "auto",
    )
    names = None if found.names is None else tuple(found.names)
    made = replace(made, zero_based=found.zero_based, feature_names=names)
    made.save(model)
    if report:
        from batchsvm.displays.report import write_report

        write_report(report, made, facts(found) | {"file": data}, found.names)
    converged = all(solution.status.converged for solution in solutions)
    if as_json:
        print_json(
            {
                "data": facts(found) | {"file": data},
                "model": model,
                "report": report,
                "lam": lam,
                "tol": tol,
                "loss": made.loss_name,
                "method": made.method,
                "batch_size": made.batch_size,
                "converged": converged,
                "fits": [fit_facts(solution) for solution in solutions],
                "library_version": made.library_version,
            }
        )
    else:
        click.echo(describe(data, found, chosen.task))
        for k, solution in enumerate(solutions):
            if len(solutions) > 1 and made.classes is not None:
                click.echo(f"class {made.classes[k]} against the rest")
            click.echo(in_options(str(solution)))
        click.echo(f"model: {model}")
        if report:
            click.echo(f"report: {report}")
    return 0 if converged else 1


def often(n: int, batch_size: int | str) -> list[int]:
    """For a report: certificates that make a curve, each fourth of an epoch at first."""
    b = batch_size if isinstance(batch_size, int) and batch_size > 0 else 1
    epochs = [k / 4 for k in range(1, 17)] + list(range(5, 31))
    return sorted({max(round(epoch * n / b), 1) for epoch in epochs})


def fit_facts(solution: Any) -> dict[str, Any]:
    history = solution.history
    return {
        "status": solution.status.name,
        "why": in_options(solution.status.value),
        "certificate": certificate_facts(solution.certificate),
        "epochs": float(history.epoch[-1]),
        "iterations": int(history.iteration[-1]),
        "seconds": float(history.seconds[-1]),
        "refused": int(history.refused[-1]),
    }
