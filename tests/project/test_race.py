"""The race without its peers and data: cells, who takes part, judging, resuming."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import judging, race, sets
from benchmarks.cells import INTERCEPTS, LOSSES, SETS, Cell, cells, select
from benchmarks.client import WORKERS, TooSlowError
from benchmarks.journal import BudgetSpentError, Journal
from benchmarks.judging import GOALS, Entry
from benchmarks.peers.registry import PEERS, Peer, either, ladder, without
from benchmarks.problems import Problem, certified_bound, objective
from benchmarks.race import Terms, climb, entries_of, finals, measure, settings_of, settle
from oracle import VALUES
from race_rows import CELL, row

# ---- cells, and who takes part


def test_cells_are_all_combinations_and_are_selected_by_pattern():
    assert len(set(cells())) == len(SETS) * len(LOSSES) * len(INTERCEPTS) == 30
    assert select(cells(), ["*"]) == cells()
    assert select(cells(), ["cov/logistic/*", "dense/hinge/free"]) == [
        Cell("cov", "logistic", "none"), Cell("cov", "logistic", "free"),
        Cell("dense", "hinge", "free"),
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"^no cell matches 'rcv2/\*'; .* like rcv1/hinge/none$"):
        select(cells(), ["rcv1/*", "rcv2/*"])


WITHOUT = {
    "hinge": {
        "LinearSVC", "liblinear-official", "liblinear-multicore", "Snap ML", "lightning CD",
        "lightning SDCA", "skglm", "rehline",
    },
    "squared_hinge": {
        "LinearSVC", "LinearSVC(dual=False)", "liblinear-official", "liblinear-multicore",
        "Snap ML", "lightning CD", "rehline",
    },
    "logistic": {"liblinear-official", "Snap ML"},
}  # fmt: skip
EITHER = {
    "hinge": {"batchsvm", "SGDClassifier"},
    "squared_hinge": {
        "batchsvm", "SGDClassifier", "liblinear-official, primal", "liblinear-multicore, primal",
        "cyanure",
    },
    "logistic": {
        "batchsvm", "SGDClassifier", "liblinear-official, primal", "liblinear-multicore, primal",
        "cyanure", "LogisticRegression(lbfgs)", "LogisticRegression(newton-cholesky)",
    },
}  # fmt: skip


@pytest.mark.parametrize(("loss", "intercept"), [*product(LOSSES, INTERCEPTS)])
def test_a_solver_takes_part_where_it_has_the_objective(loss, intercept):
    found = {peer.name for peer in PEERS if peer.takes(Cell("dense", loss, intercept), 300)}
    expected = EITHER[loss] | (WITHOUT[loss] if intercept == "none" else set())
    if (loss, intercept) == ("hinge", "free"):
        expected = expected | {"SVC(linear)"}
    assert found == expected


def test_a_solver_with_a_square_matrix_takes_few_columns():
    newton = next(peer for peer in PEERS if "newton" in peer.name)
    cell = Cell("rcv1", "logistic")
    assert newton.takes(cell, 54)
    assert not newton.takes(cell, 47236)


def test_the_registry_is_sound():
    for peer in PEERS:
        assert (WORKERS / peer.worker).exists()
        steps = np.diff(peer.knobs)
        assert (steps < 0).all() or (steps > 0).all()
    assert [peer.name for peer in PEERS if peer.ours] == ["batchsvm"]
    assert len({peer.name for peer in PEERS}) == len(PEERS)


def test_entries_have_the_thread_counts_that_they_use(monkeypatch):
    monkeypatch.setattr(race.os, "cpu_count", lambda: 2)
    kinds = without("hinge")
    peers = [
        Peer("threads", "", "", (), "", (1.0,), kinds, threaded=True),
        Peer("blas", "", "", (), "", (1.0,), kinds, threaded_on_dense=True),
        Peer("plain", "", "", (), "", (1.0,), kinds),
        Peer("other", "", "", (), "", (1.0,), either("logistic")),
    ]
    dense = sets.Set("small", np.eye(3), np.ones(3), 0.5)
    sparse = dense._replace(X=sp.csr_matrix(np.eye(3)))
    found = entries_of(peers, CELL, sparse, [1, 2, 10**6])
    assert found == [("threads", 1), ("threads", 2), ("blas", 1), ("plain", 1)]
    assert ("blas", 2) in entries_of(peers, CELL, dense, [1, 2])


def test_a_trial_skips_settings_but_not_the_tightest():
    peer = Peer("a", "", "", (), "", (5.0, 4.0, 3.0, 2.0, 1.0), without("hinge"))
    assert settings_of(peer, 1) == peer.knobs
    assert settings_of(peer, 3) == (4.0, 1.0)


# ---- the objective


@pytest.mark.parametrize("cell", cells(["small-dense"]), ids=str)
def test_the_objective_is_that_of_the_textbook_and_its_optimum_is_certified(cell):
    X, y = sets.dense_set(200, 5)
    problem = Problem(sets.Set("small-dense", X, y, 1e-2), cell)
    w, intercept = np.linspace(-1, 1, 5), 0.25 if cell.intercept == "free" else 0.0
    margins = y * (X.astype(float) @ w + intercept)
    textbook = np.mean(VALUES[cell.loss](margins)) + 5e-3 * (w @ w)
    assert objective(problem, np.append(w, intercept)) == pytest.approx(textbook, rel=1e-12)
    assert certified_bound(problem) < textbook


# ---- judging


def test_the_loosest_setting_is_that_of_the_screening():
    errors = {1.0: 5e-3, 0.5: 9e-4, 0.2: 8e-4, 0.1: 1e-6}
    rows = [row(knob=knob, error=error) for knob, error in errors.items()]
    rows += [row(knob=1.0, seed=1, error=0.0), row(knob=1.0, goal=1e-3, error=0.0)]
    entry = Entry("a", 1)
    assert [judging.loosest(rows, entry, goal)["knob"] for goal in (1e-2, 1e-3, 1e-6)] == [
        1.0, 0.5, 0.1,
    ]  # fmt: skip
    assert judging.loosest(rows, entry, 1e-7) is None
    slow = row("b", error=np.nan) | {"outcome": "too slow"}
    assert judging.loosest([slow], Entry("b", 1), 1e-2) is None


def test_finalists_are_the_two_fastest_peers_each_with_its_best_thread_count():
    seconds = {
        ("batchsvm", 1): 1.0, ("a", 1): 5.0, ("a", 2): 3.0, ("b", 1): 4.0, ("b", 2): 6.0,
        ("c", 1): 2.0, ("d", 1): 9.0,
    }  # fmt: skip
    rows = [
        row(*entry, seconds=taken, error=1e-2 if entry[0] == "c" else 1e-4)
        for entry, taken in seconds.items()
    ]
    assert judging.finalists(rows, 1e-3) == [Entry("a", 2), Entry("b", 1)]
    assert judging.finalists(rows, 1e-1) == [Entry("c", 1), Entry("a", 2)]
    assert judging.finalists(rows, 1e-6) == []


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
    assert judging.times(rows, 1e-6) == {}
    only_ours = judging.times([r for r in rows if r["solver"] == "batchsvm"], 1e-3)
    assert only_ours[Entry("batchsvm", 1)].ratio == float("inf")


def test_a_failed_fit_leaves_the_race():
    rows = [row("batchsvm", goal=1e-3), row("b", goal=1e-3) | {"outcome": "too slow"}]
    assert list(judging.times(rows, 1e-3)) == [Entry("batchsvm", 1)]


def test_geometric_mean():
    assert judging.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_a_peer_is_left_behind_when_two_others_are_three_times_faster_to_all_that_it_missed():
    rows = [
        row(solver, knob=goal, seconds=seconds, error=goal)
        for solver, pair in {"a": (0.1, 1.0), "b": (0.2, 2.0), "batchsvm": (0.01, 0.01)}.items()
        for goal, seconds in zip(GOALS, pair, strict=True)
    ]
    assert judging.is_left_behind(rows, row("slow", seconds=6.1, error=1e-2))
    assert not judging.is_left_behind(rows, row("slow", seconds=5.9, error=1e-2))  # 1e-6 is open
    assert judging.is_left_behind(rows, row("slow", seconds=6.1, error=1e-4))
    assert not judging.is_left_behind(rows[2:], row("slow", seconds=99.0, error=1e-2))  # b alone
    assert not judging.is_left_behind(rows, row("a", seconds=99.0, error=1e-2))  # b alone again
    assert not judging.is_left_behind(rows, row("batchsvm", seconds=99.0, error=1e-2))


# ---- the driver


def test_everyone_goes_as_far_as_needed_and_the_fast_ones_first():
    def fit(entry, knob, seed, goal):
        if entry.solver == "breaks" and knob < 0.5:
            return row("breaks", knob=knob, error=np.nan) | {"outcome": "too slow"}
        seconds = {"slow": 50.0, "fast": 0.1}.get(entry.solver, 1.0)
        return row(entry.solver, knob=knob, seconds=seconds, error=knob * 1e-3)

    knobs = {
        "fast": ladder(1.0, 1e-5, 10), "good": ladder(1.0, 1e-5, 10), "short": (1.0, 0.1),
        "breaks": (1.0, 0.1, 0.01), "slow": ladder(1.0, 1e-5, 10),
    }  # fmt: skip
    rows = climb([Entry(name, 1) for name in knobs], knobs, fit)
    steps = {name: [r["knob"] for r in rows if r["solver"] == name] for name in knobs}
    assert steps["fast"] == steps["good"] == [1.0, 0.1, 0.01, 1e-3]  # 1e-6 is reached
    assert steps["short"] == [1.0, 0.1]
    assert steps["breaks"] == [1.0, 0.1]
    assert steps["slow"] == [1.0, 0.1]  # left behind twice in a row
    assert {r["solver"] for r in rows[:8] if r["knob"] == 1.0} == set(knobs)
    assert rows[-1]["solver"] == "slow"


def test_a_finalist_gets_the_loosest_setting_that_reaches_the_goal_with_every_seed():
    def fit(entry, knob, seed, goal):
        if knob < 0.15:
            return row(knob=knob, seed=seed) | {"outcome": "too slow"}
        return row(knob=knob, seed=seed, error=knob * 1e-3 * (1 + seed))

    knobs = (1.0, 0.5, 0.3, 0.1)
    assert settle(Entry("a", 1), 1e-3, knobs, 1, fit) == 1.0
    assert settle(Entry("a", 1), 1e-3, knobs, 3, fit) == 0.3
    assert settle(Entry("a", 1), 1e-4, knobs, 3, fit) is None


def test_rounds_that_are_complete_are_not_run_again():
    ready = {goal: {Entry("a", 1): 0.5, Entry("b", 1): 0.1} for goal in GOALS}
    known = {("a", 0, 1e-3), ("b", 0, 1e-3), ("a", 0, 1e-6), ("b", 0, 1e-6), ("a", 1, 1e-3)}
    made, renewed = [], []

    def fit(entry, knob, seed, goal, ask=False, again=False):
        if ask:
            return (entry.solver, seed, goal) in known
        assert again
        made.append((entry.solver, knob, seed, goal))
        return True

    finals(ready, 3, fit, lambda: renewed.append(len(made)))
    assert renewed == [0, 4]
    assert {turn[2] for turn in made} == {1, 2}  # the round that was cut short as a whole
    assert len(made) == 8


class Stalls:
    """A client whose first fits take too long."""

    def __init__(self, times):
        self.times = times

    def fit(self, *settings):
        self.times -= 1
        if self.times >= 0:
            raise TooSlowError("a core was taken away")
        return np.zeros(6), {"seconds": 0.25}


@pytest.mark.parametrize(("times", "outcome"), [(0, "fitted"), (1, "fitted"), (2, "too slow")])
def test_a_fit_that_stalls_is_tried_once_more(times, outcome):
    small = Problem(sets.Set("small", sp.csr_matrix(np.eye(5)), np.ones(5), 0.5), CELL)
    found = measure(Stalls(times), small, 0.8, Entry("a", 2), 0.1, 0, limit=9.0)
    assert found["outcome"] == outcome
    assert found["seconds"] == (0.25 if outcome == "fitted" else 9.0)
    if outcome == "fitted":
        assert found["suboptimality"] == pytest.approx(0.25)  # P(0) = 1


# ---- the journal


def test_a_journal_keeps_rows_with_the_digits_of_its_file(tmp_path):
    journal = Journal(tmp_path)
    entry, cell = Entry("a, b", 2), Cell("cov", "logistic", "free")
    kept = journal.add(lambda: row(*entry, 0.26, seconds=1 / 3, error=np.nan, cell=cell))
    journal.add(lambda: row(*entry, 0.26, goal=1e-3, seconds=2.0, cell=cell))
    again = Journal(tmp_path)
    known = again.known(cell, entry, 0.26, 0, "")
    assert known["seconds"] == kept["seconds"] == 0.333333
    assert again.known(cell, entry, 0.26, 0, 1e-3)["seconds"] == 2.0
    assert again.known(cell, entry, 0.26, 1, "") is None
    assert again.known(Cell("cov", "logistic"), entry, 0.26, 0, "") is None
    assert len(again.of(cell)) == 2
    # A round that is run again replaces the rows that it has.
    again.add(lambda: row(*entry, 0.26, goal=1e-3, seconds=3.0, cell=cell))
    assert Journal(tmp_path).known(cell, entry, 0.26, 0, 1e-3)["seconds"] == 3.0


def test_a_budget_ends_the_race_before_the_next_fit(tmp_path):
    with pytest.raises(BudgetSpentError):
        Journal(tmp_path, budget=-1.0).add(lambda: pytest.fail("a fit was made"))


def test_peers_can_keep_their_ways_while_ours_is_measured_again(tmp_path):
    journal, other = Journal(tmp_path), Cell("cov")
    for cell in (CELL, other):
        for solver, goal in (("batchsvm", ""), ("a", ""), ("a", 1e-3)):
            journal.add(lambda s=solver, g=goal, c=cell: row(s, goal=g, cell=c))
    journal.forget_ours([CELL])
    assert [(r["solver"], r["goal"]) for r in Journal(tmp_path).of(CELL)] == [("a", "")]
    assert len(Journal(tmp_path).of(other)) == 3


class Instant:
    """A client whose solver reaches a sub-optimality that is its setting, at its own pace."""

    def __init__(self, peer, pace, made):
        self.peer, self.pace, self.made = peer, pace, made

    def fit(self, problem, knob, threads, seed, limit):
        if len(self.made) == self.made.end:
            raise KeyboardInterrupt
        self.made.append((self.peer.name, knob, seed))
        return knob, {"seconds": self.pace * (1 - np.log10(knob))}

    def close(self):
        pass


class Made(list):
    """The fits that were made, and after how many of them the race is interrupted."""

    end = -1


@pytest.fixture
def clients(monkeypatch):
    data = sets.Set("small", sp.csr_matrix(np.eye(5)), np.ones(5), 0.5)
    monkeypatch.setattr(race, "problem_of", lambda cell: Problem(data, cell))
    monkeypatch.setattr(race, "optimum", lambda problem: 1.0)
    monkeypatch.setattr(race, "objective", lambda problem, knob: 1.0 + knob)
    monkeypatch.setattr(race, "PAUSE", 0.0)
    made, knobs = Made(), ladder(1e-1, 1e-7, 10)
    paces = {"batchsvm": 1.0, "a": 3.0, "b": 2.0, "c": 4.0}
    found = {
        name: Instant(Peer(name, "", "", (), "", knobs, without("hinge")), pace, made)
        for name, pace in paces.items()
    }
    return found, made


def test_an_interrupted_race_continues_where_it_was(clients, tmp_path):
    clients, made = clients
    terms = Terms([1], 2, 9.0)

    def run():
        race.race_cell(CELL, clients, terms, Journal(tmp_path), lambda **words: None)

    made.end = 40
    with pytest.raises(KeyboardInterrupt):
        run()
    made.end = -1
    run()
    rows = Journal(tmp_path).of(CELL)
    whole = len(made)
    assert whole <= len(rows) + len(GOALS) * 3  # at most one round of the finals was run again
    run()
    assert len(made) == whole  # nothing is measured twice
    raced = {(r["solver"], r["goal"]) for r in rows if r["goal"]}
    assert raced == {(solver, goal) for solver in ("batchsvm", "a", "b") for goal in GOALS}
    assert judging.times(rows, 1e-3)[Entry("batchsvm", 1)].ratio == pytest.approx(2.0)
