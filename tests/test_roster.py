"""Who takes part in an epoch, and in which order: everyone once, neighbours apart, seeded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import batchsvm
from batchsvm import roster
from batchsvm.certificate import look_at
from batchsvm.data_inputs import read_matrix
from batchsvm.engines import ENGINES, cpu
from batchsvm.losses import LOSSES, TINY
from batchsvm.methods import Safe, start_dual
from batchsvm.problem import make_problem
from batchsvm.roster import line_up_all, make_roster
from batchsvm.sampling import draw_batch, make_sampler
from batchsvm.team import Threads
from conftest import toy
from test_methods import LAM

SHORT, LONG = 100.0, 1e6  # bytes a row: kept with neighbours, or long enough alone


def rows_of(found, block):
    start = found.edges[block]
    return found.order[start : start + found.active[block, 0]]


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 3000), blocks=st.integers(1, 5), seed=st.integers(0, 2**32),
    bytes_a_row=st.sampled_from([SHORT, 1000.0, 2500.0, LONG]), kept=st.floats(0, 1),
)  # fmt: skip
def test_an_epoch_has_each_row_that_is_kept_once(n, blocks, seed, bytes_a_row, kept):
    blocks = min(blocks, n)
    found = make_roster(n, blocks, seed, bytes_a_row)
    found.keep[:] = np.random.default_rng(seed).random(n) < kept
    line_up_all(found)
    for block in range(blocks):
        mine = np.arange(found.edges[block], found.edges[block + 1])
        np.testing.assert_array_equal(np.sort(rows_of(found, block)), mine[found.keep[mine]])


def test_short_rows_go_in_groups_and_long_ones_alone():
    assert make_roster(50_000, 1, 0, SHORT).group == roster.MOST_A_GROUP
    assert make_roster(5000, 1, 0, SHORT).group == 1  # all of them fit into the cache
    assert make_roster(5000, 1, 0, 4000.0).group == 2
    assert make_roster(5000, 1, 0, LONG).group == 1


def test_neighbours_are_visited_near_each_other_but_not_in_succession():
    n = 50_000
    found = make_roster(n, 1, 0, SHORT)
    line_up_all(found)
    order = found.order.astype(np.int64)
    assert np.mean(np.abs(np.diff(order)) == 1) < 1e-3
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    apart = np.abs(place[1:] - place[:-1])
    window = found.windows.shape[1]
    # Of eight rows in a group, seven have their next neighbour in the same window.
    assert np.mean(apart < window) == pytest.approx(7 / 8, abs=0.02)
    assert np.median(apart) > window / 16


def test_every_epoch_has_another_order_and_other_groups():
    found = make_roster(40_000, 1, 3, SHORT)
    line_up_all(found)
    first = found.order.copy()
    line_up_all(found)
    assert np.mean(first == found.order) < 0.01
    again = make_roster(40_000, 1, 3, SHORT)
    line_up_all(again)
    np.testing.assert_array_equal(first, again.order)


@pytest.mark.parametrize("bytes_a_row", [SHORT, LONG])
def test_no_row_is_left_over_for_good(bytes_a_row, monkeypatch):
    monkeypatch.setattr(roster, "CACHE_BYTES", 0)
    n, b = 100, 16
    found = make_roster(n, 1, 0, bytes_a_row, least=b)
    sampler = make_sampler("permutation", n, b, 0, found)
    visits = np.zeros(n)
    for _ in range(6 * 2000):
        start = draw_batch(sampler)
        batch = sampler.order[start : start + b]
        assert len(set(batch)) == b
        visits[batch] += 1
    assert chisquare(visits).pvalue > 1e-4


def test_too_few_for_a_batch_brings_everyone_back(monkeypatch):
    monkeypatch.setattr(roster, "CACHE_BYTES", 0)
    found = make_roster(50, 1, 0, SHORT, least=8)
    found.keep[:] = np.arange(50) < 7
    last = set()
    for _ in range(1000):
        line_up_all(found)
        assert found.active[0, 0] == 50
        assert sorted(found.order) == list(range(50))
        last.add(int(found.order[-1]))
    assert len(last) == 50  # nobody is the one that a batch never gets to


def test_rows_without_entries_have_a_roster_of_ordinary_size():
    for bytes_a_row in (0.0, 1e-3):
        found = make_roster(2_000_000, 2, 0, bytes_a_row)
        assert found.windows.size <= 2 * (2_000_000 + roster.MOST_A_GROUP)
        line_up_all(found)
        assert np.bincount(found.order, minlength=2_000_000).max() == 1


def sorted_data(n=50_000):
    """Few columns, rows sorted by class and by every column: neighbours are much alike."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    order = np.lexsort([X[:, 1].round(1), X[:, 0].round(1), y])
    return X[order], y[order]


def test_data_sorted_by_class_takes_no_more_visits_than_shuffled_data():
    X, y = sorted_data()
    shuffled = np.random.default_rng(1).permutation(len(y))
    visits = [
        batchsvm.fit(data, target, lam=1e-4, tol=1e-4, random_state=0).history.iteration[-1]
        for data, target in ((X, y), (X[shuffled], y[shuffled]))
    ]
    assert visits[0] < 1.5 * visits[1]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_look_brings_back_everyone_who_would_move(engine, loss_name):
    X, y = toy(loss_name)
    problem = make_problem(read_matrix(X, Threads()), y, LOSSES[loss_name](), LAM)
    state = start_dual(Safe(), problem, 1, 1.0, None, None)
    found = make_roster(problem.n, 1, 0, SHORT, least=1)
    running = engine(problem, Safe(), state, make_sampler("permutation", problem.n, 1, 0, found))
    running.run(5 * problem.n, -np.inf)
    found.keep[:] = False
    look_at(problem, state.w, state.alpha_of, running.look)
    signs, offset = problem.signs(0, problem.n), problem.examples["offset"]
    a = signs * problem.matrix.times(state.w) - offset
    q = np.maximum(problem.examples["norm2"] / (LAM * problem.n), TINY)
    moves = problem.loss.dual_step(problem.examples["alpha"], a, q) != problem.examples["alpha"]
    if state.watch.skips:
        assert moves.any()
        assert found.keep[moves].all()
        assert loss_name == "huber" or not found.keep.all()  # few of those rest at a corner
    else:
        assert loss_name == "logistic"


def test_an_epoch_that_leaves_nobody_asks_for_a_look():
    X, y = toy("hinge")
    problem = make_problem(read_matrix(X, Threads()), y, LOSSES["hinge"](), LAM)
    state = start_dual(Safe(), problem, 1, 1.0, None, None)
    found = make_roster(problem.n, 1, 0, SHORT, least=1)
    running = cpu.Engine(
        problem, Safe(), state, make_sampler("permutation", problem.n, 1, 0, found)
    )
    running.run(100 * problem.n, -np.inf)
    before = state.iteration
    found.keep[:] = problem.examples["alpha"] == 0  # satisfied, and far from moving
    found.keep[1:] &= ~np.maximum.accumulate(found.keep[:-1])  # one of them
    sampler = running.sampler
    sampler.position[0] = problem.n
    assert running.run(before + 50, -np.inf) < np.inf
    assert state.iteration < before + 50
    running.looked(0.0)
    assert found.keep.any()
