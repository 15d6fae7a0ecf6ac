"""Reading DATA for a command, and its facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm.cli.output import label_text, simple_progress
from batchsvm.cli.standard_input import as_typed
from batchsvm.files import Data, DataFileError, read
from batchsvm.files.arrays import read_labels
from batchsvm.files.formats import format_of

MANY_CLASSES = 20
ZERO_BASED = "--zero-based", "--one-based"


def load(path: str, options: dict[str, Any], labels_needed: bool, model: Any = None) -> Data:
    """The data of a file, with a bar on a terminal."""
    zero_based = options.get("zero_based")
    known: dict[str, Any] = {}
    if model is not None:
        known = {"n_features": model.n_features, "names": model.feature_names}
        known["label"] = _label_for(model, path, options)
    if options.get("features"):
        known["n_features"] = options["features"]
    weights, of_rows = options.get("weights"), None
    if weights is not None and not _is_table(path):
        of_rows, weights = read_weights(weights), None
    with simple_progress(f"reading {path}") as step:
        data = read(
            path,
            labels=options.get("labels"),
            zero_based="auto" if zero_based is None else zero_based,
            dtype=np.float32 if options.get("float32") else np.float64,
            progress=step,
            columns=options.get("columns"),
            weights=weights,
            **{"label": options.get("label")} | known,
        )
    if of_rows is not None:
        if len(of_rows) != data.X.shape[0]:
            raise DataFileError(
                options["weights"], f"has {len(of_rows):,} weights for {data.X.shape[0]:,} rows"
            )
        data = data._replace(weights=of_rows)
    if labels_needed and data.y is None:
        raise DataFileError(
            path, "has no labels; name their column with --label, or their file with --labels"
        )
    return data


def _is_table(path: str) -> bool:
    return format_of(Path(path)) in (".csv", ".parquet")


def _label_for(model: Any, path: str, options: dict[str, Any]) -> str | None:
    """The column of labels: as it is named, or as it was named in training if the table has it."""
    if options.get("label") is not None or model.label is None or not _is_table(path):
        return options.get("label")
    from batchsvm.files.table_chunks import column_names

    there = Path(path).exists() and model.label in column_names(Path(path))
    return model.label if there else None


def read_weights(path: str) -> np.ndarray:
    """Weights of rows from a file of numbers, one per line, or .npy."""
    found = read_labels(Path(path))
    if found.dtype.kind not in "fiu":
        raise DataFileError(path, "must hold numbers, the weights of the rows")
    return found.astype(np.float64)


def load_for(model: Any, path: str, options: dict[str, Any], labels_needed: bool) -> Data:
    """The data of a file, its columns being those that the model was trained on.

    A file alone may not tell where its indices count from: the model knows where those of its
    training data did.
    """
    from batchsvm.models.sources import naming_base

    given = options.get("zero_based")
    base = model.zero_based if given is None else given
    with naming_base(model, given, ZERO_BASED):
        return load(path, options | {"zero_based": base}, labels_needed, model)


def facts(data: Data) -> dict[str, Any]:
    """Shape, fill and labels."""
    X, y = data.X, data.y
    n, d = X.shape
    stored = X.nnz if sp.issparse(X) else int(np.count_nonzero(X))
    classes = None
    if y is not None:
        found = np.unique(y)
        classes = [label_text(label) for label in found] if found.size <= 1000 else None
    return {
        "rows": n, "columns": d, "nonzeros": int(stored), "fill": stored / (n * d),
        "storage": "sparse" if sp.issparse(X) else "dense", "type": str(X.dtype),
        "labels": classes,
    }  # fmt: skip


def describe(data: str, found: dict[str, Any], task: str = "classification") -> str:
    """The facts of DATA in words."""
    text = f"{as_typed(data)}: {found['rows']:,} rows x {found['columns']:,} columns"
    if found["nonzeros"] is None:
        text += f", {found['storage']}"
    else:
        text += f", {found['nonzeros']:,} non-zeros ({100 * found['fill']:.3g} %)"
    labels = found["labels"]
    if task == "classification" and labels:
        few = ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
        kind = " (numbers)" if all(map(_is_number, labels)) else ""
        text += f", {len(labels)} class{'es' if len(labels) > 1 else ''}{kind}: {few}"
    return text


def about_classes(found: dict[str, Any]) -> str | None:
    """A remark where numbers are taken for classes, and there are many of them."""
    labels = found["labels"]
    count = "more than 1,000" if labels is None else str(len(labels))
    if labels is not None and (len(labels) <= MANY_CLASSES or not all(map(_is_number, labels))):
        return None
    return (
        f"the labels are numbers, which were taken as {count} classes; to predict them as numbers,"
        " use a regression loss, such as --loss huber or --loss squared_error"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
