"""What the estimators cost, and how well they predict.

    BATCHSVM_DATA=<folder> python -m benchmarks.estimators [overhead] [intercept] [accuracy]

overhead    a fit through BatchSVC against `batchsvm.fit` of the same problem, taking turns
intercept   no intercept, a penalised one (virtual column, and a copy of X with one more column),
            a free one
accuracy    BatchSVC, LinearSVC and SGDClassifier at the same lam, five-fold cross-validation
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from statistics import median

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_hastie_10_2,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import batchsvm
from batchsvm import BatchSVC
from batchsvm.estimators import training
from benchmarks.sets import COLUMNS, load

REPEATS = 41
console = Console()


def seconds(call) -> float:
    """CPU time of this thread, in which all of a fit with n_jobs=1 runs: others' work on a shared
    machine is not in it."""
    began = time.thread_time()
    call()
    return time.thread_time() - began


def in_turn(*calls, repeats: int = REPEATS) -> list[list[float]]:
    """Times of each call, after one of each that does not count."""
    for call in calls:
        call()
    rounds = [[seconds(call) for call in calls] for _ in range(repeats)]
    return [list(column) for column in zip(*rounds, strict=True)]


def overhead() -> None:
    table = Table(
        "data", "batchsvm.fit", "BatchSVC.fit", "difference", "all but the core's fit", "in %",
        title=f"What a fit through the estimator costs more, medians of {REPEATS}",
    )  # fmt: skip
    sets = [("100 x 5", *small(100, 5), 1e-2), ("1,000 x 20", *small(1000, 20), 1e-2)]
    if os.environ.get("BATCHSVM_DATA"):
        rcv1 = load("rcv1")
        sets.append(("rcv1", rcv1.X, rcv1.y, rcv1.lam))
    for name, X, y, lam in sets:
        for bias in (None, 1.0):
            model = BatchSVC(lam=lam, fit_intercept=bias is not None, random_state=0)
            # Of two calls that follow each other, so that both meet the same machine.
            core, estimator = in_turn(
                lambda X=X, y=y, lam=lam, bias=bias: batchsvm.fit(
                    X, y, lam=lam, bias=bias, random_state=0
                ),
                lambda X=X, y=y, model=model: model.fit(X, y),
            )
            more = median(b - a for a, b in zip(core, estimator, strict=True))
            own = without_the_core(model, X, y)
            table.add_row(
                name + ("" if bias is None else ", intercept"), f"{1000 * median(core):.2f} ms",
                f"{1000 * median(estimator):.2f} ms", f"{1000 * more:.2f} ms",
                f"{1000 * own:.2f} ms", f"{100 * own / median(core):.1f}",
            )  # fmt: skip
    console.print(table)


def without_the_core(model: BatchSVC, X, y) -> float:
    """What a fit costs when the core answers at once: surer than a small difference of two fits."""
    trained = []
    train_many = training.train_many

    def remember(*args, **options):
        trained.append(train_many(*args, **options))
        return trained[-1]

    try:
        training.train_many = remember
        model.fit(X, y)
        training.train_many = lambda *args, **options: trained[-1]
        return median(in_turn(lambda: model.fit(X, y), repeats=201)[0])
    finally:
        training.train_many = train_many


def small(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1, -1)


def with_column(X):
    ones = np.ones((X.shape[0], 1))
    return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])


def intercept() -> None:
    table = Table(
        "data", "none", "penalised, virtual column", "penalised, copied column", "of it copying",
        "free", title="What an intercept costs (ms, medians of 15)",
    )  # fmt: skip
    for name in ("rcv1", "cov"):
        data = load(name)
        X, y, lam = data.X, data.y, data.lam
        common = {"lam": lam, "random_state": 0}
        times = in_turn(
            lambda X=X, y=y, c=common: BatchSVC(fit_intercept=False, **c).fit(X, y),
            lambda X=X, y=y, c=common: BatchSVC(**c).fit(X, y),
            lambda X=X, y=y, c=common: batchsvm.fit(with_column(X), y, **c),
            lambda X=X: with_column(X),
            lambda X=X, y=y, c=common: BatchSVC(intercept="free", **c).fit(X, y),
            repeats=15,
        )
        table.add_row(name, *(f"{1000 * median(column):.1f}" for column in times))
    console.print(table)


def data_sets():
    for loader in (load_iris, load_wine, load_breast_cancer, load_digits):
        X, y = loader(return_X_y=True)
        yield loader.__name__[5:], StandardScaler().fit_transform(X), y, 1e-2
    X, y = make_hastie_10_2(2000, random_state=0)
    yield "hastie", X, y, 1e-2
    X, y = make_classification(2000, 50, n_informative=10, flip_y=0.1, random_state=0)
    yield "classification", StandardScaler().fit_transform(X), y, 1e-2
    if os.environ.get("BATCHSVM_DATA"):
        for name in COLUMNS:
            data = load(name)
            rows = np.random.default_rng(0).choice(data.X.shape[0], 10_000, replace=False)
            yield f"{name} (10,000 rows)", data.X[rows], data.y[rows], data.lam


def accuracy() -> None:
    table = Table(
        "data", "lam", "BatchSVC", "LinearSVC", "SGDClassifier", "standard error",
        title="Accuracy at the same lam, five folds",
    )  # fmt: skip
    warnings.simplefilter("ignore", ConvergenceWarning)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for name, X, y, lam in data_sets():
        C = 1 / (lam * 0.8 * X.shape[0])
        models = [
            BatchSVC(lam=lam, random_state=0),
            LinearSVC(loss="hinge", C=C, random_state=0, max_iter=10_000),
            SGDClassifier(loss="hinge", alpha=lam, random_state=0, average=True, max_iter=100),
        ]
        scores = [cross_val_score(model, X, y, cv=folds) for model in models]
        error = max(s.std(ddof=1) / np.sqrt(len(s)) for s in scores)
        table.add_row(name, f"{lam:g}", *(f"{s.mean():.4f}" for s in scores), f"{error:.4f}")
    console.print(table)


SECTIONS = {"overhead": overhead, "intercept": intercept, "accuracy": accuracy}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        SECTIONS[section]()
