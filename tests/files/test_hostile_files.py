"""Files that ask for more than they hold, and other files that nobody wrote in good faith."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm import ModelFileError
from batchsvm.files import DataFileError, arrays, read, streams
from batchsvm.models import container
from batchsvm.models.codec import MOST_CLASS_BYTES
from batchsvm.models.fitting import fit_model

X, Y = np.array([[1.0, 0.5], [-1.0, 0.0], [0.0, 2.0], [0.0, -1.0]]), np.array([1, -1, 1, -1])
MEGABYTE = 1 << 20


def in_little_memory(script, *arguments, room=500 * MEGABYTE):
    """The last line that a script prints in a process that may take `room` more than it has
    after its imports."""
    limit = f"""
import resource, sys
import batchsvm, batchsvm.models, batchsvm.files, numpy, scipy.sparse
taken = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + {room},) * 2)
try:
{script}
    print('fine')
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", limit, *map(str, arguments)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.stdout.splitlines()[-1]


LOAD = "    batchsvm.load(sys.argv[1])"
READ = "    batchsvm.files.read(sys.argv[1])"


@pytest.fixture
def parts(tmp_path):
    """Header and arrays of a small model file."""
    model, _ = fit_model(X, Y, lam=0.1, random_state=0)
    model.save(tmp_path / "good")
    return container.read(tmp_path / "good")


def written(path, header, arrays, change=lambda entries: None):
    """A model file with a right checksum whose list of arrays was changed."""
    import hashlib

    content = container.encode(header, arrays)
    length = int.from_bytes(content[12:16], "little")
    start = -(-(16 + length) // 64) * 64
    tree = json.loads(content[16 : 16 + length])
    change(tree["arrays"])
    text = json.dumps(tree).encode()
    body = content[:12] + len(text).to_bytes(4, "little") + text
    body += bytes(-len(body) % 64) + content[start:-32]
    path.write_bytes(body + hashlib.sha256(body).digest())
    return path


def test_arrays_that_share_bytes_are_refused(tmp_path, parts):
    def overlap(entries):
        entries["intercept"]["offset"] = entries["coef"]["offset"]

    path = written(tmp_path / "m", *parts, overlap)
    with pytest.raises(ModelFileError, match=r"its arrays '.*' and '.*' share bytes"):
        batchsvm.load(path)


def test_arrays_of_unknown_names_are_refused(tmp_path, parts):
    header, arrays = parts
    path = written(tmp_path / "m", header, arrays | {"extra": np.zeros(3)})
    with pytest.raises(ModelFileError, match="lists an array 'extra', which no model has"):
        batchsvm.load(path)


@pytest.mark.parametrize("name", ["history.1", "history.01", "history.-1", "history.x", ""])
def test_histories_that_nobody_asks_for_are_refused(tmp_path, parts, name):
    header, arrays = parts
    path = written(tmp_path / "m", header, arrays | {name: arrays["history.0"]})
    with pytest.raises(ModelFileError, match=r"which no model has|2 histories for 1 rows"):
        batchsvm.load(path)


def test_a_file_cannot_ask_for_more_memory_than_it_has(tmp_path, parts):
    """20 MB that are listed 500 times would be 10 GB."""
    header, arrays = parts
    large = arrays | {"history.0": np.zeros((9, 280_000))}

    def repeat(entries):
        for k in range(1, 500):
            entries[f"history.{k}"] = entries["history.0"]

    path = written(tmp_path / "m", header, large, repeat)
    assert path.stat().st_size > 20_000_000
    assert "share bytes" in in_little_memory(LOAD, path)


def test_an_absurdly_long_class_name_is_refused(tmp_path, parts):
    """A word of 3 MB among 2,750 classes would be 33 GB."""
    header, arrays = parts
    header["classes"] = {"dtype": "str", "values": ["x" * 3_000_000, *map(str, range(2750))]}
    k = 2751
    arrays |= {"coef": np.zeros((k, 2)), "intercept": np.zeros(k)}
    del arrays["alpha"], arrays["history.0"]
    path = written(tmp_path / "m", header | {"certificates": [], "statuses": []}, arrays)
    found = in_little_memory(LOAD, path)
    assert "2,751 classes with names of up to 3,000,000 characters take more than 64 MiB" in found


def test_long_class_names_that_can_be_saved_can_be_loaded(tmp_path):
    words = np.array(["a" * 10_000, "b" * 10_000])
    model, _ = fit_model(X, words[(Y > 0).astype(int)], lam=0.1, random_state=0)
    model.save(tmp_path / "m")
    assert batchsvm.load(tmp_path / "m").classes.tolist() == words.tolist()
    assert 4 * 2 * 10_000 < MOST_CLASS_BYTES


@pytest.mark.parametrize(
    "kind", ["float128", "f8,f8", "(1000000000,)f8", "complex128", "O", "M8[s]"]
)
def test_classes_of_odd_types_are_refused(tmp_path, parts, kind):
    header, arrays = parts
    header["classes"] = {"dtype": kind, "values": [-1, 1]}
    path = written(tmp_path / "m", header, arrays)
    with pytest.raises(ModelFileError, match="are not numbers or words"):
        batchsvm.load(path)


def test_a_device_without_an_end_is_no_model():
    with pytest.raises(ModelFileError, match="is not a batchsvm model"):
        batchsvm.load("/dev/zero")


def test_a_model_from_a_fifo(tmp_path, parts):
    os.mkfifo(tmp_path / "fifo")
    content = (tmp_path / "good").read_bytes()
    threading.Thread(target=lambda: (tmp_path / "fifo").write_bytes(content), daemon=True).start()
    assert batchsvm.load(tmp_path / "fifo").n_features == 2


# LIBSVM text.


@pytest.mark.parametrize(
    "index", [2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**40, 10**18 - 1]
)
@pytest.mark.parametrize("zero_based", [False, True])
def test_indices_from_two_to_the_31_on(tmp_path, index, zero_based):
    (tmp_path / "x.svm").write_text(f"1 1:1 {index}:2\n-1 2:1\n")
    found = read(tmp_path / "x.svm", zero_based=zero_based).X
    assert found.shape == (2, index + zero_based)
    last = index - (not zero_based)
    assert found.indices.tolist() == [int(zero_based), last, 1 + zero_based]
    assert found.indices.dtype == (np.int32 if index + zero_based < 2**31 else np.int64)


@pytest.mark.parametrize("index", ["1" + "0" * 18, str(2**62), "9" * 30, "1" + "0" * 5000], ids=len)
def test_larger_indices_are_refused(tmp_path, index):
    (tmp_path / "x.svm").write_text(f"1 1:1\n1 1:1 {index}:2\n-1 2:1\n")
    with pytest.raises(
        DataFileError, match=r"x.svm:2: the index must be at most 999999999999999999"
    ):
        read(tmp_path / "x.svm")


def repeated(path, unit, megabytes):
    press, block = bz2.BZ2Compressor(), unit * MEGABYTE
    parts = [press.compress(block) for _ in range(megabytes)]
    path.write_bytes(b"".join([*parts, press.flush()]))


@pytest.mark.slow
def test_blanks_without_end(tmp_path):
    repeated(tmp_path / "x.svm.bz2", b" ", 500)
    found = in_little_memory(READ, tmp_path / "x.svm.bz2", room=700 * MEGABYTE)
    assert found.endswith("holds no rows")


@pytest.mark.slow
def test_empty_lines_leave_no_room_behind(tmp_path):
    """Each block of empty lines had room for a row per line, until the end of the file."""
    repeated(tmp_path / "x.svm.bz2", b"\n", 200)
    found = in_little_memory(READ, tmp_path / "x.svm.bz2", room=3500 * MEGABYTE)
    assert found.endswith("holds no rows")


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_LINE", 1 << 25)
    with gzip.open(tmp_path / "x.svm.gz", "wb") as sink:
        for _ in range(40):
            sink.write(bytes(MEGABYTE))
    with pytest.raises(DataFileError, match="has a line of more than 32 MiB"):
        read(tmp_path / "x.svm.gz")


def test_blanks_between_chunks_are_kept_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK", 4)
    (tmp_path / "x.svm").write_text("1          1:2          2:3\n-1    1:1\n")
    np.testing.assert_array_equal(read(tmp_path / "x.svm").X.toarray(), [[2, 3], [1, 0]])


def test_the_line_of_a_fault_in_a_fifo(tmp_path):
    """A FIFO cannot be read a second time."""
    os.mkfifo(tmp_path / "x.svm")
    threading.Thread(
        target=lambda: (tmp_path / "x.svm").write_text("1 1:1\n-1 2:1\n1 a:1\n"), daemon=True
    ).start()
    with pytest.raises(DataFileError, match=r"x.svm:3: a feature must look like"):
        read(tmp_path / "x.svm")


# .npz and .npy


def test_an_archive_larger_than_the_memory_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((100_000, 20)), y=np.zeros(100_000))
    assert (tmp_path / "x.npz").stat().st_size < 100_000
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2000}
    monkeypatch.setattr(arrays.os, "sysconf", pages.__getitem__)
    with pytest.raises(DataFileError, match=r"it holds .* GiB, and this machine has"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
@pytest.mark.parametrize("rows", [10**9, 10**12, 10**18, 10**30, -1])
def test_a_header_that_claims_too_much(tmp_path, name, rows):
    raw = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        raw, {"descr": "<f8", "fortran_order": False, "shape": (rows, 2)}
    )
    content = raw.getvalue() + bytes(64)
    if name == "x.npz":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("X.npy", content)
    else:
        (tmp_path / name).write_bytes(content)
    found = in_little_memory(READ, tmp_path / name)
    assert found.startswith("DataFileError ")
    assert "is not a readable" in found


def test_fractions_in_the_place_of_indices(tmp_path):
    good = sp.csr_array(X)
    np.savez(tmp_path / "x.npz", format=b"csr", shape=X.shape, data=good.data,
             indices=good.indices + 0.5, indptr=good.indptr)  # fmt: skip
    with pytest.raises(DataFileError, match="its indices must be integers, not float64"):
        read(tmp_path / "x.npz")
