"""Reading DATA for a command, and its facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm.cli.output import label_text, simple_progress
from batchsvm.files import Data, DataFileError, IndexBaseError, read


def load(path: str, options: dict[str, Any], labels_needed: bool, model: Any = None) -> Data:
    """The data of a file, with a bar on a terminal."""
    zero_based = options.get("zero_based")
    known = {} if model is None else {"n_features": model.n_features, "names": model.feature_names}
    if options.get("features"):
        known["n_features"] = options["features"]
    with simple_progress(f"reading {path}") as step:
        data = read(
            path,
            label=options.get("label"),
            labels=options.get("labels"),
            zero_based="auto" if zero_based is None else zero_based,
            dtype=np.float32 if options.get("float32") else np.float64,
            progress=step,
            **known,
        )
    if labels_needed and data.y is None:
        raise DataFileError(
            path, "has no labels; name their column with --label, or their file with --labels"
        )
    return data


def load_for(model: Any, path: str, options: dict[str, Any], labels_needed: bool) -> Data:
    """The data of a file, its columns being those that the model was trained on.

    A file alone may not tell where its indices count from: the model knows where those of its
    training data did.
    """
    if options.get("zero_based") is not None or model.zero_based is None:
        return load(path, options, labels_needed, model)
    try:
        return load(path, options | {"zero_based": model.zero_based}, labels_needed, model)
    except IndexBaseError as error:
        base, other = ("0", "--one-based") if model.zero_based else ("1", "--zero-based")
        hint = f"the model's training data counts from {base}; if this file does not, say {other}"
        error.args = (f"{error}; {hint}",)
        raise


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


def describe(path: str, data: Data, task: str = "classification") -> str:
    found = facts(data)
    text = (
        f"{path}: {found['rows']:,} rows x {found['columns']:,} columns,"
        f" {found['nonzeros']:,} non-zeros ({100 * found['fill']:.3g} %)"
    )
    labels = found["labels"]
    if task == "classification" and labels:
        some = ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
        text += f", {len(labels)} class{'es' if len(labels) > 1 else ''}: {some}"
    return text
