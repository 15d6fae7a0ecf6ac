"""Who takes part in an epoch, and in which order: everyone once, neighbours apart, seeded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import batchsvm
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines import place_on, visit_order
from batchsvm.engines.sampling import draw_batch, make_sampler
from batchsvm.losses import TINY
from batchsvm.methods import Safe
from helpers import HOST_ENGINES, LAM, one_problem, toy

GROUPED = Tuning(min_grouped_bytes=0)  # however little data there is
SHORT, LONG = 100.0, 1e6  # bytes a row: kept with neighbours, or long enough alone


def make_visit_order(*arguments, tuning=DEFAULT_TUNING, **options):
    return visit_order.make_visit_order(*arguments, tuning, **options)


def redraw_all(found):
    with np.errstate(over="ignore"):  # of the random generator, whose numbers wrap around
        for block in range(found.edges.size - 1):
            found.redraw(block)


def rows_of(found, block):
    start = found.edges[block]
    return found.order[start : start + found.active[block, 0]]


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 3000), blocks=st.integers(1, 5), seed=st.integers(0, 2**32),
    bytes_per_row=st.sampled_from([SHORT, 1000.0, 2500.0, LONG]), kept=st.floats(0, 1),
)  # fmt: skip
def test_an_epoch_has_each_row_that_is_kept_once(n, blocks, seed, bytes_per_row, kept):
    blocks = min(blocks, n)
    found = make_visit_order(n, blocks, seed, bytes_per_row)
    found.keep[:] = np.random.default_rng(seed).random(n) < kept
    redraw_all(found)
    for block in range(blocks):
        mine = np.arange(found.edges[block], found.edges[block + 1])
        np.testing.assert_array_equal(np.sort(rows_of(found, block)), mine[found.keep[mine]])


def test_short_rows_go_in_groups_and_long_ones_alone():
    assert make_visit_order(50_000, 1, 0, SHORT).group == DEFAULT_TUNING.max_group_rows
    assert make_visit_order(5000, 1, 0, SHORT).group == 1  # all of them fit into the cache
    assert make_visit_order(5000, 1, 0, 4000.0).group == 2
    assert make_visit_order(5000, 1, 0, LONG).group == 1


def test_neighbours_are_visited_near_each_other_but_not_in_succession():
    n = 50_000
    found = make_visit_order(n, 1, 0, SHORT)
    redraw_all(found)
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
    found = make_visit_order(40_000, 1, 3, SHORT)
    redraw_all(found)
    first = found.order.copy()
    redraw_all(found)
    assert np.mean(first == found.order) < 0.01
    again = make_visit_order(40_000, 1, 3, SHORT)
    redraw_all(again)
    np.testing.assert_array_equal(first, again.order)


@pytest.mark.parametrize("bytes_per_row", [SHORT, LONG])
def test_no_row_is_left_over_for_good(bytes_per_row):
    n, b = 100, 16
    found = make_visit_order(n, 1, 0, bytes_per_row, tuning=GROUPED, min_rows=b)
    sampler = make_sampler("permutation", n, b, 0, found)
    visits = np.zeros(n)
    for _ in range(6 * 2000):
        start = draw_batch(sampler)
        batch = sampler.order[start : start + b]
        assert len(set(batch)) == b
        visits[batch] += 1
    assert chisquare(visits).pvalue > 1e-4


def test_too_few_for_a_batch_brings_everyone_back():
    found = make_visit_order(50, 1, 0, SHORT, tuning=GROUPED, min_rows=8)
    found.keep[:] = np.arange(50) < 7
    last = set()
    for _ in range(1000):
        redraw_all(found)
        assert found.active[0, 0] == 50
        assert sorted(found.order) == list(range(50))
        last.add(int(found.order[-1]))
    assert len(last) == 50  # nobody is the one that a batch never gets to


def test_rows_without_entries_have_a_visit_order_of_ordinary_size():
    for bytes_per_row in (0.0, 1e-3):
        found = make_visit_order(200_000, 2, 0, bytes_per_row)
        assert found.windows.size <= 2 * (200_000 + DEFAULT_TUNING.max_group_rows)
        redraw_all(found)
        assert np.bincount(found.order, minlength=200_000).max() == 1


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


def started(engine, X, y, loss_name="hinge"):
    """A trainer of batches of one."""
    data = place_on(engine, X, 1)
    trainer = data.trainer(one_problem(data, y, loss_name))
    trainer.start(Schedule(Safe(), batch_size=1))
    return trainer.trainers[0] if engine == "reference" else trainer


NEVER = np.array([-np.inf])


@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_a_full_pass_brings_back_every_row_that_would_move(engine, loss_name):
    X, y = toy(loss_name)
    trainer = started(engine, X, y, loss_name)
    bound, state, keep = trainer.bound, trainer.state, trainer.visits.keep
    trainer.run(5 * bound.n, NEVER, StopFlag())
    keep[:] = False
    trainer.sums(trainer.point(), screen=True)
    q = np.maximum(bound.examples["norm2"] / (LAM * bound.n), TINY)
    alpha = bound.examples["alpha"]
    moves = bound.loss.dual_step(alpha, bound.responses(state.w), q) != alpha
    if state.screening.skips:
        assert moves.any()
        assert keep[moves].all()
        redraw_all(trainer.visits)
        visited = trainer.visits.order[: trainer.visits.active[0, 0]]
        assert np.isin(np.flatnonzero(moves), visited).all()
        # Few rows of these two rest at a corner.
        assert loss_name in ("huber", "squared_epsilon_insensitive") or not keep.all()
    else:
        assert loss_name in ("logistic", "squared_error")


def test_an_epoch_that_leaves_no_row_asks_for_a_full_pass():
    X, y = toy("hinge")
    trainer = started("cpu", X, y)
    state, keep, n = trainer.state, trainer.visits.keep, trainer.bound.n
    while state.iteration < 100 * n:
        trainer.run(100 * n, NEVER, StopFlag())
        trainer.sums(trainer.point(), screen=True)
    before = state.iteration
    keep[:] = trainer.bound.examples["alpha"] == 0  # satisfied, and far from moving
    keep[1:] &= ~np.maximum.accumulate(keep[:-1])  # one of them
    trainer.visits.renew()
    state.screening.sums[:] = 0.0  # the epoch under way is left
    trainer.stepper.sampler.position[0], trainer.stepper.sampler.visited[0] = n, 0
    progress = trainer.run(before + 50, NEVER, StopFlag())
    assert progress.estimates[0] < np.inf
    assert state.iteration < before + 50
    trainer.visits.renew()
    assert keep.any()
