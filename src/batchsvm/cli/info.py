"""batchsvm info: what a model file says of itself."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from batchsvm.cli import options as opt
from batchsvm.cli.output import certificate_facts, label_text, print_json


@click.command(
    short_help="Show what a model file holds.",
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder .
  batchsvm train breast-cancer.train.svm cancer.model --lam 0.01
  batchsvm info cancer.model""",
)
@click.argument("model", type=opt.DATA)
@opt.as_json
def info(model: str, as_json: bool) -> None:
    """Show what MODEL holds. `batchsvm certify` checks it against the data."""
    from batchsvm.models import load

    made = load(model)
    found = model_facts(made)
    if as_json:
        print_json({"model": model} | found)
        return
    click.echo(f"{model}: a linear model, written by batchsvm {made.library_version}")
    lines = {
        "loss": made.loss_name + _in_words(found["loss_parameters"]),
        "lam": "-" if made.lam is None else f"{made.lam:g}",
        "method": _method(made),
        "trained on": f"{made.trained_on.n:,} rows x {made.trained_on.d:,} columns"
        + (f", labels {made.trained_on.labels[:12]}..." if made.trained_on.labels else ""),
        "columns": _columns(made),
        "classes": "none: a regressor" if made.classes is None else ", ".join(found["classes"][:8])
        + (", ..." if len(found["classes"]) > 8 else ""),
        "coefficients": f"{found['nonzeros']:,} of {made.coef.size:,} are not zero",
        "intercept": ", ".join(f"{value:.6g}" for value in made.intercept[:8].tolist())
        if made.intercept.any() else "none",
    }  # fmt: skip
    width = max(len(name) for name in lines)
    for name, text in lines.items():
        click.echo(f"  {name:<{width}}  {text}")
    for k, certificate in enumerate(made.certificates):
        several = len(made.certificates) > 1
        name = f"certificate, class {found['classes'][k]}" if several else "certificate"
        click.echo(f"  {name:<{width}}  {certificate}")
    if made.statuses:
        ended = ", ".join(sorted({name.lower().replace("_", " ") for name in made.statuses}))
        tol = "" if made.plan is None else f" (tol {made.plan.tol:g})"
        click.echo(f"  {'ended':<{width}}  {ended}{tol}")
    if not made.certificates:
        click.echo(f"  {'certificate':<{width}}  none")
    for words in made.lacks:
        click.echo(f"  {'lacks':<{width}}  {words}")


def model_facts(made: Any) -> dict[str, Any]:
    return {
        "library_version": made.library_version,
        "loss": made.loss_name,
        "loss_parameters": made.loss._asdict() if made.loss is not None else {},
        "lam": made.lam,
        "method": made.method,
        "batch_size": made.batch_size,
        "trained_on": made.trained_on._asdict(),
        "zero_based": made.zero_based,
        "feature_names": made.feature_names,
        "classes": None if made.classes is None else [label_text(c) for c in made.classes.tolist()],
        "nonzeros": int(np.count_nonzero(made.coef)),
        "intercept": made.intercept,
        "intercept_scaling": made.intercept_scaling,
        "statuses": list(made.statuses),
        "certificates": [certificate_facts(c) for c in made.certificates],
        "lacks": list(made.lacks),
    }


def _method(made: Any) -> str:
    if not made.method:
        return "-"
    serial = made.batch_size == 1 and made.method != "pegasos"
    return "serial SDCA" if serial else f"{made.method}, batch size {made.batch_size}"


def _columns(made: Any) -> str:
    names = made.feature_names
    if names is not None:
        return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    if made.zero_based is not None:
        return f"by index, from {int(not made.zero_based)}"
    return "by position"


def _in_words(parameters: dict[str, Any]) -> str:
    return f" ({', '.join(f'{k} = {v:g}' for k, v in parameters.items())})" if parameters else ""
