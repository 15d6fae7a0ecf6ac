"""Broken sparse matrices are refused before anything reads them, wherever they come from."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR
from batchsvm.engines.cpu.indices import (
    ROWS_PER_CHECK,
    indices_are_distinct,
    indices_increase,
)
from batchsvm.engines.cpu.rows import unsigned
from batchsvm.files import DataFileError, read, write
from batchsvm.files.sparse import BrokenMatrixError, check_sparse
from batchsvm.models.fitting import certify_model, fit_model
from helpers import placed, refused

RNG = np.random.default_rng(0)
GOOD = sp.random_array(
    (12, 6), density=0.5, rng=np.random.default_rng(1), format="csr"
) + sp.eye_array(12, 6)
GOOD = sp.csr_array(GOOD)
Y = np.where(np.arange(12) % 2, 1, -1)


def changed(part, where, value):
    def fault(X):
        array = getattr(X, part).copy()
        array[where] = value
        setattr(X, part, array)

    return fault


def cut(part, count=2):
    return lambda X: setattr(X, part, getattr(X, part)[:-count])


def as_floats(part):
    return lambda X: setattr(X, part, getattr(X, part).astype(float))


FAULTS = {
    "an index too large": changed("indices", 3, 10**6),
    "an index just too large": changed("indices", 3, 6 * 12),
    "an index below zero": changed("indices", 3, -1),
    "data too short": cut("data"),
    "indices too short": cut("indices"),
    "indptr too short": cut("indptr"),
    "indptr from 2 on": changed("indptr", 0, 2),
    "indptr below zero": changed("indptr", 2, -5),
    "indptr falls": changed("indptr", 2, 10**4),
    "indptr ends late": changed("indptr", -1, 10**6),
    "indptr ends below zero": changed("indptr", -1, -1),
    "indices are no integers": as_floats("indices"),
    "indptr is no integers": as_floats("indptr"),
    "indices are a list": lambda X: setattr(X, "indices", X.indices.tolist()),
    "data is a square": lambda X: setattr(X, "data", np.ones((X.indices.size, 2))),
}
COORDINATES = {
    "a row too large": changed("row", 3, 12),
    "a row below zero": changed("row", 3, -1),
    "a column too large": changed("col", 3, 6),
    "a column below zero": changed("col", 3, -2),
    "data too short": cut("data"),
    "rows too short": cut("row"),
}


def bsr():
    return GOOD.tobsr(blocksize=(2, 3))


def longer_list(X):
    X.rows[2] = [*X.rows[2], 5] if 5 not in X.rows[2] else X.rows[2][:-1]


def far_list(X):
    X.rows[2] = [*X.rows[2][:-1], 10**6]


def offsets_too_many(X):
    X.offsets = np.arange(X.offsets.size + 3, dtype=np.int32)


BROKEN = [
    *(("csr", name) for name in FAULTS),
    *(("csc", name) for name in FAULTS),
    *(("bsr", name) for name in FAULTS if name != "data is a square"),
    *(("coo", name) for name in COORDINATES),
    ("lil", "a longer list"),
    ("lil", "a far index"),
    ("dia", "too many offsets"),
]


def broken(kind, name, wide=False):
    """A matrix of this format with this fault; `wide` if its indices are int64."""
    X = bsr() if kind == "bsr" else GOOD.asformat(kind).copy()
    if wide and kind in ("csr", "csc", "bsr"):
        X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
    special = {"a longer list": longer_list, "a far index": far_list,
               "too many offsets": offsets_too_many}  # fmt: skip
    fault = special.get(name) or (COORDINATES if kind == "coo" else FAULTS)[name]
    fault(X)
    return X


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil", "dia", "dok"])
def test_good_matrices_pass_and_stay_as_they_are(kind):
    X = bsr() if kind == "bsr" else GOOD.asformat(kind)
    before = X.toarray().copy()
    check_sparse(X)
    np.testing.assert_array_equal(X.toarray(), before)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("kind", "name"), BROKEN)
def test_a_broken_matrix_is_refused(kind, name, wide):
    with pytest.raises(BrokenMatrixError):
        check_sparse(broken(kind, name, wide))


def model():
    made, _ = fit_model(GOOD, Y, lam=0.1, random_state=0)
    return made


ENTRANCES = {
    "fit": lambda X: batchsvm.fit(X, Y, lam=0.1),
    "fit on 2 threads": lambda X: batchsvm.fit(X, Y, lam=0.1, n_jobs=2),
    "fit, reference": lambda X: batchsvm.fit(X, Y, lam=0.1, engine="reference"),
    "fit_many": lambda X: batchsvm.fit_many(X, np.arange(12) % 3, lam=0.1),
    "path": lambda X: batchsvm.path(X, Y, [0.1]),
    "place": batchsvm.place,
    "plan": batchsvm.plan,
    "sigma2": batchsvm.sigma2,
    "certify": lambda X: batchsvm.certify(X, Y, np.zeros(6), np.zeros(12)),
    "certify, reference": lambda X: batchsvm.certify(
        X, Y, np.zeros(6), np.zeros(12), engine="reference"
    ),
    "fit_model": lambda X: fit_model(X, Y, lam=0.1),
    "certify_model": lambda X: certify_model(model(), X, Y),
    "model.predict": lambda X: model().predict(X),
    "model.predict on 2 threads": lambda X: model().predict(X, n_jobs=2),
    "BatchSVC.fit": lambda X: BatchSVC(lam=0.1).fit(X, Y),
    "BatchSVR.fit": lambda X: BatchSVR(lam=0.1).fit(X, Y.astype(float)),
    "BatchSVCCV.fit": lambda X: BatchSVCCV([0.1], cv=2).fit(X, Y),
    "BatchSVC.partial_fit": lambda X: BatchSVC().partial_fit(X, Y, classes=[-1, 1]),
    "BatchSVC.predict": lambda X: BatchSVC(lam=0.1).fit(GOOD, Y).predict(X),
    "BatchSVC.predict on 2 threads": lambda X: BatchSVC(lam=0.1, n_jobs=2).fit(GOOD, Y).predict(X),
    "BatchSVR.predict": lambda X: BatchSVR(lam=0.1).fit(GOOD, Y.astype(float)).predict(X),
}
SHORT = [("csr", "data too short"), ("csr", "indptr from 2 on"), ("csr", "indptr below zero"),
         ("csr", "an index too large"), ("csc", "an index too large"),
         ("coo", "a row too large"), ("bsr", "an index too large")]  # fmt: skip


@pytest.mark.filterwarnings("ignore:X is")
@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize(("kind", "name"), SHORT)
def test_every_entrance_refuses_it(entrance, kind, name):
    for wide in (False, True):
        with pytest.raises(ValueError, match=f"X must be a valid {kind.upper()} matrix, but its "):
            ENTRANCES[entrance](broken(kind, name, wide))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X is")
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_entrance_refuses_every_fault(entrance):
    for kind, name in BROKEN:
        for wide in (False, True):
            with pytest.raises(ValueError, match=r"X must be a valid [A-Z]+ matrix, but its "):
                ENTRANCES[entrance](broken(kind, name, wide))


def test_a_tail_behind_the_last_row_is_not_read():
    """SciPy allows data and indices that go on behind the last row."""
    X = GOOD.copy()
    X.data = np.append(X.data, [np.nan, 1e300])
    X.indices = np.append(X.indices, np.array([10**6, -1], X.indices.dtype))
    for engine in ("cpu", "reference"):
        found = batchsvm.fit(X, Y, lam=0.1, random_state=0, engine=engine)
        np.testing.assert_array_equal(
            found.w, batchsvm.fit(GOOD, Y, lam=0.1, random_state=0, engine=engine).w
        )
    with placed(X) as data, placed(GOOD) as good:
        assert data.nonzeros == good.nonzeros
        assert data.mean_norm2 == good.mean_norm2
        np.testing.assert_array_equal(data.column_norms2(), good.column_norms2())


@pytest.mark.parametrize("kind", ["<i2", "u1", ">i4", ">i8", "<u4"])
def test_indices_of_any_integer_type(kind):
    X = GOOD.copy()
    X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    found = batchsvm.fit(X, Y, lam=0.1, random_state=0)
    np.testing.assert_array_equal(found.w, batchsvm.fit(GOOD, Y, lam=0.1, random_state=0).w)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_the_compiled_pass_reads_nothing_outside(kind):
    """Wherever starts point to, however many there are; the arrays lie between guards."""
    rng = np.random.default_rng(0)
    wild = np.array([-(2**31), -5, -1, 0, 1, 2, 3, 4, 5, 6, 2**31 - 1])
    for _ in range(300):
        room = np.full(40, 3, kind)
        indices = room[16:22]
        indices[:] = rng.integers(-1, 6, 6)
        starts = rng.choice(wild, 5).astype(kind)
        good = (
            starts[0] >= 0
            and (np.diff(starts.astype(np.int64)) >= 0).all()
            and starts[-1] <= indices.size
        )
        rows = [indices[a:b] for a, b in pairwise(starts)] if good else []
        inside = good and all(((r >= 0) & (r < 5)).all() for r in rows)
        increasing = inside and all((np.diff(r) > 0).all() for r in rows)
        distinct = inside and all(np.unique(r).size == r.size for r in rows)
        args = unsigned(indices), unsigned(starts)
        assert indices_increase(*args, 5, 0, 4) == increasing
        assert indices_are_distinct(*args, np.full(5, -1)) == distinct
        if not good and starts[1] < 0:  # a worker may begin anywhere
            assert not indices_increase(*args, 5, 1, 2)


@pytest.mark.parametrize("lengths", [[3], [0, 2, 5]], ids=["even", "some empty"])
def test_one_wrong_index_in_any_row_is_seen(lengths):
    counts = np.resize(lengths, 3 * ROWS_PER_CHECK)
    starts = np.append(0, np.cumsum(counts)).astype(np.int32)
    rows = [np.sort(np.random.default_rng(i).permutation(9)[:k]) for i, k in enumerate(counts)]
    indices = np.concatenate(rows).astype(np.int32)
    arguments = unsigned(starts), 9
    assert indices_increase(unsigned(indices), *arguments, 0, counts.size)
    for first in (0, 1, ROWS_PER_CHECK):
        for k in range(starts[first], indices.size):
            for wrong in (9, -1, indices[k - 1]):  # the last one is fine where a row begins
                changed = indices.copy()
                changed[k] = wrong
                begins = k in starts
                is_last = k + 1 in starts
                fits = begins and 0 <= wrong < 9 and (is_last or wrong < indices[k + 1])
                found = indices_increase(unsigned(changed), *arguments, first, counts.size)
                assert found == fits


def saved(path, X):
    """A broken matrix as scipy.sparse.save_npz would write it."""
    parts = (
        {"row": X.row, "col": X.col}
        if X.format == "coo"
        else {"indices": X.indices, "indptr": X.indptr}
    )
    np.savez(path, format=X.format.encode(), shape=X.shape, data=X.data, y=Y, **parts)


IN_FILES = [
    (kind, name) for kind, name in BROKEN if kind not in ("lil", "dia") and "list" not in name
]


@pytest.mark.parametrize(("kind", "name"), IN_FILES)
def test_a_broken_matrix_in_a_file(tmp_path, kind, name):
    saved(tmp_path / "x.npz", broken(kind, name))
    with pytest.raises(DataFileError, match=r"its matrix is damaged|is not a readable .npz file"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("command", ["train x.npz m", "plan x.npz", "convert x.npz x.svm",
                                     "predict good x.npz", "certify good x.npz"])  # fmt: skip
@pytest.mark.parametrize(("kind", "name"), SHORT)
def test_a_broken_matrix_in_a_file_of_a_command(run, tmp_path, command, kind, name):
    model().save(tmp_path / "good")
    saved(tmp_path / "x.npz", broken(kind, name))
    before = sorted(tmp_path.iterdir())
    assert refused(run(*command.split())).startswith("x.npz: ")
    assert sorted(tmp_path.iterdir()) == before


def test_a_matrix_of_very_many_rows_without_entries(tmp_path):
    X = sp.coo_array(([1.0], ([0], [0])), shape=(2**40, 2))
    sp.save_npz(tmp_path / "x.npz", X)
    with pytest.raises(DataFileError, match="its 1,099,511,627,776 rows would take 8,192 GiB"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.csv", "x.svm"])
@pytest.mark.parametrize(("kind", "fault"), SHORT)
def test_a_broken_matrix_is_not_written(tmp_path, name, kind, fault):
    with pytest.raises(BrokenMatrixError):
        write(tmp_path / name, broken(kind, fault), None)
    assert list(tmp_path.iterdir()) == []
