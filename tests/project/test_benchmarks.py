"""The benchmark without its peers and data: protocol, report, generated data (see test_race.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

from benchmarks import environments, report, results, run, sets
from benchmarks.cells import Cell
from benchmarks.client import WORKERS, Client, SolverError, TooSlowError
from benchmarks.generated import dense_set, repeated, sparse_set
from benchmarks.peers.registry import Peer, without
from benchmarks.peers.worker import read
from benchmarks.problems import Problem

ROOT = Path(__file__).parents[2]


def test_a_reason_names_no_address_and_no_path():
    stderr = (
        "  Looking in indexes: https://host.example/simple\n"
        "ERROR: Could not find a version of x (from https://host.example/x in /home/me/wheels)\n"
    )
    reason = environments.reason(stderr)
    assert reason == "Could not find a version of x (from <address> in <path>)"


def test_the_race_goes_on_without_a_peer_that_cannot_be_installed(monkeypatch):
    def python_of(peer):
        if peer.name == "cyanure":
            raise environments.UnavailableError("no wheel")

    monkeypatch.setattr(run, "python_of", python_of)
    monkeypatch.setattr(run, "version_of", lambda peer: "1.0")
    console = Console(record=True, quiet=True)
    peers, rows = run.available(["cyanure", "rehline"], console)
    assert [peer.name for peer in peers] == ["rehline"]
    assert [(row["solver"], row["version"], row["reason"]) for row in rows] == [
        ("cyanure", "", "no wheel"), ("rehline", "rehline 1.0", ""),
    ]  # fmt: skip


# ---- a worker and its client


FAKE = f"""
import sys, time
sys.path.insert(0, {str(WORKERS)!r})
from worker import serve

class Fake:
    def __init__(self):
        self.fits = 0
    def prepare(self, X, y, lam, loss, intercept):
        return X, y, lam, loss, intercept
    def fit(self, problem, knob, threads, seed):
        X, y, lam, loss, intercept = problem
        self.fits += 1
        print("what a library prints is no answer")
        if seed == 13:
            raise ValueError("unlucky\\nand more")
        if seed == 99:
            sys.exit(3)
        time.sleep(knob)
        return [[X.shape[0], y.sum(), lam, threads, seed, self.fits]], len(loss) if intercept else 0

serve(Fake)
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "PARSED", tmp_path)
    X = sp.csr_matrix(np.eye(5))
    parts = {key: getattr(X, key) for key in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "small.npz", **parts, y=np.ones(5))
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    with Client(
        Peer("fake", "", "", (), "", (0.0, 0.01), without("hinge")), script=script
    ) as client:
        yield client


FITS = -2  # where the fake says how many fits it has made
ROWS = sets.Set("small", sp.csr_matrix(np.eye(5)), np.ones(5), 0.5)
SMALL = Problem(ROWS, Cell("small"))


def test_a_worker_warms_up_and_times_the_fit_alone(client):
    point, answer = client.fit(SMALL, 0.05, 2, seed=7)
    assert point.tolist() == [5, 5, 0.5, 2, 7, 3, 0]  # the third fit: a part, the whole, this one
    assert 0.05 <= answer["seconds"] < 1.0
    assert answer["peak"] is None
    again, _ = client.fit(SMALL, 0.0, 2, seed=8)
    assert again[FITS] == 4
    assert client.fit(SMALL, 0.0, 1, seed=8)[0][FITS] == 7  # another thread count warms up too


def test_another_loss_and_an_intercept_are_another_problem(client):
    assert client.fit(SMALL, 0.0, 1, seed=7)[0][FITS] == 3
    free = Problem(ROWS, Cell("small", "logistic", "free"))
    point, _ = client.fit(free, 0.0, 1, seed=7)
    assert point.tolist() == [5, 5, 0.5, 1, 7, 6, len("logistic")]


def test_a_solver_that_compiles_is_warmed_up_at_each_setting(client):
    client.peer = replace(client.peer, compiles=True)
    assert [client.fit(SMALL, knob, 1, seed=7)[0][FITS] for knob in (0.0, 0.01, 0.0)] == [3, 6, 7]


def test_memory_is_of_a_process_that_has_not_fitted_the_set(client):
    point, answer = client.fit(SMALL, 0.0, 1, seed=7, peak=True)
    assert point[FITS] == 2
    assert answer["peak"] >= 0


def test_a_cold_fit_is_the_first(client):
    assert client.fit(SMALL, 0.0, 1, seed=0, cold=True)[0][FITS] == 1
    assert client.import_seconds >= 0


def test_errors_are_told_and_the_worker_goes_on(client):
    with pytest.raises(SolverError, match=r"^ValueError: unlucky$"):
        client.fit(SMALL, 0.0, 1, seed=13)
    assert client.fit(SMALL, 0.0, 1, seed=1)[0][4] == 1


def test_a_worker_that_is_too_slow_is_replaced(client):
    client.fit(SMALL, 0.0, 1, seed=1)
    with pytest.raises(TooSlowError):
        client.fit(SMALL, 30.0, 1, seed=1, limit=0.1)
    assert client.fit(SMALL, 0.0, 1, seed=1)[0][FITS] == 3  # a new one, warmed up again
    with pytest.raises(SolverError, match="status 3"):
        client.fit(SMALL, 0.0, 1, seed=99)


# ---- the report


def test_the_report_is_written_from_the_numbers(tmp_path):
    facts = {"how": "Rounds: 2.", "machine": "2 cores of X", "versions": "Python 3"}
    peer = {"solver": "c", "version": "", "knob": "tol", "reason": "no wheel", "threads": "1"}
    results.write(tmp_path, "peers", [peer], facts)
    memory = {"set": "rcv1", "solver": "a", "threads": 1, "peak_bytes": 2**20, "data_bytes": 2**21}
    results.write(tmp_path, "memory", [memory], facts)
    first = {"set": "rcv1", "solver": "a", "cache": "cold", "import_seconds": 0.5}
    results.write(tmp_path, "first_fit", [first | {"fit_seconds": 2.0}], facts)
    turns = [
        {"solver": "batchsvm.fit", "seconds": 2e-3},
        {"solver": "LinearSVC()", "seconds": 1e-3},
    ]
    results.write(tmp_path, "tiny", turns, facts | {"machine": "1 core of Y"})
    fits = [
        {"set": "generated", "rows": 10, "features": 5, "nonzeros": 20, "lam": 0.1, "tol": 0.1,
         "n_jobs": jobs, "turn": 0, "seconds": 8 / jobs, "epochs": 3, "gap": 0.01,
         "machine": "4 cores of Z", "versions": "Python 3"}
        for jobs in (1, 4)
    ]  # fmt: skip
    (tmp_path / "scaling.jsonl").write_text("".join(json.dumps(fit) + "\n" for fit in fits))
    text = report.write(tmp_path).read_text()
    assert "not installed: no wheel" in text
    assert "| a, 1 thread | 1.0 MiB |" in text
    assert "| a | cold cache | 500 ms | 2 s |" in text
    assert "| LinearSVC() | 1 ms | 2.00 |" in text
    assert "| 4 | 2 s | 4.00 |" in text
    assert text.count("2 cores of X") == 1
    assert "1 core of Y" in text
    assert str(tmp_path) not in text


def test_a_report_of_nothing_is_a_page(tmp_path):
    assert report.write(tmp_path).read_text().startswith("# Benchmarks")


def test_quick_is_small_and_stays_out_of_the_docs():
    quick = run.options_of(["--quick"])
    assert (quick.sets, quick.rounds) == (["rcv1"], 1)
    assert {cell.set for cell in quick.cells} == {"small-sparse", "small-dense"}
    assert quick.output != run.DOCS
    assert run.options_of([]).output == run.DOCS
    with pytest.raises(SystemExit):
        run.options_of(["speed"])
    with pytest.raises(SystemExit):
        run.options_of(["race", "--only", "mnist/*"])


# ---- generated data


def test_generated_rows_are_sound_and_the_same_again():
    X, y = sparse_set(300, 1000, 20, seed=3)
    again, labels = sparse_set(300, 1000, 20, seed=3)
    X.check_format(full_check=True)
    assert X.shape == (300, 1000)
    assert (np.diff(X.indices.reshape(300, 20)) > 0).all()
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1, rtol=1e-6)
    assert set(y) == {-1.0, 1.0}
    assert (X != again).nnz == 0
    assert (y == labels).all()
    full, _ = sparse_set(3, 7, 7)
    assert (full.indices.reshape(3, 7) == np.arange(7)).all()
    with pytest.raises(ValueError, match="do not fit"):
        sparse_set(3, 7, 8)


def test_dense_rows_are_two_classes_in_float32_and_the_same_again():
    X, y = dense_set(2000, 12)
    again, labels = dense_set(2000, 12)
    assert (X.dtype, X.shape, set(y)) == (np.float32, (2000, 12), {-1.0, 1.0})
    assert (y == 1).mean() == pytest.approx(0.3, abs=0.03)
    assert np.square(X, dtype=float).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)
    assert (X == again).all()
    assert (y == labels).all()


def test_a_dense_set_is_kept_and_read_by_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "PARSED", tmp_path)
    data = sets.load("small-dense")
    assert data.dense
    assert data.data_bytes == data.X.size * 4
    X, y = read(sets.path_of("small-dense"))
    assert (X == data.X).all()
    assert (y == data.y).all()


def test_repeated_rows():
    X, y = sparse_set(7, 50, 5)
    long, labels = repeated(X, y, 17)
    long.check_format(full_check=True)
    assert (long != sp.vstack([X, X, X[:3]])).nnz == 0
    assert (labels == np.concatenate([y, y, y[:3]])).all()


def test_scaling_runs_where_there_is_neither_rich_nor_matplotlib():
    bare = (
        "import sys, runpy; sys.modules.update(rich=None, matplotlib=None); sys.argv = sys.argv[1:]"
    )
    script = str(ROOT / "benchmarks" / "scaling.py")
    code = f"{bare}; runpy.run_path(sys.argv[0], run_name='__main__')"
    sizes = ["--rows=200", "--features=100", "--per-row=5", "--rounds=1", "--most-threads=2"]
    command = [sys.executable, "-c", code, script, *sizes, "--lam=0.01"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [fit["n_jobs"] for fit in rows] == [1, 2]
    assert all(fit["gap"] <= 1e-3 for fit in rows)
