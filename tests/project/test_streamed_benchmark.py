"""The benchmark of streamed training: its data, a run on little of them, its section."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from benchmarks.streamed import __main__ as benchmark
from benchmarks.streamed import peers
from benchmarks.streamed.parts import read_part, text_part, write_parts
from benchmarks.streamed.report import streamed


def test_parts_follow_one_rule():
    """A model of one part is right about another."""
    import batchsvm

    (X, y), (other, truth) = (text_part(3000, 400, number) for number in range(2))
    assert X.dtype == np.float32
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1, rtol=1e-5)
    w = batchsvm.fit(X, y, lam=1e-3, random_state=0).w
    assert np.mean(np.sign(other @ w) == truth) > 0.8


def test_files_are_read_as_they_were_written(tmp_path):
    write_parts(tmp_path, 2, 50, 30)
    X, y = read_part(tmp_path / "part0001.npz")
    expected, labels = text_part(50, 30, 1)
    np.testing.assert_array_equal(X.toarray(), expected.toarray())
    np.testing.assert_array_equal(y, labels)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs Linux")
def test_a_run_on_little_data(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "OUTPUT", tmp_path)
    monkeypatch.setattr(benchmark, "COLUMNS", 60)
    monkeypatch.setattr(benchmark, "LAM", 1e-2)
    monkeypatch.setattr(peers, "SGD_EPOCHS", 3)
    monkeypatch.delitem(peers.PEERS, "Vowpal Wabbit")  # is installed when it is needed
    monkeypatch.setitem(benchmark.SIZES, "quick", benchmark.Size(3, 200, "20MB", True))
    out = tmp_path / "streamed.jsonl"
    assert benchmark.main(["quick", "--out", str(out)]) == 0
    ours, sgd = (json.loads(line) for line in out.read_text().splitlines())
    assert (ours["rows"], ours["columns"], ours["status"]) == (600, 60, "CONVERGED")
    assert ours["reads"] >= 1
    assert sgd["epochs"] <= 3
    assert streamed(tmp_path) == ""  # trials are not shown
    out.write_text("".join(json.dumps(row | {"size": "peers"}) + "\n" for row in (ours, sgd)))
    page = streamed(tmp_path)
    assert "## Larger than memory" in page
    assert "SGDClassifier.partial_fit" in page
    assert "600 × 60" in page


def test_weights_of_vowpal_wabbit_are_those_that_it_predicts_with(tmp_path, monkeypatch):
    """Its file lacks a factor, which scores of rows bring back."""
    write_parts(tmp_path, 1, 40, 5)
    path = tmp_path / "part0000.npz"
    w, factor = np.array([1.0, -2.0, 0.5, 0.0, 3.0]), 0.25
    lines = "".join(f"{j}:{weight} 0.1 7\n" for j, weight in enumerate(w))
    (tmp_path / "m.txt").write_text(f"Version 9\nbits:3\n:1\n{lines}")

    def predict(*arguments):
        scores = factor * (read_part(path)[0] @ w)
        (tmp_path / "m.scores").write_text("".join(f"{score}\n" for score in scores))

    monkeypatch.setattr(peers, "_run_vowpal", predict)
    files = peers.VowpalFiles(tmp_path / "rows.vw", tmp_path / "first.vw")
    task = peers.Task([path], 1e-2, 0.0, 1.0)
    found = peers._weights(task, files, tmp_path / "m.model", 5)
    np.testing.assert_allclose(found, factor * w)


def test_spark_has_a_paragraph(tmp_path):
    row = {
        "size": "peers", "name": "batchsvm", "rows": 600, "columns": 60, "lam": 1e-2, "tol": 1e-3,
        "packed_bytes": 1e6, "max_memory": "20MB", "peak_bytes": 1e6, "first_pass_seconds": 1.0,
        "reads": 3.0, "read_seconds": 1.0, "warm_seconds": 1.0, "seconds": 4.0, "gap": 1e-3,
        "machine": "a machine", "date": "2026-11-16",
    }  # fmt: skip
    spark = {
        "size": "parquet", "name": "Spark LinearSVC", "files": 2, "rows": 10, "columns": 3,
        "lam": 1e-2, "tol": 1e-3, "ours_seconds": 0.5, "seconds": 6.0, "cached_seconds": 4.0,
        "epochs": 7, "gap": 1e-3, "runs": 5,
    }  # fmt: skip
    (tmp_path / "streamed.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(spark)}\n")
    page = streamed(tmp_path)
    assert "| 1.33 |" in page  # 4 s beside three reads of 1 s
    assert "12.0 times as long" in page
