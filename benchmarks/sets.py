"""The data sets of the benchmarks, from the folder named by BATCHSVM_DATA."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

# The paper's lambda, and the columns of each set.
LAM = {"rcv1": 1e-4, "arxiv": 5e-5, "news20": 1.25e-4, "cov": 1e-5}
COLUMNS = {"rcv1": 47236, "arxiv": 88245, "news20": 1351270, "cov": 54}
OUTPUT = Path("bench-output")
PARSED = OUTPUT / "parsed"


class Set(NamedTuple):
    name: str
    X: sp.csr_matrix
    y: np.ndarray
    lam: float


def path_of(name: str) -> Path:
    """The set as one .npz file that workers read; parsed once and kept."""
    kept = (PARSED / f"{name}.npz").absolute()
    if not kept.exists():
        from sklearn.datasets import load_svmlight_file

        PARSED.mkdir(parents=True, exist_ok=True)
        folder = os.environ.get("BATCHSVM_DATA")
        if not folder:
            raise SystemExit("set BATCHSVM_DATA to the folder that holds rcv1.train.svm.bz2 etc.")
        X, y = load_svmlight_file(Path(folder) / f"{name}.train.svm.bz2", n_features=COLUMNS[name])
        X = sp.csr_matrix(X)
        if name == "cov":  # the paper's setting: no row longer than 1
            X /= np.sqrt(X.multiply(X).sum(axis=1)).max()
        partial = kept.with_suffix(".partial.npz")
        np.savez(partial, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
        partial.rename(kept)
    return kept


def load(name: str) -> Set:
    """One training set, rows of norm at most 1."""
    with np.load(path_of(name)) as parts:
        # LIBLINEAR takes int32 indices only.
        indices, indptr = parts["indices"].astype(np.int32), parts["indptr"].astype(np.int32)
        X = sp.csr_matrix((parts["data"], indices, indptr), shape=tuple(parts["shape"]))
        return Set(name, X, parts["y"], LAM[name])


def objective(data: Set, w: np.ndarray) -> float:
    """P(w) of the hinge, whoever computed w."""
    return float(np.maximum(0, 1 - data.y * (data.X @ w)).mean() + data.lam / 2 * (w @ w))


def optimum(data: Set) -> float:
    """A lower bound on the smallest P, certified to 1e-8; found once and kept.

    Sub-optimality is measured from it, so that it is never understated.
    """
    kept = OUTPUT / "optima.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    key = f"{data.name}, lambda {data.lam:g}"
    if key not in known:
        import batchsvm

        exact = batchsvm.fit(
            data.X, data.y, lam=data.lam, tol=1e-8, max_epochs=100_000, random_state=0
        )
        if exact.certificate.gap > 1.1e-8:
            raise SystemExit(f"the optimum of {data.name} was not certified to 1e-8")
        known[key] = exact.certificate.dual
        OUTPUT.mkdir(exist_ok=True)
        kept.write_text(json.dumps(known, indent=1))
    return known[key]
