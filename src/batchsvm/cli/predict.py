"""batchsvm predict: labels or scores for the rows of a file, a folder or a pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from batchsvm.cli import options as opt
from batchsvm.cli.loading import ZERO_BASED, load_for
from batchsvm.cli.output import label_text, print_json, progress
from batchsvm.cli.quality import Quality
from batchsvm.cli.rows import is_streamed, open_data, refuse_outputs


@click.command(
    short_help="Predict the rows of a file.",
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder .
  batchsvm train breast-cancer.train.svm cancer.model --lam 0.01
  batchsvm predict cancer.model breast-cancer.test.svm cancer.predicted""",
)
@click.argument("model", type=opt.DATA)
@click.argument("data", type=opt.READ)
@click.argument("out", type=opt.DATA, required=False)
@click.option("--scores", is_flag=True, help="Decision values instead of labels.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Threads; -1 is all cores.")
@opt.columns
@opt.max_memory
@opt.reading
@opt.as_json
def predict(model: str, data: str, out: str | None, scores: bool, jobs: int, as_json: bool,
            **reading: Any) -> None:  # fmt: skip
    """Predict the rows of DATA with MODEL, one line a row, into OUT or onto stdout.

    DATA is a file, a folder of files, or a pattern in quotes; the rows of a folder come in the
    order of the names of its files.

    If DATA has labels, the accuracy (or the mean absolute error) is shown as well. Labels that
    the model does not know count as wrong, and are named; if it knows none, there is no accuracy.
    """
    from batchsvm.models import load as load_model

    refuse_outputs({"OUT": out}, data, reading, model=model)
    streamed = is_streamed(data, reading)
    if streamed:
        _refuse_whole(out, as_json)
    made = load_model(model)
    if streamed:
        _predict_parts(made, model, data, out, scores, jobs, as_json, reading)
        return
    found = load_for(made, data, reading, labels_needed=False)
    decided = made.decision_function(found.X, jobs)
    predicted = made.chosen(decided)
    values = decided if scores else predicted
    quality = Quality(made)
    quality.add(predicted, found.y)
    if out:
        _write(out, values)
    if as_json:
        shown = {"out": out} if out else {"scores" if scores else "predictions": values}
        print_json({"model": model, "data": data, "rows": quality.rows} | quality.facts() | shown)
        return
    if not out:
        click.echo(_lines(values), nl=False)
    _say(quality, out)


def _predict_parts(
    made: Any, model: str, data: str, out: str | None, scores: bool, jobs: int, as_json: bool,
    reading: dict[str, Any],
) -> None:  # fmt: skip
    """One pass over the parts, whose lines are written as they come."""
    from batchsvm.core.checks import read_jobs
    from batchsvm.engines.streamed.memory import chunk_bytes, read_memory
    from batchsvm.models.predict_parts import predicted
    from batchsvm.models.sources import naming_base

    jobs, size = read_jobs(jobs), chunk_bytes(read_memory(reading["max_memory"]))
    source = open_data(data, reading, labels_needed=False, model=made)
    quality = Quality(made)
    with (
        naming_base(made, reading["zero_based"], ZERO_BASED),
        _sink(out) as write,
        progress("predicting") as tell,
    ):
        for part in predicted(made, source, size, jobs):
            write(_lines(part.scores if scores else part.predictions))
            quality.add(part.predictions, part.y)
            tell(0.0, f"{quality.rows:,} rows")
    if as_json:
        shown = {"model": model, "data": data, "rows": quality.rows, "out": out}
        print_json(shown | quality.facts())
        return
    _say(quality, out)


def _refuse_whole(out: str | None, as_json: bool) -> None:
    """Refuse what would need all predictions in memory at once."""
    if as_json and out is None:
        raise click.UsageError(
            "OUT must be given with --json for DATA that is read part by part, which writes its"
            " predictions to a file"
        )
    if out is not None and out.lower().endswith(".npy"):
        raise click.UsageError(
            f"OUT must be a text file for DATA that is read part by part, not {out!r}"
        )


@contextmanager
def _sink(out: str | None) -> Iterator[Callable[[str], Any]]:
    """What takes lines: a file that is there when it is whole, or stdout."""
    from batchsvm.files.atomic import replacing

    if out is None:
        yield lambda lines: click.echo(lines, nl=False)
        return
    with replacing(out, text=True) as sink:
        yield sink.write


def _say(quality: Quality, out: str | None) -> None:
    words = quality.words()
    if out:
        click.echo(f"{quality.rows:,} predictions: {out}" + (f" ({words})" if words else ""))
    elif words:
        click.echo(words, err=True)


def _lines(values: np.ndarray) -> str:
    if values.ndim == 2:
        return "".join(" ".join(map(repr, row)) + "\n" for row in values.tolist())
    return "".join(label_text(value) + "\n" for value in values.tolist())


def _write(out: str, values: np.ndarray) -> None:
    from batchsvm.files.atomic import replacing

    if out.lower().endswith(".npy"):
        with replacing(out) as sink:
            np.save(sink, values.astype(str) if values.dtype.kind == "O" else values, False)
        return
    with replacing(out, text=True) as sink:
        sink.write(_lines(values))
