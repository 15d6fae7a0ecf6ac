"""Files as sources: the same rows as `read` gives, in chunks that stay small."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsvm.files import DataFileError, IndexBaseError, cutting, libsvm_chunks, read, write
from batchsvm.files.cutting import cut
from batchsvm.files.sources import open_source

TABLES = [
    "a.csv", "a.csv.gz", "a.csv.bz2", "a.csv.xz", "a.parquet", "a.pq",
]  # fmt: skip
OTHERS = ["a.svm", "a", "a.svm.gz", "a.t.bz2", "a.xz", "a.npz", "a.npy"]


def matrix(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-300, 300, (n, d))
    X[rng.random(X.shape) < 0.5] = 0.0
    X[3 % n] = 0.0
    X[0] = 0.5  # the first chunk of text has all columns
    return X, rng.integers(-1, 2, n)


def all_chunks(source, max_bytes=1 << 20):
    return [chunk for _, chunks in source.one_pass(max_bytes) for chunk in chunks]


def dense(X, d):
    X = X.toarray() if sp.issparse(X) else X
    return np.pad(X, ((0, 0), (0, d - X.shape[1])))


def joined(chunks):
    """X, y and weights of all chunks; columns that a chunk lacks are zero."""
    d = max(chunk.X.shape[1] for chunk in chunks)
    X = np.vstack([dense(chunk.X, d) for chunk in chunks])
    rest = [
        None if parts[0] is None else np.concatenate(parts)
        for parts in ([c.y for c in chunks], [c.weights for c in chunks])
    ]
    return X, *rest


def nbytes(chunk):
    X = chunk.X
    own = X.data.nbytes + X.indices.nbytes + X.indptr[1:].nbytes if sp.issparse(X) else X.nbytes
    return own + sum(part.nbytes for part in chunk[1:] if part is not None)


def assert_same(found, X, y):
    np.testing.assert_array_equal(found[0].view(np.uint64), X.view(np.uint64))
    np.testing.assert_array_equal(found[1], y)


@pytest.mark.parametrize("max_bytes", [1, 200, 1000, 1 << 20])
@pytest.mark.parametrize("name", TABLES + OTHERS)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_are_those_of_read(tmp_path, name, form, max_bytes, monkeypatch):
    monkeypatch.setattr(cutting, "LEAST_BLOCK", 64)  # many blocks of a small file
    X, y = matrix()
    write(tmp_path / name, form(X), y)
    whole = read(tmp_path / name)
    source = open_source(tmp_path / name, y="label" if name in TABLES else None)
    [part] = source.parts
    chunks = list(part.chunks(max_bytes))
    assert_same(joined(chunks), dense(whole.X, 5), whole.y)
    assert_same(joined(all_chunks(source, max_bytes)), X, y)
    assert {sp.issparse(chunk.X) for chunk in chunks} == {sp.issparse(whole.X)}
    assert max(chunk.X.shape[0] for chunk in chunks) == 1 or max(map(nbytes, chunks)) <= max_bytes
    if max_bytes == 1:
        assert len(chunks) == len(y)
    if max_bytes == 1 << 20 and name in ("a.npz", "a.npy"):
        assert len(chunks) == 1


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, bool, ">f8", np.float16])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_npz_of_every_type(tmp_path, save, dtype, order, max_bytes):
    X = np.asarray(np.random.default_rng(0).integers(0, 3, (40, 3)), dtype=dtype, order=order)
    words = np.array(["yes", "no, or so"] * 20)
    save(tmp_path / "a.npz", X=X, y=words)
    chunks = all_chunks(open_source(tmp_path / "a.npz"), max_bytes)
    real = np.float32 if dtype == np.float32 else np.float64
    assert {chunk.X.dtype for chunk in chunks} == {np.dtype(real)}
    assert all(chunk.X.flags.writeable and chunk.X.dtype.isnative for chunk in chunks)
    found = joined(chunks)
    np.testing.assert_array_equal(found[0], X)
    np.testing.assert_array_equal(found[1], words)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.coo_array, sp.bsr_array])
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_sparse_npz_of_every_format(tmp_path, form, compressed, max_bytes):
    X = sp.random_array((200, 30), density=0.1, rng=np.random.default_rng(1))
    y = np.arange(200)
    sp.save_npz(tmp_path / "x.npz", form(X), compressed=compressed)
    with np.load(tmp_path / "x.npz") as file:
        (np.savez_compressed if compressed else np.savez)(tmp_path / "a.npz", y=y, **file)
    found = joined(all_chunks(open_source(tmp_path / "a.npz"), max_bytes))
    assert_same(found, X.toarray(), y)


SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**16))


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.booleans(), st.booleans(), st.booleans(), st.integers(1, 400))
def test_a_cut_keeps_rows_and_bounds(shape, is_sparse, single, weighted, max_bytes):
    n, d, seed = shape
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (n, d)).astype(np.float32 if single else np.int8)
    y, weights = np.arange(n), rng.random(n) if weighted else None
    chunks = list(cut(sp.csr_array(X) if is_sparse else X, y, weights, max_bytes))
    found = joined(chunks)
    np.testing.assert_array_equal(found[0], X)
    np.testing.assert_array_equal(found[1], y)
    assert (found[2] is None) == (weights is None)
    if weights is not None:
        np.testing.assert_array_equal(found[2], weights)
    for chunk, after in zip(chunks, [*chunks[1:], None], strict=True):
        assert chunk.X.shape[0] == 1 or nbytes(chunk) <= max_bytes
        if after is not None:  # the next row would have been too much
            more = next(cut(after.X, after.y, after.weights, 1))
            assert nbytes(chunk) + nbytes(more) > max_bytes
        assert chunk.X.dtype == (np.float32 if single else np.float64)


def test_parquet_with_row_groups_columns_in_order_and_weights(tmp_path):
    X, y = matrix(100, 3)
    table = pa.table(
        {
            "c": X[:, 2], "skipped": ["?"] * 100, "w": np.arange(100), "a": X[:, 0],
            "on": X[:, 1] > 0, "y": [f"class {k}" for k in y],
        }
    )  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=7)
    pyarrow.csv.write_csv(table, tmp_path / "b.csv")
    for name in ("a.parquet", "b.csv"):
        source = open_source(tmp_path / name, y="y", sample_weight="w", columns=["a", "on", "c"])
        for max_bytes in (1, 500, 1 << 20):
            found = joined(all_chunks(source, max_bytes))
            np.testing.assert_array_equal(
                found[0], np.column_stack([X[:, 0], X[:, 1] > 0, X[:, 2]])
            )
            np.testing.assert_array_equal(found[1], table.column("y").to_pylist())
            np.testing.assert_array_equal(found[2], np.arange(100.0))


def test_float32_stays_if_all_columns_are(tmp_path):
    single, double = np.ones(3, dtype=np.float32), np.ones(3)
    for name, other, expected in (("a", single, np.float32), ("b", double, np.float64)):
        table = pa.table({"y": [1, 2, 3], "s": single, "t": other})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
        [chunk] = all_chunks(open_source(tmp_path / f"{name}.parquet", y="y"))
        assert chunk.X.dtype == expected
        assert chunk.y.dtype == np.int64


def test_numbers_of_csv_may_become_fractions_later(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "LEAST_BLOCK", 16)
    path = tmp_path / "a.csv"
    path.write_text("a,y\n" + "1,2\n" * 20 + "1.5,2.5\n" + "true,1\n")
    source = open_source(path, y="y")
    with pytest.raises(DataFileError, match=r"a.csv: column 'a' holds numbers .* 'true'"):
        all_chunks(source, 16)
    path.write_text("a,y\n\n\n" + "1,2\n" * 20 + "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n1.5,2.5\n")
    found = joined(all_chunks(open_source(path, y="y"), 16))
    assert found[0].ravel().tolist() == [1.0] * 20 + [1.5]
    assert found[1].tolist() == [2.0] * 20 + [2.5]
    path.write_text("a,y\n" + "1,2\n" * 20 + "1,two\n")
    with pytest.raises(DataFileError, match=r"a.csv: column 'y' holds numbers .* 'two'"):
        all_chunks(open_source(path, y="y"), 16)


def test_a_csv_line_may_be_longer_than_a_block(tmp_path):
    names = [f"feature_{k:06d}" for k in range(8000)]
    assert len(",".join(names)) > cutting.LEAST_BLOCK
    X = np.arange(3 * 8000.0).reshape(3, 8000)
    write(tmp_path / "a.csv", X, np.array(["x", "y", "x"]), names=names)
    found = joined(all_chunks(open_source(tmp_path / "a.csv", y="label"), 1))
    assert_same(found, X, ["x", "y", "x"])


def peak(source, max_bytes):
    tracemalloc.start()
    rows = 0
    for _, chunks in source.one_pass(max_bytes):
        for chunk in chunks:
            rows += chunk.X.shape[0]
            del chunk
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return rows, found


@pytest.mark.parametrize(
    "name", ["a.svm", "a.svm.gz", "a.npz", "dense.npz", "dense.npy", "dense.csv", "dense.parquet"]
)
def test_memory_is_bounded_by_max_bytes(tmp_path, name):
    n, d = 40_000, 40
    rng = np.random.default_rng(0)
    X = rng.integers(0, 1000, (n, d)) / 8.0
    write(tmp_path / name, X if "dense" in name else sp.csr_array(X), np.ones(n))
    size = n * d * 8
    source = open_source(tmp_path / name, y="label" if name[-3:] in ("csv", "uet") else None)
    peak(source, 1 << 20)  # what is imported and compiled
    for max_bytes in (1 << 20, 1 << 21):
        rows, found = peak(source, max_bytes)
        assert rows == n
        # tracemalloc counts arrays that the parser of text asks for and never touches.
        assert found < 3 * max_bytes + (1 << 20) < size


def test_arrow_memory_is_bounded_by_pages(tmp_path):
    table = pa.table({f"x{k}": np.random.default_rng(k).random(200_000) for k in range(8)})
    table = table.append_column("y", [np.zeros(200_000)])
    pyarrow.parquet.write_table(
        table, tmp_path / "a.parquet", use_dictionary=False, data_page_size=1 << 14
    )
    size = table.nbytes
    del table
    before = pa.total_allocated_bytes()
    seen = []
    for chunk in open_source(tmp_path / "a.parquet", y="y").parts[0].chunks(1 << 19):
        seen.append(pa.total_allocated_bytes() - before)
        del chunk
    assert max(seen) < size / 8


def test_a_folder_of_every_format(tmp_path):
    X, y = matrix(70)
    y = y.astype(float)
    cuts = np.linspace(0, 70, 8).astype(int)
    names = [
        "a.parquet", "b/c.svm.gz", "b/d.npz", "b/deep/e.csv.bz2", "f.npy", "g.svm", "h=1/i.npz",
    ]  # fmt: skip
    for k, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = slice(cuts[k], cuts[k + 1])
        write(path, sp.csr_array(X[rows]) if k in (2, 5) else X[rows], y[rows])
    for ignored in ("_SUCCESS", ".a.parquet.crc", "_temporary/part.svm", "b/.hidden/x"):
        (tmp_path / ignored).parent.mkdir(exist_ok=True)
        (tmp_path / ignored).write_text("no data")
    source = open_source(tmp_path, y="label")
    assert [part.name for part in source.parts] == [str(tmp_path / name) for name in names]
    for max_bytes in (1, 300, 1 << 20):
        assert_same(joined(all_chunks(source, max_bytes)), X, y)
    widths = {chunk.X.shape[1] for chunk in all_chunks(source, 1)}
    assert widths == {5}  # text too, since other files say how many columns there are
    again = pickle.loads(pickle.dumps(source))
    assert_same(joined(all_chunks(again)), X, y)


def test_patterns_and_lists(tmp_path, monkeypatch):
    X, y = matrix(30)
    for k in range(3):
        folder = tmp_path / f"day{k}"
        folder.mkdir()
        write(folder / "part-0.svm", X[10 * k : 10 * k + 5], y[10 * k : 10 * k + 5])
        write(folder / "part-1.svm", X[10 * k + 5 : 10 * k + 10], y[10 * k + 5 : 10 * k + 10])
        (folder / "_notes").write_text("no data")

    def names(given):
        return [os.path.relpath(part.name, tmp_path) for part in open_source(given).parts]

    every = [f"day{k}/part-{j}.svm" for k in range(3) for j in range(2)]
    assert names(tmp_path / "day*" / "part-*.svm") == every
    assert names(str(tmp_path / "**")) == every
    assert names(str(tmp_path / "day?")) == every
    assert names(str(tmp_path / "*1")) == every[2:4]
    assert names([tmp_path / "day2", str(tmp_path / "day0" / "*-1.svm")]) == [*every[4:], every[1]]
    monkeypatch.chdir(tmp_path)
    assert names("day1/part-1.svm") == [every[3]]
    (tmp_path / "odd[1].svm").write_text("1 1:2\n")
    assert names("odd[1].svm") == ["odd[1].svm"]  # a file of that name is no pattern
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "day").symlink_to(tmp_path / "day0")
    (tmp_path / "linked" / "circle").symlink_to(tmp_path / "linked")
    assert names("linked") == ["linked/day/part-0.svm", "linked/day/part-1.svm"]


def test_widths_of_text_differ_and_the_largest_counts(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1\n")
    (tmp_path / "b.svm").write_text("-1 3:2 7:1\n# nothing\n+1\n")
    source = open_source(tmp_path)
    assert [chunk.X.shape for chunk in all_chunks(source)] == [(1, 1), (2, 7)]
    assert [chunk.X.shape for chunk in all_chunks(open_source(tmp_path, n_features=9))] == [
        (1, 9),
        (2, 9),
    ]
    with pytest.raises(DataFileError, match=r"b.svm:1: the index must be at most 5, not 7"):
        all_chunks(open_source(tmp_path, n_features=5))


def test_indices_count_alike_in_all_parts(tmp_path, monkeypatch):
    (tmp_path / "a.svm").write_text("1 1:1\n")
    (tmp_path / "b.svm").write_text("1 0:1 2:1\n")
    assert joined(all_chunks(open_source(tmp_path)))[0].tolist() == [[0, 1, 0], [1, 0, 1]]
    one = open_source(tmp_path / "a.svm")
    assert joined(all_chunks(one))[0].tolist() == [[1]]
    zero = open_source(tmp_path / "a.svm", zero_based=True)
    assert joined(all_chunks(zero))[0].tolist() == [[0, 1]]
    with pytest.raises(IndexBaseError, match=r"b.svm:1: indices must count from 1, not 0"):
        all_chunks(open_source(tmp_path, zero_based=False))
    monkeypatch.setattr(libsvm_chunks, "SAMPLE_BLOCKS", 1)
    late = open_source(tmp_path)
    with pytest.raises(IndexBaseError, match=r"b.svm:1: has an index 0, .* zero_based=True says"):
        all_chunks(late)
    assert joined(all_chunks(open_source(tmp_path, zero_based=True)))[0].tolist() == [
        [0, 1, 0],
        [1, 0, 1],
    ]


def test_empty_files_of_text_are_parts_without_rows(tmp_path):
    write(tmp_path / "b.csv", np.ones((2, 1)), np.ones(2))
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "c.csv").write_text("label,x1\n")
    (tmp_path / "d.svm").write_text("")
    assert joined(all_chunks(open_source(tmp_path, y="label")))[0].shape == (2, 1)
    for name in ("a.csv", "c.csv", "d.svm"):
        with pytest.raises(DataFileError, match="holds no rows"):
            all_chunks(open_source(tmp_path / name, y="label" if name[-1] == "v" else None))


def test_a_changed_file_has_another_fingerprint(tmp_path):
    X, y = matrix()
    for name in ("a.svm", "a.npy"):
        path = tmp_path / name
        write(path, X, y)
        [part] = open_source(path).parts
        first = part.fingerprint()
        assert part.fingerprint() == first
        stat = path.stat()
        with path.open("r+b") as file:
            file.write(b"2")  # the same size
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
        assert part.fingerprint() != first
        write(path, X, y)  # another inode
        assert part.fingerprint() != first
    before = part.fingerprint()
    write(tmp_path / "a.npy", X, y[:50])  # and the labels beside it
    assert part.fingerprint() != before
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"a.npy: there is no such file any more"):
        part.fingerprint()
    with pytest.raises(FileNotFoundError, match=r"a.npy: there is no such file any more"):
        list(part.chunks(100))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_text_is_streamed(tmp_path, pack):
    end = {gzip.compress: "gz", bz2.compress: "bz2", lzma.compress: "xz"}[pack]
    path = tmp_path / f"a.svm.{end}"
    path.write_bytes(pack(b"1 1:1\n" * 200_000 + b"1 1:x\n"))
    rows = []
    chunks = open_source(path, zero_based=False).parts[0].chunks(1 << 16)
    with pytest.raises(DataFileError, match=rf"a.svm.{end}:200001: the value must be a number"):
        rows.extend(chunk.X.shape[0] for chunk in chunks)
    assert 100_000 < sum(rows) <= 200_000
