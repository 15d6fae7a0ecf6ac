"""The data sets of the benchmarks: four from the folder BATCHSVM_DATA, and generated ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.generated import dense_set, sparse_set

# The paper's lambda; the generated sets have one of the same size.
LAM = {
    "rcv1": 1e-4, "arxiv": 5e-5, "news20": 1.25e-4, "cov": 1e-5, "dense": 1e-4,
    "small-sparse": 1e-3, "small-dense": 1e-3,
}  # fmt: skip
COLUMNS = {"rcv1": 47236, "arxiv": 88245, "news20": 1351270, "cov": 54}
GENERATED = {
    "dense": lambda: dense_set(100_000, 300),
    "small-sparse": lambda: sparse_set(1_000, 500, 20),
    "small-dense": lambda: dense_set(1_000, 20),
}
OUTPUT = Path("bench-output")
PARSED = OUTPUT / "parsed"


class Set(NamedTuple):
    name: str
    X: sp.csr_matrix | np.ndarray
    y: np.ndarray
    lam: float

    @property
    def dense(self) -> bool:
        return isinstance(self.X, np.ndarray)

    @property
    def data_bytes(self) -> int:
        parts = [self.X] if self.dense else [self.X.data, self.X.indices, self.X.indptr]
        return sum(part.nbytes for part in parts)


def path_of(name: str) -> Path:
    """The set as one .npz file that workers read; made once and kept."""
    kept = (PARSED / f"{name}.npz").absolute()
    if not kept.exists():
        X, y = GENERATED[name]() if name in GENERATED else read_file(name)
        PARSED.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".partial.npz")
        if isinstance(X, np.ndarray):
            np.savez(partial, X=X, y=y)
        else:
            np.savez(partial, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
        partial.rename(kept)
    return kept


def read_file(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    from sklearn.datasets import load_svmlight_file

    folder = os.environ.get("BATCHSVM_DATA")
    if not folder:
        raise SystemExit("set BATCHSVM_DATA to the folder that holds rcv1.train.svm.bz2 etc.")
    X, y = load_svmlight_file(Path(folder) / f"{name}.train.svm.bz2", n_features=COLUMNS[name])
    X = sp.csr_matrix(X)
    if name == "cov":  # the paper's setting: no row longer than 1
        X /= np.sqrt(X.multiply(X).sum(axis=1)).max()
    return X, y


def load(name: str) -> Set:
    """One training set; rows of norm 1 or so."""
    with np.load(path_of(name)) as parts:
        if "X" in parts:
            return Set(name, parts["X"], parts["y"], LAM[name])
        # LIBLINEAR takes int32 indices only.
        indices, indptr = parts["indices"].astype(np.int32), parts["indptr"].astype(np.int32)
        X = sp.csr_matrix((parts["data"], indices, indptr), shape=tuple(parts["shape"]))
        return Set(name, X, parts["y"], LAM[name])
