"""Data files of every format: what is written comes back bit for bit, faults are named."""

from __future__ import annotations

import io
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from batchsvm.files import DataFileError, read, write
from batchsvm.files import arrays as array_files
from batchsvm.files.atomic import replacing

NAMES = [
    "a.svm",
    "a",
    "a.svm.gz",
    "a.t.bz2",
    "a.xz",
    "a.npz",
    "a.npy",
    "a.csv",
    "a.csv.xz",
    "a.parquet",
]


def matrix(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 5)) * 10.0 ** rng.integers(-300, 300, (30, 5))
    X[rng.random(X.shape) < 0.5] = 0.0
    X[3] = 0.0
    X[:, 4] = 0.1
    return X, rng.integers(-1, 2, 30)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_what_is_written_comes_back(tmp_path, name, form):
    X, y = matrix()
    write(tmp_path / name, form(X), y)
    data = read(tmp_path / name)
    back = data.X.toarray() if sp.issparse(data.X) else data.X
    np.testing.assert_array_equal(back.view(np.uint64), X.view(np.uint64))
    np.testing.assert_array_equal(data.y, y)


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.csv", "a.parquet"])
def test_labels_may_be_words(tmp_path, name):
    X, _ = matrix()
    y = np.array(["no", "yes, or so"] * 15, dtype=object if name == "a.npz" else None)
    write(tmp_path / name, X, y)
    np.testing.assert_array_equal(read(tmp_path / name).y, y)


def test_libsvm_text_refuses_words(tmp_path):
    with pytest.raises(DataFileError, match="labels that are numbers, not"):
        write(tmp_path / "a.svm", np.eye(2), ["a", "b"])
    assert list(tmp_path.iterdir()) == []


def test_scipy_reads_what_we_write(tmp_path):
    X, y = matrix()
    write(tmp_path / "a.npz", sp.csr_array(X), y)
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "a.npz").toarray(), X)
    sp.save_npz(tmp_path / "b.npz", sp.csc_matrix(X))
    data = read(tmp_path / "b.npz")
    assert data.X.format == "csr"
    assert data.y is None


def test_labels_from_another_file(tmp_path):
    X, y = matrix()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "y.txt").write_text("\n".join(map(str, y)) + "\n\n")
    (tmp_path / "w.txt").write_text("a\nb\n" * 15)
    for name in ("y.npy", "y.txt"):
        np.testing.assert_array_equal(read(tmp_path / "X.npy", labels=tmp_path / name).y, y)
    assert read(tmp_path / "X.npy", labels=tmp_path / "w.txt").y[1] == "b"
    assert read(tmp_path / "X.npy").y is None
    (tmp_path / "y.txt").write_text("1\n\n2\n")
    with pytest.raises(DataFileError, match=r"y\.txt:2: there is no label on this line"):
        read(tmp_path / "X.npy", labels=tmp_path / "y.txt")
    (tmp_path / "y.txt").write_text("1\n2\n")
    with pytest.raises(DataFileError, match=r"y\.txt: has 2 labels for 30 rows"):
        read(tmp_path / "X.npy", labels=tmp_path / "y.txt")


def test_the_label_column_by_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("size,kind,on\n1.5,x,true\n2.5,y,false\n")
    data = read(path, label="kind")
    assert data.names == ["size", "on"]
    assert data.X.tolist() == [[1.5, 1.0], [2.5, 0.0]]
    assert data.y.tolist() == ["x", "y"]
    with pytest.raises(DataFileError, match="no column 'kin' for the labels; it has 'size'"):
        read(path, label="kin")
    with pytest.raises(DataFileError, match="column 'kind' must hold numbers, not string"):
        read(path)
    path.write_text("a,label\n1,2\n,3\n")
    with pytest.raises(DataFileError, match="column 'a' has an empty cell in row 1 "):
        read(path)
    path.write_text("a,label\n")
    with pytest.raises(DataFileError, match="holds no rows"):
        read(path)
    path.write_text("label\n1\n")
    with pytest.raises(DataFileError, match="no column beside the labels"):
        read(path)
    path.write_text("a,a,label\n1,2,3\n")
    with pytest.raises(DataFileError, match="more than one column named 'a'"):
        read(path)
    table = pa.table({"a": [1, 2], "target": pa.array(["u", "v"]).dictionary_encode()})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").y.tolist() == ["u", "v"]


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.csv", "a.parquet", "a.csv.gz"])
def test_damaged_and_foreign_files(tmp_path, name):
    X, y = matrix()
    write(tmp_path / name, X, y)
    content = (tmp_path / name).read_bytes()
    for bad in (b"", b"\x00\x01\x02garbage", content[: len(content) // 2][:-1] + b"\xff\xfe,,,,"):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(DataFileError, match=name):
            read(tmp_path / name)


def test_nothing_is_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    for name in ("a.npy", "a.npz"):
        sink = io.BytesIO()
        if name == "a.npy":
            np.save(sink, np.array([Bomb()], dtype=object), allow_pickle=True)
        else:
            np.savez(sink, X=np.eye(2), y=np.array([Bomb()], dtype=object))
        (tmp_path / name).write_bytes(sink.getvalue())
        with pytest.raises(DataFileError, match="allow_pickle"):
            read(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


def test_a_sparse_matrix_with_indices_outside(tmp_path):
    X = sp.csr_matrix(np.eye(3))
    X.indices[0] = 7
    np.savez(tmp_path / "a.npz", indices=X.indices, indptr=X.indptr, data=X.data, shape=X.shape,
             format=np.bytes_("csr"))  # fmt: skip
    with pytest.raises(DataFileError, match=r"a\.npz: .*(damaged|not a readable)"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("array", [np.ones(3), np.empty((0, 2)), np.array([["a"]])])
def test_arrays_that_are_no_matrix(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataFileError, match=r"a\.npy: must hold"):
        read(tmp_path / "a.npy")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        read(tmp_path / "missing.svm")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write(tmp_path / "no" / "a.svm", np.eye(2), [1, 2])
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(DataFileError, match="has 2 columns, not 3"):
        read(tmp_path / "a.npy", n_features=3)


def test_dense_formats_refuse_what_would_be_huge(tmp_path, monkeypatch):
    monkeypatch.setattr(array_files, "MOST_DENSE_BYTES", 100)
    with pytest.raises(DataFileError, match="GiB, since this format holds every zero"):
        write(tmp_path / "a.npy", sp.csr_array(np.eye(5)), np.ones(5))


def interrupted_write(path):
    with replacing(path, text=True) as sink:
        sink.write("half")
        sink.flush()
        raise KeyboardInterrupt


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(KeyboardInterrupt):
        interrupted_write(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    with replacing(path, text=True) as sink:
        sink.write("new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    link = tmp_path / "link"
    link.symlink_to(path)
    with replacing(link, text=True) as sink:
        sink.write("newer")
    assert link.is_symlink()
    assert path.read_text() == "newer"


def test_words_of_tables_that_are_no_text(tmp_path):
    (tmp_path / "names.csv").write_bytes(b"\xc7\xff,label\n1,2\n")
    with pytest.raises(DataFileError, match="is not a readable CSV file"):
        read(tmp_path / "names.csv")
    wrong = pyarrow.array([b"\xc7", b"a"]).view(pyarrow.string())
    pyarrow.parquet.write_table(
        pyarrow.table({"x": [1.0, 2.0], "label": wrong}), tmp_path / "labels.parquet"
    )
    with pytest.raises(DataFileError, match="column 'label' holds words that are not UTF-8"):
        read(tmp_path / "labels.parquet")
