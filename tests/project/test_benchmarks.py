"""The benchmark without its peers and data: judging, protocol, report, generated data."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import environments, judging, report, results, run, sets
from benchmarks.client import WORKERS, Client, SolverError, TooSlowError
from benchmarks.generated import repeated, sparse_set
from benchmarks.judging import GOALS, Entry
from benchmarks.peers.registry import PEERS, Peer, ladder
from benchmarks.race import climb, entries_of, finals, measure

ROOT = Path(__file__).parents[2]


def row(solver="a", threads=1, knob=1.0, seed=0, goal="", seconds=1.0, error=0.0, name="rcv1"):
    return {
        "set": name, "solver": solver, "threads": threads, "knob": knob, "seed": seed,
        "seconds": seconds, "suboptimality": error, "outcome": "fitted", "goal": goal,
    }  # fmt: skip


# ---- judging


def test_the_loosest_setting_reaches_the_goal_with_every_seed():
    errors = {1.0: (5e-3, 4e-3), 0.5: (9e-4, 2e-3), 0.2: (9e-4, 8e-4), 0.1: (1e-4, 1e-4)}
    rows = [
        row(knob=knob, seed=seed, error=error)
        for knob, pair in errors.items()
        for seed, error in enumerate(pair)
    ]
    found = [judging.loosest(rows, Entry("a", 1), goal, 2) for goal in (1e-2, 1e-3, 1e-4, 1e-5)]
    assert found == [1.0, 0.2, 0.1, None]
    # A setting that was not tried with every seed does not count, nor does a timed fit.
    assert judging.loosest([r for r in rows if r["seed"] == 0], Entry("a", 1), 1e-3, 2) is None
    raced = [row(knob=3.0, seed=seed, goal=1e-3) for seed in range(2)]
    assert judging.loosest(rows + raced, Entry("a", 1), 1e-3, 2) == 0.2


def test_ratios_are_taken_round_by_round_against_the_best_peer():
    # Round 1 is disturbed for all alike: the ratio of the medians would be another one.
    seconds = {
        ("batchsvm", 1): (1.0, 10.0, 2.0), ("fast", 1): (4.0, 20.0, 6.0),
        ("fast", 2): (3.0, 50.0, 4.0), ("slow", 1): (9.0, 90.0, 9.0),
    }  # fmt: skip
    rows = [
        row(solver, threads, 0.5, seed, 1e-3, taken, 2e-3 * (solver == "slow" and seed == 1))
        for (solver, threads), many in seconds.items()
        for seed, taken in enumerate(many)
    ]
    found = judging.times(rows, 1e-3)
    assert found[Entry("batchsvm", 1)] == (0.5, 2.0, 3.0, 0)  # of 3/1, 50/10, 4/2
    assert found[Entry("fast", 2)].ratio == 1.0
    assert found[Entry("slow", 1)].missed == 1
    assert judging.times(rows, 1e-5) == {}
    only_ours = judging.times([r for r in rows if r["solver"] == "batchsvm"], 1e-3)
    assert only_ours[Entry("batchsvm", 1)].ratio == float("inf")


def test_a_failed_fit_leaves_the_race():
    rows = [row("batchsvm", goal=1e-3), row("b", goal=1e-3) | {"outcome": "too slow"}]
    assert list(judging.times(rows, 1e-3)) == [Entry("batchsvm", 1)]


def test_geometric_mean():
    assert judging.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


# ---- the driver


def test_everyone_goes_as_far_as_needed_and_takes_turns():
    asked = []

    def fit(entry, knob, seed, goal):
        asked.append((entry.solver, knob, seed))
        if entry.solver == "breaks" and knob < 0.5:
            return row("breaks", knob=knob, seed=seed, error=np.nan) | {"outcome": "too slow"}
        return row(entry.solver, knob=knob, seed=seed, goal=goal, error=knob * 1e-3)

    knobs = {"good": ladder(1.0, 1e-5, 10), "short": (1.0, 0.1), "breaks": (1.0, 0.1, 0.01)}
    entries = [Entry(name, 1) for name in knobs]
    rows = climb(entries, knobs, 2, fit)
    steps = {name: [r["knob"] for r in rows if r["solver"] == name] for name in knobs}
    assert steps["good"] == [1.0, 1.0, 0.1, 0.1, 0.01, 0.01, 1e-3, 1e-3]  # 1e-6 is reached
    assert steps["short"] == [1.0, 1.0, 0.1, 0.1]
    assert steps["breaks"] == [1.0, 1.0, 0.1]  # no second try with another seed
    assert {solver for solver, _, _ in asked[:3]} == set(knobs)  # in turn, not one after another
    renewed = []
    raced = finals(entries, rows, 2, fit, lambda: renewed.append(len(renewed)))
    assert renewed == [0, 1]
    assert {(r["solver"], r["goal"]) for r in raced} == {
        *(("good", goal) for goal in GOALS), ("short", 1e-3), ("short", 1e-4), ("breaks", 1e-3),
    }  # fmt: skip


class Stalls:
    """A client whose first fits take too long."""

    def __init__(self, times):
        self.times = times

    def fit(self, *settings):
        self.times -= 1
        if self.times >= 0:
            raise TooSlowError("a core was taken away")
        return np.zeros(5), {"seconds": 0.25}


@pytest.mark.parametrize(("times", "outcome"), [(0, "fitted"), (1, "fitted"), (2, "too slow")])
def test_a_fit_that_stalls_is_tried_once_more(times, outcome):
    found = measure(Stalls(times), SMALL, 0.75, Entry("a", 2), 0.1, 0, limit=9.0)
    assert found["outcome"] == outcome
    assert found["seconds"] == (0.25 if outcome == "fitted" else 9.0)
    if outcome == "fitted":
        assert found["suboptimality"] == 0.25  # P(0) = 1


def test_the_registry_is_sound():
    for peer in PEERS:
        assert (WORKERS / peer.worker).exists()
        steps = np.diff(peer.knobs)
        assert (steps < 0).all() or (steps > 0).all()
    assert [peer.name for peer in PEERS if peer.ours] == ["batchsvm"]
    threaded = Peer("t", "", "", (), "", (1.0,), threaded=True)
    assert entries_of([threaded], [1, 10**6]) == [Entry("t", 1)]


def test_a_reason_names_no_address_and_no_path():
    stderr = (
        "  Looking in indexes: https://host.example/simple\n"
        "ERROR: Could not find a version of x (from https://host.example/x in /home/me/wheels)\n"
    )
    reason = environments.reason(stderr)
    assert reason == "Could not find a version of x (from <address> in <path>)"


# ---- a worker and its client


FAKE = f"""
import sys, time
sys.path.insert(0, {str(WORKERS)!r})
from worker import serve

class Fake:
    def __init__(self):
        self.fits = 0
    def prepare(self, X, y, lam):
        return X, y, lam
    def fit(self, problem, knob, threads, seed):
        X, y, lam = problem
        self.fits += 1
        print("what a library prints is no answer")
        if seed == 13:
            raise ValueError("unlucky\\nand more")
        if seed == 99:
            sys.exit(3)
        time.sleep(knob)
        return [[X.shape[0], y.sum(), lam, threads, seed, self.fits]]

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
    with Client(Peer("fake", "", "", (), "", (0.0, 0.01)), script=script) as client:
        yield client


SMALL = sets.Set("small", sp.csr_matrix(np.eye(5)), np.ones(5), 0.5)


def test_a_worker_warms_up_and_times_the_fit_alone(client):
    w, answer = client.fit(SMALL, 0.05, 2, seed=7)
    assert w.tolist() == [5, 5, 0.5, 2, 7, 3]  # the third fit: a part, the whole, this one
    assert 0.05 <= answer["seconds"] < 1.0
    assert answer["peak"] is None
    again, _ = client.fit(SMALL, 0.0, 2, seed=8)
    assert again[-1] == 4
    assert client.fit(SMALL, 0.0, 1, seed=8)[0][-1] == 7  # another thread count warms up too


def test_memory_is_of_a_process_that_has_not_fitted_the_set(client):
    w, answer = client.fit(SMALL, 0.0, 1, seed=7, peak=True)
    assert w[-1] == 2
    assert answer["peak"] >= 0


def test_a_cold_fit_is_the_first(client):
    assert client.fit(SMALL, 0.0, 1, seed=0, cold=True)[0][-1] == 1
    assert client.import_seconds >= 0


def test_errors_are_told_and_the_worker_goes_on(client):
    with pytest.raises(SolverError, match=r"^ValueError: unlucky$"):
        client.fit(SMALL, 0.0, 1, seed=13)
    assert client.fit(SMALL, 0.0, 1, seed=1)[0][4] == 1


def test_a_worker_that_is_too_slow_is_replaced(client):
    client.fit(SMALL, 0.0, 1, seed=1)
    with pytest.raises(TooSlowError):
        client.fit(SMALL, 30.0, 1, seed=1, limit=0.1)
    assert client.fit(SMALL, 0.0, 1, seed=1)[0][-1] == 3  # a new one, warmed up again
    with pytest.raises(SolverError, match="status 3"):
        client.fit(SMALL, 0.0, 1, seed=99)


# ---- the report


def canned():
    """Two sets on which ours is three times as fast as b, and a never gets beyond 1e-4."""
    rows = []
    for name in ("rcv1", "cov"):
        for solver, pace in (("batchsvm", 1.0), ("a", 2.0), ("b", 3.0)):
            for seed in range(2):
                for knob in (1e-3, 1e-4, 1e-5, 1e-6):
                    if solver == "a" and knob < 1e-4:
                        continue
                    seconds = pace * (1 - np.log10(knob)) * (1 + seed)
                    point = {"knob": knob, "seed": seed, "seconds": seconds, "error": knob}
                    rows.append(row(solver, name=name, **point))
                    rows.append(row(solver, name=name, goal=knob, **point))
    return sorted(rows, key=lambda r: (r["set"], r["goal"] != "", -r["knob"], r["seed"]))


def test_the_report_is_written_from_the_numbers(tmp_path):
    facts = {"how": "Rounds: 2.", "machine": "2 cores of X", "versions": "Python 3"}
    slow = row("slow", seconds=7.0, error=np.nan) | {"outcome": "too slow"}
    rows = [*canned(), slow]
    results.write(tmp_path, "race", rows, facts)
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
    assert "| batchsvm, 1 thread | rcv1 | 2.00 (a, 1 thread) | 2.00 (a, 1 thread) | 3.00 (b" in text
    assert "| batchsvm, 1 thread | geometric mean | **2.00** | **2.00** | **3.00** |" in text
    assert "| a, 1 thread | 12 s (×1.00, 0.001) | 15 s (×1.00, 0.0001) | – | – |" in text
    assert "| slow, 1 thread | – (more than 7 s) |" in text
    assert "not installed: no wheel" in text
    assert "| a, 1 thread | 1.0 MiB |" in text
    assert "| a | cold cache | 500 ms | 2 s |" in text
    assert "| LinearSVC() | 1 ms | 2.00 |" in text
    assert "| 4 | 2 s | 4.00 |" in text
    assert text.count("2 cores of X") == 1
    assert "1 core of Y" in text
    assert str(tmp_path) not in text
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (tmp_path / target).stat().st_size > 100
    assert (tmp_path / "cov.svg").exists()
    with (tmp_path / "race.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)


def test_a_report_of_nothing_is_a_page(tmp_path):
    assert report.write(tmp_path).read_text().startswith("# Benchmarks")


def test_quick_is_small_and_stays_out_of_the_docs():
    quick = run.options_of(["--quick"])
    assert (quick.sets, quick.rounds) == (["rcv1"], 1)
    assert quick.output != run.DOCS
    assert run.options_of([]).output == run.DOCS
    with pytest.raises(SystemExit):
        run.options_of(["speed"])


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


def test_a_solver_that_is_ten_times_slower_than_another_peer_does_not_go_on():
    def fit(solver, knob, seconds, error):
        return {
            "set": "a", "solver": solver, "threads": 1, "knob": knob, "seed": 0, "goal": "",
            "seconds": seconds, "suboptimality": error, "outcome": "fitted",
        }  # fmt: skip

    rows = [fit("fast", 1, 0.1, 1e-2), fit("fast", 2, 0.2, 1e-4), fit("batchsvm", 1, 0.001, 1e-9)]
    slow = [fit("slow", 1, 1.9, 1e-3)]
    assert not judging.is_left_behind(rows + slow, slow)  # 0.2 s to get as far, and ours is no peer
    slow = [fit("slow", 1, 2.1, 1e-3)]
    assert judging.is_left_behind(rows + slow, slow)
    better = [fit("slow", 1, 2.1, 1e-5)]
    assert not judging.is_left_behind(rows + better, better)  # nobody has got so far yet
    calls = []

    def run(entry, knob, seed, goal):
        calls.append((entry.solver, knob))
        return fit(entry.solver, knob, 5.0 if entry.solver == "slow" else 0.1, 0.1 / knob)

    knobs = {"slow": (1, 2, 3), "fast": (1, 2, 3)}
    climb([Entry("slow", 1), Entry("fast", 1)], knobs, 1, run)
    assert sorted(calls) == [("fast", 1), ("fast", 2), ("fast", 3), ("slow", 1)]
