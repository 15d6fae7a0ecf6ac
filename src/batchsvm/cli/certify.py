"""batchsvm certify: does this model do on this data what its file says?"""

from __future__ import annotations

from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.loading import load_for
from batchsvm.cli.output import certificate_facts, print_json, progress

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
@click.argument("data", type=opt.DATA)
@click.option("--tol", type=float, help="What to check for.  [default: that of the training]")
@click.option("--jobs", type=int, default=1, show_default=True, help="Threads; -1 is all cores.")
@opt.where
@opt.reading
@opt.as_json
def certify(model: str, data: str, tol: float | None, jobs: int, engine: str, device: int | None,
            as_json: bool, **reading: Any) -> int:  # fmt: skip
    """Compute the certificate of MODEL anew from DATA, the data it was trained on.

    Nothing that the file claims about its quality is believed: primal, dual and gap come
    from the coefficients, the dual point and the data. Exit status 1 if the bound is above --tol.
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
    found = load_for(made, data, reading, labels_needed=True)
    y = found.y
    differences = made.trained_on.differences(fingerprint(found.X, y))
    with progress("certifying"):
        certificates = certify_model(made, found.X, y, n_jobs=jobs, engine=engine, device=device)
    if differences:
        click.echo(
            f"batchsvm: warning: {data} is not what {model} was trained on ({differences[0]});"
            " the certificate is for this data",
            err=True,
        )
    worst = max(certificate.relative_gap for certificate in certificates)
    within = is_within(made, found.X, y, certificates, tol)
    if as_json:
        print_json({
            "model": model, "data": data, "tol": tol, "within_tol": within, "relative_gap": worst,
            "same_data": not differences,
            "certificates": [certificate_facts(c) for c in certificates],
        })  # fmt: skip
        return 0 if within else 1
    floor = ", and within tol^2 of the objective at zero" if within and worst > tol else ""
    for k, certificate in enumerate(certificates):
        name = (
            f"class {made.classes[k]}: "
            if len(certificates) > 1 and made.classes is not None
            else ""
        )
        click.echo(f"{name}{certificate}")
    click.echo(
        f"the proven bound is {'within' if within else 'ABOVE'} tol: {worst:.3g} of the primal,"
        f" tol {tol:g}{floor}"
    )
    return 0 if within else 1
