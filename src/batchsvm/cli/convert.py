"""batchsvm convert: from one data format to another, bit for bit."""

from __future__ import annotations

from typing import Any

import click

from batchsvm.cli import options as opt
from batchsvm.cli.loading import describe, facts, load
from batchsvm.cli.output import print_json, simple_progress
from batchsvm.cli.overwriting import refuse_overwriting, with_labels


@click.command(
    short_help="Turn one data format into another.",
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder .
  batchsvm convert breast-cancer.train.svm cancer.npz
  batchsvm convert cancer.npz cancer.svm.gz""",
)
@click.argument("data", type=opt.READ)
@click.argument("out", type=opt.DATA)
@click.option(
    "--out-label",
    default="label",
    show_default=True,
    help="Name of the label column in a table that is written.",
)
@opt.reading
@opt.as_json
def convert(data: str, out: str, out_label: str, as_json: bool, **reading: Any) -> None:
    """Write DATA to OUT in the format that the name of OUT ends in.

    .npz (sparse data as scipy.sparse.save_npz, with an entry y), .npy (labels beside it in
    NAME.labels.npy), .csv, .parquet, anything else LIBSVM text; .csv and LIBSVM text are
    compressed under .gz, .bz2, .xz. Numbers come back bit for bit. Indices of LIBSVM text count
    from where those of DATA do, or from 1.
    """
    from batchsvm.files import write

    refuse_overwriting(
        with_labels("OUT", out), with_labels("DATA", data) | {"--labels": reading["labels"]}
    )
    found = load(data, reading, labels_needed=False)
    with simple_progress(f"writing {out}") as step:
        write(
            out, found.X, found.y, label=out_label, names=found.names,
            zero_based=bool(found.zero_based), progress=step,
        )  # fmt: skip
    if as_json:
        print_json({"data": facts(found) | {"file": data}, "out": out})
        return
    click.echo(describe(data, facts(found), "any"))
    click.echo(f"written: {out}")
