"""Damage at random, from fixed seeds: a right answer or one sentence, never anything else.

Each function tries `count` inputs and returns how many were refused and how many were taken; the
quick tests try few of them, the slow ones those that `docs/tried.md` counts.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm import BatchSVC, BatchSVR, ModelFileError
from batchsvm.files import DataFileError, read, write
from batchsvm.files.sparse import check_sparse
from batchsvm.models.fitting import fit_model

RNG = np.random.default_rng(7)
DENSE = np.round(RNG.normal(size=(40, 5)), 3) * (RNG.random((40, 5)) < 0.7)
Y = np.where(DENSE[:, 0] > 0, 1, -1)
NAMES = ["x.npz", "sparse.npz", "csc.npz", "x.npy", "x.svm", "x.svm.gz", "x.svm.bz2", "x.svm.xz",
         "x.csv", "x.parquet"]  # fmt: skip


def made(path):
    """The bytes of a good file of this name."""
    if path.name == "csc.npz":
        sp.save_npz(path, sp.csc_array(DENSE))
    else:
        sparse = path.name == "sparse.npz" or ".svm" in path.name
        write(path, sp.csr_array(DENSE) if sparse else DENSE, Y)
    return path.read_bytes()


def damage(rng, content):
    """Cut, changed in some bytes, with a piece doubled, or with a piece left out."""
    kind, changed = rng.integers(4), bytearray(content)
    where = int(rng.integers(len(content)))
    if kind == 0:
        return bytes(changed[:where])
    if kind == 1:
        for k in rng.integers(len(content), size=int(rng.integers(1, 9))):
            changed[k] = int(rng.integers(256))
        return bytes(changed)
    length = int(rng.integers(1, 40))
    piece = changed[where : where + length]
    return bytes(changed[:where] + (piece * 2 if kind == 2 else b"") + changed[where + length :])


def damaged_data(folder, name, count, seed):
    content, rng, found = made(folder / name), np.random.default_rng(seed), Counter()
    for _ in range(count):
        (folder / name).write_bytes(damage(rng, content))
        try:
            data = read(folder / name)
        except DataFileError as error:
            assert "\n" not in str(error)
            found["refused"] += 1
            continue
        if sp.issparse(data.X):
            check_sparse(data.X)
        assert data.X.ndim == 2
        found["read"] += 1
    return found


def damaged_models(folder, count, seed):
    model, _ = fit_model(DENSE, Y, lam=0.1, random_state=0)
    model.save(folder / "m")
    content, rng, found = (folder / "m").read_bytes(), np.random.default_rng(seed), Counter()
    for _ in range(count):
        changed = damage(rng, content)
        (folder / "m").write_bytes(changed)
        try:
            batchsvm.load(folder / "m")
        except ModelFileError:
            found["refused"] += 1
        else:
            assert changed == content
            found["read"] += 1
    return found


def broken_matrices(count, seed):
    """Index arrays changed at random, through the engines, the estimators and predictions."""
    rng, found = np.random.default_rng(seed), Counter()
    fitted = BatchSVC(lam=0.1).fit(DENSE, Y)
    calls = [
        lambda X: batchsvm.fit(X, Y, lam=0.1, warn=False, max_epochs=5),
        lambda X: batchsvm.fit(X, Y, lam=0.1, engine="reference", warn=False, max_epochs=2),
        lambda X: batchsvm.certify(X, Y, np.zeros(5), np.zeros(40)),
        lambda X: BatchSVC(lam=0.1, max_epochs=5).fit(X, Y),
        fitted.predict,
    ]
    for number in range(count):
        kind = ["csr", "csc", "bsr", "coo"][int(rng.integers(4))]
        X = sp.csr_array(DENSE).asformat(kind).copy()
        parts = ["row", "col", "data"] if kind == "coo" else ["indptr", "indices", "data"]
        part = parts[int(rng.integers(3))]
        array = getattr(X, part).copy()
        if part == "data" or rng.random() < 0.3:
            array = array[: int(rng.integers(len(array) + 1))]
        else:
            array = array.astype(rng.choice([np.int32, np.int64]))
            where = rng.integers(array.size, size=int(rng.integers(1, 4)))
            array[where] = rng.choice([-(2**31), -1, 0, 1, 4, 5, 6, 100, 2**31 - 1], where.size)
        if rng.random() < 0.5 or kind == "coo":
            setattr(X, part, array)
        elif part != "data":
            X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
            setattr(X, part, array.astype(np.int64))
        try:
            check_sparse(X)
            good = True
        except ValueError:
            good = False
        try:
            calls[number % len(calls)](X)
            assert good, (kind, part)
            found["right result"] += 1
        except ValueError as error:
            assert not good, error
            found["refused"] += 1
    return found


def odd_arrays(count, seed):
    """Types, shapes, strides, orders, tables and extreme values; fit and both estimators."""
    rng, found = np.random.default_rng(seed), Counter()
    kinds = ["f2", "f4", "f8", ">f8", "g", "i1", "u8", "?", "c16", "O", "U8", "M8[s]", "V8"]
    values = [0.0, -0.0, 5e-324, 1e-310, 1e-160, 1.0, 1e149, 1e151, 1e308, np.inf, -np.inf, np.nan]
    for _ in range(count):
        n, d = int(rng.integers(0, 5)), int(rng.integers(0, 4))
        X = rng.choice(values, (n, d)) if rng.random() < 0.5 else rng.normal(size=(n, d))
        kind = str(rng.choice(kinds))
        try:
            X = X.astype(kind)
        except (TypeError, ValueError):
            X = np.zeros((n, d), kind)
        form = int(rng.integers(9))
        if form == 1:
            X = np.asfortranarray(X)
        elif form == 2:
            X = np.repeat(np.repeat(X, 2, 0), 2, 1)[::2, ::2]
        elif form == 3:
            X = X[::-1, ::-1]
        elif form == 4:
            X.flags.writeable = False
        elif form == 5 and kind not in ("V8",):
            X = pandas.DataFrame(X, columns=[f"c{k}" for k in range(d)])
        elif form == 6 and kind in ("f4", "f8", "i1", "u8", "?"):
            X = polars.DataFrame(X, schema=[f"c{k}" for k in range(d)])
        elif form == 7 and kind in ("f4", "f8", "i1", "u8", "?", "c16"):
            formats = [sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array, sp.dok_array]
            X = formats[int(rng.integers(5))](X)
        elif form == 8:
            X = X[0] if n else X[np.newaxis]
        y = rng.choice(np.array([-1, 1]), n)
        which = int(rng.integers(3))
        try:
            if which == 0:
                w = batchsvm.fit(X, y, lam=0.1, warn=False, max_epochs=5).w
            elif which == 1:
                w = BatchSVC(lam=0.1, max_epochs=5).fit(X, y).coef_
            else:
                w = BatchSVR(lam=0.1, max_epochs=5).fit(X, y.astype(float)).coef_
        except (ValueError, TypeError):  # scikit-learn's checks raise either
            found["refused"] += 1
            continue
        assert np.isfinite(w).all(), (X, w)
        found["finite model"] += 1
    return found


ROWS = "".join(f"{1 if k % 3 else -1} 1:{k % 7} 2:{k % 5} 3:{k % 11}\n" for k in range(3000))
TRAIN = "from batchsvm.cli import main; main()"


def train_process(folder, *options, limit=None):
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, "train", "x", "m", *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=limit,
    )  # fmt: skip


def struck_trainings(folder, count, seed, strike):
    """`train` over an old model, struck at a random time: the old model or a new one, whole."""
    rng, found = np.random.default_rng(seed), Counter()
    (folder / "x").write_text(ROWS)
    train_process(folder, "--lam", "1").communicate(timeout=120)
    old = (folder / "m").read_bytes()
    for _ in range(count):
        process = train_process(folder, "--lam", "0.01", "--tol", "1e-6")
        time.sleep(float(rng.uniform(0.05, 2.0)))
        process.send_signal(strike)
        _, err = process.communicate(timeout=120)
        batchsvm.load(folder / "m")
        assert "Traceback" not in err, err
        found["old model" if (folder / "m").read_bytes() == old else "new model"] += 1
        (folder / "m").write_bytes(old)
    train_process(folder, "--lam", "1").communicate(timeout=120)
    assert [name for name in os.listdir(folder) if name.endswith(".partial")] == []
    return found


def trainings_on_a_full_disk(folder, count, seed):
    """The size of files limited at random: one line that says so, and the old model."""
    rng, found = np.random.default_rng(seed), Counter()
    (folder / "x").write_text(ROWS)
    train_process(folder, "--lam", "1").communicate(timeout=120)
    old = (folder / "m").read_bytes()
    for _ in range(count):
        size = int(rng.integers(0, len(old)))

        def limit(size=size):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        process = train_process(folder, "--lam", "1", limit=limit)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 2
        assert err.splitlines()[-1] == f"batchsvm: {folder.resolve() / 'm'}: File too large"
        assert "Traceback" not in err
        assert (folder / "m").read_bytes() == old
        assert sorted(os.listdir(folder)) == ["m", "x"]
        found["one line, old model"] += 1
    return found


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", NAMES)
def test_damaged_data_files(tmp_path, name):
    assert damaged_data(tmp_path, name, 100, seed=0).total() == 100


def test_damaged_model_files(tmp_path):
    assert damaged_models(tmp_path, 100, seed=0).total() == 100


def test_broken_matrices():
    assert broken_matrices(100, seed=0).total() == 100


def test_odd_arrays():
    assert odd_arrays(150, seed=0).total() == 150


@pytest.mark.slow
@pytest.mark.parametrize("strike", [signal.SIGKILL, signal.SIGINT])
def test_a_struck_training(tmp_path, strike):
    assert struck_trainings(tmp_path, 2, 0, strike).total() == 2


def test_a_training_on_a_full_disk(tmp_path):
    assert trainings_on_a_full_disk(tmp_path, 2, seed=0).total() == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_very_many_damaged_data_files(tmp_path, name):
    print(name, damaged_data(tmp_path, name, 2000, seed=1))


@pytest.mark.slow
def test_very_many_damaged_model_files(tmp_path):
    print(damaged_models(tmp_path, 5000, seed=1))


@pytest.mark.slow
def test_very_many_broken_matrices():
    print(broken_matrices(3000, seed=1))


@pytest.mark.slow
def test_very_many_odd_arrays():
    print(odd_arrays(3000, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("strike", [signal.SIGKILL, signal.SIGINT])
def test_many_struck_trainings(tmp_path, strike):
    print(strike, struck_trainings(tmp_path, 40, 1, strike))


@pytest.mark.slow
def test_many_trainings_on_a_full_disk(tmp_path):
    print(trainings_on_a_full_disk(tmp_path, 20, seed=1))
