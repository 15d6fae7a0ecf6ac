"""The data sets of the benchmarks, from the folder named by BATCHSVM_DATA."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

# The paper's lambda, the columns of each set, and the optimum of P (certified, see run.py).
LAM = {"rcv1": 1e-4, "arxiv": 5e-5, "news20": 1.25e-4, "cov": 1e-5}
COLUMNS = {"rcv1": 47236, "arxiv": 88245, "news20": 1351270, "cov": 54}
PARSED = Path("bench-output") / "parsed"


class Set(NamedTuple):
    name: str
    X: sp.csr_matrix
    y: np.ndarray
    lam: float


def load(name: str) -> Set:
    """One training set, rows of norm at most 1; parsed once and kept."""
    PARSED.mkdir(parents=True, exist_ok=True)
    kept = PARSED / f"{name}.npz"
    if not kept.exists():
        folder = os.environ.get("BATCHSVM_DATA")
        if not folder:
            raise SystemExit("set BATCHSVM_DATA to the folder that holds rcv1.train.svm.bz2 etc.")
        X, y = load_svmlight_file(Path(folder) / f"{name}.train.svm.bz2", n_features=COLUMNS[name])
        if name == "cov":
            X /= np.sqrt(X.multiply(X).sum(axis=1)).max()
        X = sp.csr_matrix(X)
        partial = PARSED / f"{name}.partial.npz"
        np.savez(partial, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
        partial.rename(kept)
    with np.load(kept) as parts:
        # LIBLINEAR takes int32 indices only.
        indices, indptr = parts["indices"].astype(np.int32), parts["indptr"].astype(np.int32)
        X = sp.csr_matrix((parts["data"], indices, indptr), shape=tuple(parts["shape"]))
        return Set(name, X, parts["y"], LAM[name])
