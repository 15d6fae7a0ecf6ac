"""Data sets by name: those of the paper's experiments or stand-ins, and small ones.

The files `<name>.train.svm.bz2` and `<name>.test.svm.bz2` of the large sets come from the
folder named by the environment variable BATCHSVM_DATA; without it, the originals come from
the LIBSVM collection and are kept in the user's cache folder.  The small sets ship with
scikit-learn or are generated, and need neither.
"""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from batchsvm.compiled import user_cache
from batchsvm.files.download import DownloadError, Progress, fetch, verify
from batchsvm.files.errors import DataFileError
from batchsvm.files.formats import write
from batchsvm.files.libsvm import read_libsvm

COLLECTION = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
PARTS = ("train", "test")


class Original(NamedTuple):
    """A file of the LIBSVM collection, and the shape that its page states."""

    file: str
    rows: int
    columns: int


class Info(NamedTuple):
    """What the paper's Table 1 says of a set, and what it is here."""

    what: str
    lam: float
    columns: int = 0
    paper: str = ""  # train / test / dim / % of the paper's Table 1
    original: Original | None = None
    sha256: tuple[str, str] | None = None  # of the train and the test file


FULL = {
    "cov": Info(
        "forest covertype, class 1 against the rest; the paper's own set, our split",
        1e-5, 54, "522,911 / 58,101 / 54 / 22",
        Original("covtype.libsvm.binary.scale.bz2", 581012, 54),
        ("bcb61a74b33a324a665d7d47e136ed9cd17a190bc5bcd877bbb0df5047ed37f8",
         "4fc2854d6796aa58b27ccae926312b6403b26aa23912dcc800aee435eb5f3d99"),
    ),
    "rcv1": Info(
        "RCV1-v2 documents, CCAT/ECAT against GCAT/MCAT; other rows than the paper's",
        1e-4, 47236, "20,242 / 677,399 / 47,236 / 0.16",
        Original("rcv1_train.binary.bz2", 20242, 47236),
        ("aa688b7943a803478f6cc3dc61e0570e217931b5d9e6d99206442d9903d7af47",
         "569e50480c2f699f1d2f60d873403f6c014579cfe0824625cfd23e1416c19d2d"),
    ),
    "arxiv": Info(
        "arXiv abstracts, astro-ph against the rest; stands in for astro-ph",
        5e-5, 88245, "29,882 / 32,487 / 99,757 / 0.08 (astro-ph)", None,
        ("374354a6bf5f509ab36e5da30979252c3044773750486e195574596ebc817218",
         "1cf4d4b9f21b175a4554448fd930dec87c96746dd1ce6b507a2b1d1473c0bc93"),
    ),
    "news20": Info(
        "20 Newsgroups as 1- to 3-grams, after the recipe of news20.binary",
        1.25e-4, 1351270, "15,020 / 4,976 / 1,355,191 / 0.04",
        Original("news20.binary.bz2", 19996, 1355191),
        ("04789879e9342d8bd8fb5f1c20a2ff04c42be2275caab794872c93801014379b",
         "39fc117613842eb291060f8820750fd02009b07e3f284bc99579975991219a13"),
    ),
}  # fmt: skip
QUICK = {
    "breast-cancer": Info(
        "ships with scikit-learn; standardised, divided by the largest norm of a row", 1e-2
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


class Found(NamedTuple):
    """Where a set is: its files (train and test, or the one original), and whence."""

    paths: tuple[Path, ...]
    source: str


def cache_folder() -> Path:
    return user_cache() / "data"


def check_name(name: str) -> None:
    if name not in SETS:
        near = difflib.get_close_matches(name, SETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"name must be one of {', '.join(SETS)}, not {name!r}{hint}")


def where(name: str) -> str:
    """In words, where `get` would take a set from."""
    check_name(name)
    if name not in FULL:
        return "made here"
    if (folder := _given_folder()) and all(path.exists() for path in _given_files(name, folder)):
        return "BATCHSVM_DATA"
    if (original := FULL[name].original) is None:
        return "nowhere: set BATCHSVM_DATA"
    return "cache" if (cache_folder() / original.file).exists() else "LIBSVM collection"


def get(
    name: str,
    folder: Path | None = None,
    progress: Progress | None = None,
    collection: str | None = None,
) -> Found:
    """The files of a set, checked: found, fetched from the LIBSVM collection, or made.

    Parameters
    ----------
    name : str
        One of `SETS`.
    folder : path, optional
        Where to put a set that is fetched or made; the user's cache folder if missing.
    progress : callable, optional
        Is told the share that has been fetched.
    collection : str, optional
        Another place with the files of the LIBSVM collection.

    Raises
    ------
    DownloadError
        If a file cannot be fetched, or is not the one it should be.
    """
    check_name(name)
    target = cache_folder() if folder is None else Path(folder)
    if name not in FULL:
        return Found(_make(name, target), "made here")
    info = FULL[name]
    if given := _given_folder():
        paths = _given_files(name, given)
        missing = [path.name for path in paths if not path.exists()]
        if not missing:
            for path, known in zip(paths, info.sha256 or (None, None), strict=True):
                verify(path, known)
            return Found(paths, "BATCHSVM_DATA")
        if info.original is None:
            raise DownloadError(
                f"{given}: the folder BATCHSVM_DATA has no {' and no '.join(missing)}"
            )
    if info.original is None:
        raise DownloadError(
            f"{name} is not in the LIBSVM collection: set BATCHSVM_DATA to a folder that has"
            f" {name}.train.svm.bz2 and {name}.test.svm.bz2"
        )
    kept = target / info.original.file
    source = "cache" if kept.exists() else "LIBSVM collection"
    path = fetch((collection or COLLECTION) + info.original.file, kept, progress=progress)
    return Found((path,), source)


@functools.cache
def load(name: str) -> Data:
    """A set with rows of norm at most 1, the paper's setting."""
    check_name(name)
    parts = _from_files(name) if name in FULL else MAKERS[name]()
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


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer  # half a second to import

    raw = load_breast_cancer()
    X = (raw.data - raw.data.mean(axis=0)) / raw.data.std(axis=0)
    X /= np.linalg.norm(X, axis=1).max()
    return X, np.where(raw.target == 1, 1.0, -1.0)


def _split(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Every fourth row is for testing."""
    test = np.arange(len(y)) % 4 == 0
    return X[~test], y[~test], X[test], y[test]


MAKERS: dict[str, Callable[[], tuple[Any, np.ndarray, Any, np.ndarray]]] = {
    "breast-cancer": lambda: _split(*breast_cancer()),
    "text-like": lambda: _split(*text(5000, 10000, 40)),
    "tiny-text": lambda: _split(*text(400, 500, 12)),
}


def _make(name: str, folder: Path) -> tuple[Path, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    X, y, X_test, y_test = MAKERS[name]()
    paths = _paths(name, folder, ".svm")
    for path, rows, labels in zip(paths, (X, X_test), (y, y_test), strict=True):
        write(path, rows, labels)
    return paths


def _given_folder() -> Path | None:
    folder = os.environ.get("BATCHSVM_DATA")
    return Path(folder) if folder else None


def _given_files(name: str, folder: Path) -> tuple[Path, ...]:
    return _paths(name, folder, ".svm.bz2")


def _paths(name: str, folder: Path, suffix: str) -> tuple[Path, ...]:
    return tuple(folder / f"{name}.{part}{suffix}" for part in PARTS)


def _from_files(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    info, found = FULL[name], get(name)
    if len(found.paths) == 2:
        (X, y), (X_test, y_test) = (read_libsvm(path, info.columns) for path in found.paths)
    else:
        X, y = read_original(name, found.paths[0])
        X, y, X_test, y_test = _split(X, y)
    if name == "cov":
        longest = np.sqrt(X.multiply(X).sum(axis=1)).max()
        X, X_test = X / longest, X_test / longest
    return sp.csr_array(X), y, sp.csr_array(X_test), y_test


def read_original(name: str, path: Path) -> tuple[sp.csr_array, np.ndarray]:
    """A file of the collection with labels -1 and +1; refused if it has not the stated shape."""
    original = FULL[name].original
    X, y = read_libsvm(path)
    if original is not None and X.shape != (original.rows, original.columns):
        raise DataFileError(
            path, f"has {X.shape[0]:,} rows and {X.shape[1]:,} columns, not {original.rows:,} and"
            f" {original.columns:,} as the LIBSVM collection states"
        )  # fmt: skip
    return X, np.where(y == y.max(), 1.0, -1.0)
