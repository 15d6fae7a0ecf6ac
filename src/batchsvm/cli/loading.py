"""Reading DATA for a command, and its facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from batchsvm.cli.output import label_text, simple_progress
from batchsvm.files import Data, DataFileError, read


def load(
    path: str, options: dict[str, Any], labels_needed: bool, columns: int | None = None
) -> Data:
    """The data of a file, with a bar on a terminal."""
    zero_based = options.get("zero_based")
    with simple_progress(f"reading {path}") as step:
        data = read(
            path,
            label=options.get("label"),
            labels=options.get("labels"),
            n_features=options.get("features") or columns,
            zero_based="auto" if zero_based is None else zero_based,
            dtype=np.float32 if options.get("float32") else np.float64,
            progress=step,
        )
    if labels_needed and data.y is None:
        raise DataFileError(
            path, "has no labels; name their column with --label, or their file with --labels"
        )
    return data


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
