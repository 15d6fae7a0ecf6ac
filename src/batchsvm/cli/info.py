"""batchsvm info: what a model file says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from batchsvm.cli import options as opt
from batchsvm.cli.output import (
    certificate_facts,
    class_lines,
    label_text,
    print_json,
    status_words,
)


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
        "classes": "none: a regressor" if made.classes is None else _some(found["classes"]),
        "nonzeros": f"{found['nonzeros']:,} of {made.coef.size:,} coefficients",
        "intercept": _intercept(made),
    }  # fmt: skip
    if made.label is not None or made.weights is not None:
        named = {"label": made.label, "weights": made.weights}
        lines["table"] = ", ".join(f"--{key} {name}" for key, name in named.items() if name)
    if made.class_weights is not None:
        pairs = zip(found["classes"], made.class_weights.tolist(), strict=True)
        lines["class weights"] = _some([f"{name}={weight:.4g}" for name, weight in pairs])
    if made.statuses:
        tol = "" if made.plan is None else f" (tol {made.plan.tol:g})"
        lines["status"] = ", ".join(sorted(set(found["statuses"]))) + tol
    width = max(len(name) for name in [*lines, "certificate"])
    for name, text in lines.items():
        click.echo(f"  {name:<{width}}  {text}")
    proven = class_lines(made.certificates, made.classes) if made.certificates else ["none"]
    for k, line in enumerate(proven):
        click.echo(f"  {'certificate' if k == 0 else '':<{width}}  {line}")
    for words in made.lacks:
        click.echo(f"  {'lacks':<{width}}  {words}")


def model_facts(made: Any) -> dict[str, Any]:
    from batchsvm.core.planning import method_in_words

    return {
        "library_version": made.library_version,
        "loss": made.loss_name,
        "loss_parameters": made.loss._asdict() if made.loss is not None else {},
        "lam": made.lam,
        "method": method_in_words(made.method, made.batch_size),
        "batch_size": made.batch_size,
        "trained_on": made.trained_on._asdict(),
        "zero_based": made.zero_based,
        "feature_names": made.feature_names,
        "classes": None if made.classes is None else [label_text(c) for c in made.classes.tolist()],
        "nonzeros": int(np.count_nonzero(made.coef)),
        "intercept": made.intercept,
        "intercept_scaling": made.intercept_scaling,
        "free_intercept": made.free_intercept,
        "label": made.label,
        "weights": made.weights,
        "class_weights": made.class_weights,
        "statuses": [status_words(name) for name in made.statuses],
        "certificates": [certificate_facts(c) for c in made.certificates],
        "lacks": list(made.lacks),
    }


def _method(made: Any) -> str:
    from batchsvm.core.planning import method_in_words

    if not made.method:
        return "-"
    name = method_in_words(made.method, made.batch_size)
    return name if name != made.method else f"{name}, batch size {made.batch_size}"


def _intercept(made: Any) -> str:
    if not (made.free_intercept or made.intercept_scaling or made.intercept.any()):
        return "none"
    how = " (free)" if made.free_intercept else ""
    return _some([f"{value:.6g}" for value in made.intercept.tolist()]) + how


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")


def _columns(made: Any) -> str:
    names = made.feature_names
    if names is not None:
        return _some(names)
    if made.zero_based is not None:
        return f"by index, from {int(not made.zero_based)}"
    return "by position"


def _in_words(parameters: dict[str, Any]) -> str:
    return f" ({', '.join(f'{k} = {v:g}' for k, v in parameters.items())})" if parameters else ""
