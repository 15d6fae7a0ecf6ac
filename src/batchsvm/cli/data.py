"""batchsvm data: the data sets of the experiments."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from batchsvm.cli import options as opt
from batchsvm.cli.output import print_json, simple_progress, table

NAMES = ("cov", "rcv1", "arxiv", "news20", "breast-cancer", "text-like", "tiny-text")


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in NAMES if name.startswith(incomplete)]


@click.group(
    epilog="""\b
Example:
  batchsvm data list
  batchsvm data get tiny-text --folder ."""
)
def data() -> None:
    """List data sets, and get them."""


@data.command(
    "list",
    epilog="""\b
Example:
  batchsvm data list --json""",
)
@opt.as_json
def list_sets(as_json: bool) -> None:
    """The data sets, their lambda in the paper, and where they come from."""
    from batchsvm.files.datasets import SETS, where

    if as_json:
        print_json({
            name: {"what": info.what, "lam": info.lam, "from": where(name)}
            for name, info in SETS.items()
        })  # fmt: skip
        return
    rows = [[name, where(name), info.what, f"{info.lam:g}"] for name, info in SETS.items()]
    click.echo(table(["name", "from", "what", "lam"], rows, left=3))


@data.command(
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder ."""
)
@click.argument("name", shell_complete=_complete)
@click.option("--folder", type=opt.DATA, help="Where to put it.  [default: the user's cache]")
@click.option("--collection", metavar="URL", help="Another place with the collection's files.")
@opt.as_json
def get(name: str, folder: str | None, collection: str | None, as_json: bool) -> None:
    """Get the files of the data set NAME, and print where they are.

    Large sets come from the folder BATCHSVM_DATA or the LIBSVM collection; what was fetched
    is kept, checked by its SHA-256 whenever it is asked for, and an interrupted transfer is
    resumed. Small sets are made on the spot.
    """
    from batchsvm.files import datasets

    with simple_progress(f"getting {name}") as step:
        found = datasets.get(name, Path(folder) if folder else None, step, collection)
    if as_json:
        print_json({
            "name": name, "files": list(found.paths), "from": found.source,
            "lam": datasets.SETS[name].lam,
        })  # fmt: skip
        return
    for path in found.paths:
        click.echo(path)
