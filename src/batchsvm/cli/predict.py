"""batchsvm predict: labels or scores for the rows of a file."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from batchsvm.cli import options as opt
from batchsvm.cli.loading import load_for
from batchsvm.cli.output import label_text, print_json
from batchsvm.cli.overwriting import refuse_overwriting, with_labels


@click.command(
    short_help="Predict the rows of a file.",
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder .
  batchsvm train breast-cancer.train.svm cancer.model --lam 0.01
  batchsvm predict cancer.model breast-cancer.test.svm cancer.predicted""",
)
@click.argument("model", type=opt.DATA)
@click.argument("data", type=opt.DATA)
@click.argument("out", type=opt.DATA, required=False)
@click.option("--scores", is_flag=True, help="Decision values instead of labels.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Threads; -1 is all cores.")
@opt.reading
@opt.as_json
def predict(model: str, data: str, out: str | None, scores: bool, jobs: int, as_json: bool,
            **reading: Any) -> None:  # fmt: skip
    """Predict the rows of DATA with MODEL, one line a row, into OUT or onto stdout.

    If DATA has labels, the accuracy (or the mean absolute error) is shown as well. Labels that
    the model does not know count as wrong, and are named; if it knows none, there is no accuracy.
    """
    from batchsvm.models import load as load_model

    refuse_overwriting(
        {"OUT": out},
        {"MODEL": model} | with_labels("DATA", data) | {"--labels": reading["labels"]},
    )
    made = load_model(model)
    found = load_for(made, data, reading, labels_needed=False)
    decided = made.decision_function(found.X, jobs)
    predicted = made.chosen(decided)
    values = decided if scores else predicted
    quality = _quality(made, predicted, found.y)
    if out:
        _write(out, values)
    if as_json:
        shown = {"out": out} if out else {"scores" if scores else "predictions": values}
        print_json({"model": model, "data": data, "rows": len(predicted)} | quality | shown)
        return
    words = _in_words(quality)
    if out:
        click.echo(f"{len(predicted):,} predictions: {out}" + (f" ({words})" if words else ""))
        return
    click.echo(_lines(values), nl=False)
    if words:
        click.echo(words, err=True)


def _quality(made: Any, predicted: np.ndarray, y: np.ndarray | None) -> dict[str, Any]:
    """How well the labels were met; None where they are no labels for this model."""
    if y is None:
        return {}
    if made.classes is None:
        error = np.abs(predicted - y).mean() if y.dtype.kind in "fiub" else None
        return {"mean_absolute_error": error}
    truth, known = _texts(y), set(_texts(made.classes).tolist())
    foreign = np.array([label not in known for label in truth.tolist()])
    right = float((_texts(predicted) == truth).mean())
    return {
        "accuracy": None if foreign.all() else right,
        "unknown_labels": np.unique(truth[foreign]).tolist(),
        "rows_with_unknown_labels": int(foreign.sum()),
    }


def _in_words(quality: dict[str, Any]) -> str:
    if not quality:
        return ""
    if "accuracy" not in quality:
        error = quality["mean_absolute_error"]
        if error is None:
            return "no mean absolute error: the labels are no numbers"
        return f"mean absolute error {error:.6g}"
    accuracy, labels = quality["accuracy"], quality["unknown_labels"]
    some = ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
    if accuracy is None:
        return f"no accuracy: the model knows none of the labels, which are {some}"
    text = f"accuracy {accuracy:.6g}"
    if labels:
        rows = quality["rows_with_unknown_labels"]
        text += f", where {rows:,} rows count as wrong, since the model does not know {some}"
    return text


def _texts(labels: np.ndarray) -> np.ndarray:
    """Labels as text: a CSV may hold 1 where LIBSVM text held 1.0."""
    return np.array([label_text(label) for label in labels.tolist()])


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
