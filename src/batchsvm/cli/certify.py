"""batchsvm certify: does this model do on this data what its file says?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.output import certificate_facts, class_lines, note, print_json, progress
from batchsvm.cli.rows import rows_of

DEFAULT_TOL = 1e-3


@click.command(
    short_help="Check a model file against its data.",
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder .
  batchsvm train breast-cancer.train.svm cancer.model --lam 0.01
  batchsvm certify cancer.model breast-cancer.train.svm --tol 1e-3""",
)
@click.argument("model", type=opt.DATA)
@click.argument("data", type=opt.READ)
@click.option("--tol", type=float, help="What to check for.  [default: that of the training]")
@click.option("--jobs", type=int, default=1, show_default=True, help="Threads; -1 is all cores.")
@opt.where
@opt.source
@opt.reading
@opt.as_json
def certify(model: str, data: str, tol: float | None, jobs: int, engine: str, device: int | None,
            as_json: bool, **reading: Any) -> int:  # fmt: skip
    """Compute the certificate of MODEL anew from DATA, the data it was trained on: a file, a folder
    or a pattern.

    Nothing that the file claims about its quality is believed: primal, dual and gap come
    from the coefficients, the dual point and the data. The columns of labels and weights are those
    of the training unless they are named. Exit status 1 if the bound is above --tol.
    """
    from batchsvm.core import checks
    from batchsvm.models import load as load_model
    from batchsvm.models.fingerprint import fingerprint
    from batchsvm.models.fitting import certify_model, is_within

    if tol is not None:
        checks.read_tol(tol)
    made = load_model(model)
    if tol is None:
        tol = made.plan.tol if made.plan is not None else DEFAULT_TOL
    if reading["weights"] is None:
        reading["weights"] = made.weights
    where = {"engine": engine, "device": device, "n_jobs": jobs}
    with rows_of(data, reading, where, labels_needed=True, model=made) as found:
        X, y, weights = found.X, found.y, found.weights
        differences = made.trained_on.differences(fingerprint(X, y))
        with progress("certifying"), _naming_weights(model, weights):
            certificates = certify_model(made, X, y, weights, **found.where)
        within = is_within(made, X, y, certificates, tol, weights)
    if differences:
        note(
            f"warning: {data} is not what {model} was trained on ({differences[0]}); the"
            " certificate is for this data"
        )
    worst = max(certificate.relative_gap for certificate in certificates)
    if as_json:
        print_json({
            "model": model, "data": data, "tol": tol, "within_tol": within, "relative_gap": worst,
            "same_data": not differences,
            "certificates": [certificate_facts(c) for c in certificates],
        })  # fmt: skip
        return 0 if within else 1
    floor = ", and within tol^2 of the objective at zero" if within and worst > tol else ""
    for line in class_lines(certificates, made.classes):
        click.echo(line)
    click.echo(
        f"the proven bound is {'within' if within else 'ABOVE'} tol: {worst:.3g} of the primal,"
        f" tol {tol:g}{floor}"
    )
    return 0 if within else 1


@contextmanager
def _naming_weights(model: str, weights: Any) -> Iterator[None]:
    """Say that weights may be missing, where the dual point does not fit the data."""
    try:
        yield
    except ValueError as error:
        if weights is not None or "the dual's box" not in str(error):
            raise
        raise ValueError(
            f"{error}; if {model} was trained with weights, give them by --weights"
        ) from None
