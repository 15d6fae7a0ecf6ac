"""batchsvm train: from a data file to a certified model file."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.choosing_lam import Lams, choose_lam, table_of_lams
from batchsvm.cli.class_weights import weigh_classes
from batchsvm.cli.loading import about_classes, describe
from batchsvm.cli.output import (
    MOST_CLASSES,
    certificate_facts,
    class_lines,
    note,
    print_json,
    status_words,
)
from batchsvm.cli.rows import is_streamed, refuse_outputs, rows_of
from batchsvm.cli.standard_input import as_typed
from batchsvm.cli.wording import in_options


@click.command(
    short_help="Train a model, certify it, write it to a file.",
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder .
  batchsvm train breast-cancer.train.svm cancer.model --lam 0.01 --report cancer.html
  batchsvm train "breast-cancer.tr*.svm" cancer.model --lam 0.01 --max-memory 200MB""",
)
@click.argument("data", type=opt.READ)
@click.argument("model", type=opt.DATA)
@opt.lam
@opt.loss
@opt.steps
@opt.tol
@opt.max_epochs
@opt.intercept
@click.option(
    "--class-weight",
    type=opt.ClassWeight(),
    help="What the weights of the rows of each class are multiplied by; balanced gives all classes"
    " the same total weight.",
)
@click.option(
    "--cv",
    type=click.IntRange(min=2),
    metavar="FOLDS",
    help="Choose lam by cross-validation, in the place of --lam, and show what each came to.",
)
@click.option("--lams", type=Lams(), help="What --cv tries.  [default: 10 values]")
@opt.averaging
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed, the same run.")
@opt.jobs
@opt.where
@opt.precision
@click.option(
    "--report",
    type=opt.DATA,
    help="Write a page of HTML about data, plan and fit. For its curve it certifies more often,"
    " which may give a better model.",
)
@click.option(
    "--checkpoint",
    type=opt.DATA,
    metavar="FILE",
    help="Stream DATA, and save the training to FILE after its passes; the same command goes on"
    " from there.",
)
@opt.source
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
    intercept: float | str,
    class_weight: Any,
    cv: int | None,
    lams: tuple[float, ...] | None,
    averaging: str,
    seed: int,
    jobs: int,
    engine: str,
    device: int | None,
    precision: str,
    report: str | None,
    checkpoint: str | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Train a linear model on DATA, certify it, and write it to MODEL.

    DATA is a file, a folder of files, a pattern in quotes, or - for standard input (LIBSVM text or
    CSV). A file is read into memory; with --max-memory, --cache or --checkpoint it is streamed from
    the disk part by part, as a folder or a pattern is.

    More than two classes are trained one against the rest, each with its certificate.
    Exit status 1 says that the model was written but its proven bound is above --tol.
    """
    from batchsvm.core.planning import method_in_words
    from batchsvm.models.fitting import check_options, fit_model

    reading["checkpoint"] = checkpoint
    outputs = {"MODEL": model, "--report": report, "--checkpoint": checkpoint}
    refuse_outputs(outputs, data, reading, engine)
    if report:
        from batchsvm.displays.panels import load_pyplot

        load_pyplot()  # which says what is missing before any work
    streamed = is_streamed(data, reading, engine)
    if lams is not None and cv is None:
        raise click.UsageError("--lams must come with --cv, which chooses one of them")
    chosen, rule = opt.build_loss(loss), opt.build_method(method)
    options = {
        "intercept_scaling": 0.0 if intercept == "free" else intercept,
        "free_intercept": intercept == "free", "lam": lam, "method": rule,
        "batch_size": batch_size, "tol": tol, "max_epochs": max_epochs, "random_state": seed,
        "averaging": None if averaging == "none" else averaging, "precision": precision,
    }  # fmt: skip
    if streamed:  # the first pass may take long
        check_options(**options)
    where = {"engine": engine, "device": device, "n_jobs": jobs}
    with rows_of(data, reading, where, labels_needed=True) as found:
        # For the curve of a report; what is streamed is certified in each pass.  Where the mean of
        # the tail starts, the end decides.
        curve = report is not None and averaging != "tail" and not streamed
        weighing = weigh_classes(class_weight, found, chosen)
        lam_table = None
        if cv is not None:
            lam_table = choose_lam(
                found, chosen, cv, lams, options | {"class_weight": weighing.given}
            )
            options["lam"] = lam_table["lam"]
        if curve:  # Newton's iterations are few, and counted otherwise
            curve = not takes_newton(found, chosen, weighing.weights, options)
        made, solutions = fit_model(
            found.X,
            found.y,
            chosen,
            sample_weight=weighing.weights,
            verbose=sys.stderr is not None and sys.stderr.isatty(),
            checkpoints=often(found.n, batch_size) if curve else "auto",
            checkpoint=checkpoint,
            **options,
            **found.where,
        )
        made = replace(
            made, zero_based=found.zero_based, feature_names=found.names, label=found.label,
            weights=found.weights_column, class_weights=weighing.factors,
        )  # fmt: skip
        shape = found.facts()
    if chosen.task == "regression":
        shape["labels"] = None  # they are numbers, not classes
    made.save(model)
    if report:
        from batchsvm.displays.report import write_report

        names = None if made.feature_names is None else list(made.feature_names)
        write_report(report, made, shape | {"file": as_typed(data)}, names)
    converged = all(solution.status.converged for solution in solutions)
    if chosen.task == "classification" and (remark := about_classes(shape)):
        note(remark)
    if as_json:
        print_json(
            {
                "data": shape | {"file": data},
                "model": model,
                "report": report,
                "cv": lam_table,
                "lam": options["lam"],
                "tol": tol,
                "loss": made.loss_name,
                "method": method_in_words(made.method, made.batch_size),
                "batch_size": made.batch_size,
                "converged": converged,
                "fits": [fit_facts(solution) for solution in solutions],
                "library_version": made.library_version,
            }
        )
        return 0 if converged else 1
    click.echo(describe(data, shape, chosen.task))
    if lam_table is not None:
        click.echo(table_of_lams(lam_table))
    tails = [in_options(str(solution)).split("\n")[0] + "\n" for solution in solutions]
    for line in class_lines(made.certificates, made.classes, tails):
        click.echo(line)
    if len(solutions) > MOST_CLASSES:
        within = sum(solution.status.converged for solution in solutions)
        click.echo(f"{within:,} of {len(solutions):,} classes are within --tol")
    click.echo(f"model: {model}")
    if report:
        click.echo(f"report: {report}")
    return 0 if converged else 1


def takes_newton(found: Any, loss: Any, weights: Any, options: dict[str, Any]) -> bool:
    """Whether "auto" is Newton's method, or is likely to go on with it."""
    import batchsvm
    from batchsvm.methods import Newton

    if options["method"] != "auto" or options["batch_size"] != "auto":
        return False
    intercept = "free" if options["free_intercept"] else options["intercept_scaling"]
    plan = batchsvm.plan(
        found.X, found.y, options["lam"], options["tol"], loss, sample_weight=weights,
        max_epochs=options["max_epochs"], averaging=options["averaging"],
        **opt.intercept_options(intercept), **found.where,
    )  # fmt: skip
    return plan.method == Newton.name or plan.is_trial


def often(n: int, batch_size: int | str) -> list[int]:
    """For a report: certificates that make a curve, each fourth of an epoch at first."""
    b = batch_size if isinstance(batch_size, int) and batch_size > 0 else 1
    epochs = [k / 4 for k in range(1, 17)] + list(range(5, 31))
    return sorted({max(round(epoch * n / b), 1) for epoch in epochs})


def fit_facts(solution: Any) -> dict[str, Any]:
    history = solution.history
    return {
        "status": status_words(solution.status.name),
        "why": in_options(solution.status.value),
        "certificate": certificate_facts(solution.certificate),
        "epochs": float(history.epoch[-1]),
        "iterations": int(history.iteration[-1]),
        "seconds": float(history.seconds[-1]),
        "refused": int(history.refused[-1]),
    }
