"""What is a source, and sources that are refused: one sentence that names the parameter or file."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from batchsvm.files import DataFileError, SourceChangedError, write
from batchsvm.files.sources import is_ray_dataset, is_source, open_source


class Again:
    def __iter__(self):
        return iter([(np.eye(2), [1, 2])])


class Sequenced(Again):
    def __len__(self):
        return 1

    def __getitem__(self, k):
        return [(np.eye(2), [1, 2])][k]


RayDataset = type("Dataset", (), {"__module__": "ray.data.dataset", "__iter__": None})
Materialized = type("MaterializedDataset", (RayDataset,), {})
CHUNK = (np.eye(2), [1, 2])


@pytest.mark.parametrize(
    "X",
    ["a", Path("a"), ["a", Path("b")], ("a",), [CHUNK], (CHUNK, CHUNK), Again(), Sequenced(),
     [(sp.eye_array(2).tocsr(), [1, 2], [1, 1])], [(pd.DataFrame({"a": [1]}), [1])]],
)  # fmt: skip
def test_sources(X):
    assert is_source(X)


@pytest.mark.parametrize(
    "X",
    [np.eye(2), sp.eye_array(2), pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}),
     pa.table({"a": [1]}), [[1, 2], [3, 4]], [(1, 2), (3, 4)], ((1, 2), (3, 4)), [], (), None, 1,
     iter([CHUNK]), (c for c in [CHUNK]), {"a": 1}, {1, 2}, b"a", [np.eye(2), np.eye(2)],
     [np.ones(2), np.ones(2)], RayDataset(), Materialized(), range(3)],
    ids=lambda X: type(X).__name__,
)  # fmt: skip
def test_no_sources(X):
    assert not is_source(X)


def test_datasets_of_ray_are_known_by_their_type():
    assert is_ray_dataset(RayDataset())
    assert is_ray_dataset(Materialized())
    assert not is_ray_dataset(Again())
    with pytest.raises(TypeError, match=r"ray.data.Dataset"):
        open_source(RayDataset())


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (iter([CHUNK]), TypeError, "a list_iterator can be read only once; pass a list, or an"),
        ((c for c in [CHUNK]), TypeError, "a generator can be read only once"),
        (np.eye(2), TypeError, "a source must be a path, .* not ndarray"),
        (3, TypeError, "a source must be a path, .* not int"),
        ({"a": 1}, TypeError, "a source must be a path, .* not dict"),
        ([], ValueError, "a source must have a file or a chunk"),
        (["here", 3], FileNotFoundError, "here: there is no such file or folder"),
        ([Path("data"), 3], TypeError, "must hold paths alone, not int 3"),
        ("nowhere", FileNotFoundError, "nowhere: there is no such file or folder"),
        ("no*where", FileNotFoundError, r"no\*where: no file matches this pattern"),
        ("empty", FileNotFoundError,
         "empty: holds no data file; files are .npz, .npy, .csv, .parquet, and LIBSVM text"),
        ("em*", FileNotFoundError, r"em\*: holds no data file"),
        (["data", "data/a.svm"], ValueError, "data/a.svm: is named twice; its rows would count"),
        (["data", "link.svm"], ValueError, "link.svm: is named twice, also as data/a.svm"),
        ("pipe", ValueError, "pipe: is no regular file, and a source is read more than once"),
    ],
)  # fmt: skip
def test_what_is_no_source_is_refused(tmp_path, monkeypatch, source, error, words):
    monkeypatch.chdir(tmp_path)
    for folder in ("data", "empty", "empty/below"):
        Path(folder).mkdir()
    Path("data/a.svm").write_text("1 1:1\n")
    Path("empty/_SUCCESS").write_text("")
    Path("link.svm").symlink_to("data/a.svm")
    os.mkfifo("pipe")
    with pytest.raises(error, match=words):
        open_source(source)


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("a.csv", {}, ValueError, "y must name the column of a.csv .*: one of 'label', 'a', 'b'"),
        ("a.parquet", {}, ValueError, "y must name the column of a.parquet .*: one of 'label'"),
        ("a.csv", {"y": "lab"}, DataFileError,
         "a.csv: has no column 'lab', which y names; it has 'label', 'a', 'b'"),
        ("a.csv", {"y": "label", "sample_weight": "w"}, DataFileError,
         "a.csv: has no column 'w', which sample_weight names"),
        ("a.csv", {"y": "label", "columns": ["a", "z"]}, DataFileError,
         "a.csv: has no column 'z'; it has 'label', 'a', 'b'"),
        ("a.csv", {"y": "label", "columns": ["a", "label"]}, ValueError,
         "columns must not hold 'label', which y names"),
        ("a.csv", {"y": "label", "sample_weight": "b", "columns": ["b"]}, ValueError,
         "columns must not hold 'b', which sample_weight names"),
        ("a.csv", {"y": "label", "columns": ["a", "a"]}, ValueError, "hold 'a' twice"),
        ("a.csv", {"y": "label", "columns": "a"}, TypeError, "columns must be a list of names"),
        ("a.csv", {"y": "label", "columns": []}, TypeError, "columns must be a list of names"),
        ("a.csv", {"y": "a", "sample_weight": "a"}, ValueError, "sample_weight must name another"),
        ("a.csv", {"y": [1, 2]}, TypeError, "y must be the name of a column .*, not list"),
        ("a.csv", {"y": "label", "n_features": 3}, DataFileError,
         "a.csv: has 2 columns of features, not 3 as n_features says"),
        ("a.svm", {"y": "label"}, ValueError,
         "y must be None for a.svm, which holds the labels itself, not 'label'"),
        ("a.npz", {"y": "label"}, ValueError, "y must be None for a.npz"),
        ("a.svm", {"sample_weight": "w"}, ValueError, "sample_weight names columns of tables"),
        ("a.npz", {"columns": ["a"]}, ValueError, "columns names columns of tables .* a.npz"),
        (["a.csv", "a.svm"], {"y": "label", "sample_weight": "a"}, ValueError,
         "sample_weight names columns of tables .* must be None for a.svm"),
        ([CHUNK], {"y": "label"}, ValueError, "y must be None for a source of chunks"),
        ([CHUNK], {"sample_weight": "w"}, ValueError, "sample_weight must be None for a source"),
        ([CHUNK], {"columns": ["a"]}, ValueError, "columns must be None for a source of chunks"),
        ("a.svm", {"zero_based": "maybe"}, ValueError, "zero_based must be True, False or 'auto'"),
        ("a.svm", {"n_features": 0}, ValueError, "n_features must be a positive integer or None"),
    ],
)  # fmt: skip
def test_names_that_do_not_fit(tmp_path, monkeypatch, name, options, error, words):
    monkeypatch.chdir(tmp_path)
    for file in ("a.csv", "a.parquet", "a.svm", "a.npz"):
        write(file, np.ones((3, 2)), np.arange(3), names=["a", "b"])
    with pytest.raises(error, match=words):
        open_source(name, **options)


def read_all(source, max_bytes=100):
    return [chunk for _, chunks in source.one_pass(max_bytes) for chunk in chunks]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("a,b,y\n1,2,3\n", "a,c,y\n1,2,3\n",
         r"2.csv: must have the columns of .*1.csv, but it lacks 'b' and it has 'c' more"),
        ("a,b,y\n1,2,3\n", "a,b\n1,2\n", r"2.csv: has no column 'y'; it has 'a', 'b'"),
        ("a,b,y\n1,2,3\n", "a,b,y,a\n1,2,3,4\n", r"2.csv: has more than one column named 'a'"),
        ("a,b,y\n1,2,3\n", "a,b,y\n1,2,x\n",
         r"2.csv: has words as labels, but .*1.csv has numbers"),
        ("a,b,y\n1,2,3\n", "b,a,y\n1,2,3\n4,,5\n", r"column 'a' has an empty cell in row 1 "),
        ("a,b,y\n1,2,3\n", "b,a,y\n,2,3\n", r"column 'b' has an empty cell in row 0 "),
        ("a,b,y\n1,2,3\n", "b,a,y\n1,2,3\nu,2,3\n",
         r"2.csv: column 'b' must hold numbers, not string"),
        ("a,b,y\n1,2,3\n", "a,b,y\n1,2\n", r"2.csv: is not a readable CSV file .*Expected 3"),
    ],
)  # fmt: skip
def test_tables_that_differ(tmp_path, first, second, words):
    (tmp_path / "1.csv").write_text(first)
    (tmp_path / "2.csv").write_text(second)
    source = open_source(tmp_path, y="y")
    with pytest.raises(DataFileError, match=words):
        read_all(source)


def test_an_empty_cell_is_named_by_column_and_row(tmp_path):
    values = np.arange(1000.0)
    table = pa.table({"y": values, "a": pa.array(values, mask=values == 617), "w": values})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=90)
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    for name in ("a.parquet", "a.csv"):
        for max_bytes in (1, 1 << 20):
            for given_names in ({"y": "y"}, {"y": "a"}, {"y": "y", "sample_weight": "a"}):
                source = open_source(tmp_path / name, **given_names)
                with pytest.raises(DataFileError, match="column 'a' has an empty cell in row 617 "):
                    read_all(source, max_bytes)


def test_arrays_of_another_width(tmp_path):
    write(tmp_path / "a.npz", np.ones((2, 3)), np.ones(2))
    write(tmp_path / "b.npy", np.ones((2, 4)), np.ones(2))
    with pytest.raises(DataFileError, match=r"b.npy: has 4 columns, not 3 as .*a.npz has"):
        read_all(open_source(tmp_path))
    with pytest.raises(DataFileError, match=r"a.npz: has 3 columns, not 4 as n_features says"):
        read_all(open_source(tmp_path, n_features=4))


@pytest.mark.parametrize("name", ["a.npz", "s.npz", "f.npz", "a.npy"])
def test_arrays_and_their_labels(tmp_path, name):
    X = {"s": sp.csr_array, "f": np.asfortranarray, "a": np.asarray}[name[0]](np.ones((3, 2)))
    write(tmp_path / name, X, None)
    source = open_source(tmp_path / name)
    with pytest.raises(DataFileError, match=f"{name}: holds no labels, which are a"):
        read_all(source)
    assert all(c.y is None for c in read_all(open_source(tmp_path / name, needs_labels=False)))
    write(tmp_path / name, X, np.ones(2))
    with pytest.raises(DataFileError, match="has 2 labels for 3 rows"):
        read_all(open_source(tmp_path / name))


def test_tables_without_labels_where_nobody_needs_them(tmp_path):
    write(tmp_path / "a.csv", np.ones((3, 2)), None)
    [chunk] = read_all(open_source(tmp_path / "a.csv", needs_labels=False), 1000)
    assert chunk.X.shape == (3, 2)
    assert chunk.y is None


FILES = ["a.svm.gz", "a.svm.xz", "a.svm.bz2", "a.csv.gz", "a.parquet", "a.npz", "s.npz", "a.npy"]


def saved(folder, name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)), np.arange(200)
    write(folder / name, sp.csr_array(X) if name[0] == "s" else X, y)
    return folder / name, "label" if "csv" in name or "parquet" in name else None


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_truncated_files_are_named(tmp_path, name, share):
    path, y = saved(tmp_path, name)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataFileError, match=name):
        read_all(open_source(path, y=y))


@pytest.mark.parametrize("name", ["a.npz", "s.npz"])
def test_a_changed_byte_in_an_archive_is_noticed(tmp_path, name):
    path, _ = saved(tmp_path, name)
    text = bytearray(path.read_bytes())
    where = text.index(b"PK\x01\x02") // 2
    text[where] ^= 1
    path.write_bytes(text)
    with pytest.raises(DataFileError, match=f"{name}: is not a readable .npz file"):
        read_all(open_source(path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indices": np.array([0, 9])}, "indices must lie between 0 and 2"),
        ({"indices": np.array([0, -1])}, "indices must lie between 0 and 2"),
        ({"indices": np.array([0.0, 1.0])}, "indices must be integers, not float64"),
        ({"indptr": np.array([0, 2, 1])}, "indptr must not fall"),
        ({"indptr": np.array([0, 1, 3])}, "indptr must not fall, nor go beyond"),
        ({"indptr": np.array([1, 1, 2])}, "indptr must begin with 0, not 1"),
        ({"indptr": np.array([0, 2])}, r"indptr must have 3 entries, not shape \(2,\)"),
        ({"data": np.ones(3)}, r"indices and data have shapes \(2,\) and \(3,\)"),
        ({"data": np.array(["a", "b"])}, "must hold numbers, not <U1"),
        ({"shape": np.array([2, 3, 4])}, "shape must be two counts"),
        ({"shape": np.array([2, -3])}, "shape must be two counts"),
        ({"shape": np.array([2, 0])}, r"must hold a matrix with columns, not shape \(2, 0\)"),
        ({"shape": np.zeros(10**5, dtype=int)}, r"its shape has shape \(100000,\)"),
        ({"format": np.array("csx")}, "not a readable .npz file"),
        ({"y": np.ones((2, 2))}, "labels must be one row of numbers or words"),
        ({"X": np.ones(3)}, r"must hold a matrix with columns, not shape \(3,\)"),
        ({"X": np.ones((2, 1), dtype=complex)}, "must hold numbers, not complex128"),
        ({"X": np.array([[None]])}, "holds Python objects"),
    ],
)  # fmt: skip
def test_hostile_arrays(tmp_path, change, words):
    parts = {
        "format": np.array(b"csr"), "shape": np.array([2, 3]), "data": np.ones(2),
        "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2]), "y": np.ones(2),
    }  # fmt: skip
    np.savez(tmp_path / "a.npz", **parts)
    read_all(open_source(tmp_path / "a.npz"))
    np.savez(tmp_path / "a.npz", **{**parts, **change})
    with pytest.raises(DataFileError, match=f"a.npz: .*{words}"):
        read_all(open_source(tmp_path / "a.npz"))


def test_a_header_that_promises_more_than_there_is(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**5)}
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file, file.open("X.npy", "w") as entry:
        np.lib.format.write_array_header_1_0(entry, header)
    with pytest.raises(DataFileError, match=r"a.npz: .*its X ends early"):
        open_source(tmp_path / "a.npz")


def test_errors_of_files_go_from_process_to_process():
    """Workers of a cluster raise them."""
    error = SourceChangedError("part-1.npz", "it has changed", line=7)
    error.args = (f"{error}; read it again",)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is SourceChangedError
    assert str(again) == str(error) == "part-1.npz:7: it has changed; read it again"
    assert (again.path, again.line) == ("part-1.npz", 7)
