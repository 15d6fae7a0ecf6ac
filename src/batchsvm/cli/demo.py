"""batchsvm demo: the methods of the paper on two small data sets, in seconds."""

from __future__ import annotations

import warnings
from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.output import print_json, progress, table
from batchsvm.cli.train import fit_facts

SETS = ("breast-cancer", "text-like")
# Each method with batches of about 1/sigma^2, where all work, and with much larger ones.
RUNS = [
    ("auto", 1),
    *(
        (method, times)
        for times in (1, 32)
        for method in ("pegasos", "naive", "safe", "aggressive")
    ),
]
TOL, MAX_EPOCHS = 1e-3, 100


@click.command(
    short_help="Try the methods of the paper on two small data sets.",
    epilog="""\b
Example:
  batchsvm demo""",
)
@opt.as_json
def demo(as_json: bool) -> None:
    """Plan and train with the methods of the paper on two small data sets; needs no files."""
    from batchsvm.files.datasets import load

    with progress("training") as update:
        plans, runs = {}, []
        for k, name in enumerate(SETS):
            data = load(name)
            plans[name] = _plan(data)
            for j, (method, times) in enumerate(RUNS):
                update((k + j / len(RUNS)) / len(SETS), f"{name}, {method}")
                b = min(times * plans[name].batch_limit, plans[name].n)
                runs.append(_run(data, method, b))
    if as_json:
        print_json({"runs": runs})
        return
    for name in SETS:
        plan = plans[name]
        click.echo(f"{name}: {plan.n:,} rows x {plan.d:,} columns, lam = {plan.lam:g}")
        click.echo(
            f"sigma^2 = {plan.sigma2:.3g}: batches of {plan.batch_limit} do the work of"
            f" {plan.batch_limit / _beta(plan):.3g} serial steps"
        )
        rows = [
            [run["method"], f"{run['batch_size']:,}", f"{run['iterations']:,}",
             f"{run['epochs']:.1f}", f"{run['certificate']['relative_gap']:.1e}",
             f"{run['accuracy']:.3f}", run["status"].lower().replace("_", " ")]
            for run in runs if run["data"] == name
        ]  # fmt: skip
        head = ["method", "b", "iterations", "epochs", "gap", "accuracy", "status"]
        click.echo(table(head, rows))
        click.echo()
    click.echo(
        f"Each gap is certified, tol was {TOL:g}, at most {MAX_EPOCHS} epochs."
        " Pegasos' w is better than its gap shows: its dual point is a by-product."
    )
    click.echo("Next: batchsvm train --help, with data of your own.")


def _plan(data: Any) -> Any:
    import batchsvm

    return batchsvm.plan(data.X, lam=data.lam, tol=TOL)


def _beta(plan: Any) -> float:
    from batchsvm.core.spectral import beta_b

    return beta_b(plan.batch_limit, plan.n, plan.sigma2)


def _run(data: Any, method: str, b: int) -> dict[str, Any]:
    import batchsvm

    size = "auto" if method == "auto" else b
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table says who did not get there
        solution = batchsvm.fit(
            data.X, data.y, "hinge", data.lam, method, size, TOL, MAX_EPOCHS, random_state=0
        )
    correct = (data.X_test @ solution.w > 0) == (data.y_test > 0)
    return {
        "data": data.name, "method": "serial SDCA" if method == "auto" else method,
        "batch_size": solution.batch_size, "accuracy": float(correct.mean()),
    } | fit_facts(solution)  # fmt: skip
