"""The data of the experiments: the paper's sets or stand-ins, and small sets for a quick run.

Files `<name>.train.svm.bz2` and `<name>.test.svm.bz2` come from the folder named by the
environment variable BATCHSVM_DATA.  Without it, the originals are downloaded from the LIBSVM
collection into the folder `reproduce-output/data`, where there is internet.
"""

from __future__ import annotations

import functools
import os
import shutil
import urllib.request
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_svmlight_file

DOWNLOADS = Path("reproduce-output") / "data"
COLLECTION = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


class Info(NamedTuple):
    """What Table 1 says of a set, and what it is here."""

    what: str
    lam: float
    columns: int = 0
    paper: str = ""  # train / test / dim / % of the paper's Table 1
    original: str = ""  # file of the LIBSVM collection


FULL = {
    "cov": Info(
        "forest covertype, class 1 against the rest; the paper's own set, our split",
        1e-5, 54, "522,911 / 58,101 / 54 / 22", "covtype.libsvm.binary.scale.bz2",
    ),
    "rcv1": Info(
        "RCV1-v2 documents, CCAT/ECAT against GCAT/MCAT; other rows than the paper's",
        1e-4, 47236, "20,242 / 677,399 / 47,236 / 0.16", "rcv1_train.binary.bz2",
    ),
    "arxiv": Info(
        "arXiv abstracts, astro-ph against the rest; stands in for astro-ph",
        5e-5, 88245, "29,882 / 32,487 / 99,757 / 0.08 (astro-ph)",
    ),
    "news20": Info(
        "20 Newsgroups as 1- to 3-grams, after the recipe of news20.binary",
        1.25e-4, 1351270, "15,020 / 4,976 / 1,355,191 / 0.04", "news20.binary.bz2",
    ),
}  # fmt: skip
QUICK = {
    "breast-cancer": Info(
        "ships with scikit-learn; standardised, rows divided by the largest", 1e-2
    ),
    "text-like": Info("generated: documents of 40 words drawn by Zipf's law, two topics", 1e-3),
}
TINY = {
    "tiny-text": Info("generated: 300 documents of 12 words", 1e-2),
}
SETS = {**FULL, **QUICK, **TINY}


class Data(NamedTuple):
    name: str
    X: np.ndarray | sp.csr_array
    y: np.ndarray
    X_test: np.ndarray | sp.csr_array
    y_test: np.ndarray
    lam: float


@functools.cache
def load(name: str) -> Data:
    """A set with rows of norm at most 1, the paper's setting."""
    if name in FULL:
        parts = _from_files(name)
    elif name == "breast-cancer":
        raw = load_breast_cancer()
        X = (raw.data - raw.data.mean(axis=0)) / raw.data.std(axis=0)
        X /= np.linalg.norm(X, axis=1).max()
        parts = _split(X, np.where(raw.target == 1, 1.0, -1.0))
    else:
        parts = _split(*(text(400, 500, 12) if name == "tiny-text" else text(5000, 10000, 40)))
    return Data(name, *parts, SETS[name].lam)


def text(n: int, d: int, words: int) -> tuple[sp.csr_array, np.ndarray]:
    """Documents whose words follow Zipf's law, half of them on each of two topics."""
    rng = np.random.default_rng(0)
    tilt = rng.permutation(np.where(np.arange(d) % 2, 4.0, 1.0))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    columns = np.empty((n, words), dtype=int)
    for label, weight in ((1.0, tilt), (-1.0, 5.0 - tilt)):
        p = weight / np.arange(10, d + 10)
        rows = y == label
        columns[rows] = rng.choice(d, size=(int(rows.sum()), words), p=p / p.sum())
    X = sp.csr_array(
        (np.ones(n * words), (np.repeat(np.arange(n), words), columns.ravel())), (n, d)
    )
    X = sp.csr_array(sp.diags_array(1 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)
    y[rng.random(n) < 0.05] *= -1
    return X, y


def _split(X, y):
    """Every fourth row is for testing."""
    test = np.arange(len(y)) % 4 == 0
    return X[~test], y[~test], X[test], y[test]


def _from_files(name: str):
    folder = os.environ.get("BATCHSVM_DATA")
    if folder:
        (X, y), (X_test, y_test) = (
            load_svmlight_file(
                Path(folder) / f"{name}.{part}.svm.bz2", n_features=FULL[name].columns
            )
            for part in ("train", "test")
        )
    else:
        if not FULL[name].original:
            raise FileNotFoundError(
                f"{name} is not in the LIBSVM collection: set BATCHSVM_DATA to a folder that has"
                f" {name}.train.svm.bz2 and {name}.test.svm.bz2"
            )
        X, y = load_svmlight_file(download(COLLECTION + FULL[name].original))
        y = np.where(y == y.max(), 1.0, -1.0)
        X, y, X_test, y_test = _split(X, y)
    if name == "cov":
        longest = np.sqrt(X.multiply(X).sum(axis=1)).max()
        X, X_test = X / longest, X_test / longest
    return sp.csr_array(X), y, sp.csr_array(X_test), y_test


def download(url: str) -> Path:
    """A file of the collection, fetched once; a broken download leaves nothing behind."""
    target = DOWNLOADS / url.rsplit("/", 1)[-1]
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".partial")
        with urllib.request.urlopen(url) as source, partial.open("wb") as sink:
            shutil.copyfileobj(source, sink)
        partial.rename(target)
    return target
