"""Text in parts: files of CSR rows in float32 whose labels follow one noisy rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.gpu.generated import noisy_labels, text_rows, text_rule

WORDS, NOISE = 74, 0.25  # per row, and of the rule


def text_part(rows: int, columns: int, number: int) -> tuple[Any, np.ndarray]:
    """One part: words by Zipf's law with idf weights, rows of norm 1."""
    random = np.random.default_rng((1, number))
    X = text_rows(rows, columns, WORDS, random)
    y = noisy_labels(X, text_rule(columns, np.random.default_rng(0)), NOISE, random)
    return X.astype(np.float32), y


def write_parts(folder: Path, parts: int, rows: int, columns: int) -> list[Path]:
    """Files of these sizes, written unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"part{number:04d}.npz" for number in range(parts)]
    for number, path in enumerate(paths):
        if path.exists():
            continue
        X, y = text_part(rows, columns, number)
        unfinished = path.with_suffix(".partial")
        with open(unfinished, "wb") as file:
            np.savez(
                file, data=X.data, indices=X.indices.astype(np.int32),
                indptr=X.indptr.astype(np.int32), shape=np.array(X.shape), format=np.array(b"csr"),
                y=y,
            )  # fmt: skip
        unfinished.rename(path)
    return paths


def read_part(path: Path) -> tuple[Any, np.ndarray]:
    """X and y of a file of `write_parts`."""
    with np.load(path) as file:
        X = sp.csr_array((file["data"], file["indices"], file["indptr"]), tuple(file["shape"]))
        return X, file["y"]
