"""When an epoch asks for a full pass, how much slack rows are given, and who is visited next."""

from __future__ import annotations

from math import inf, log, nextafter

import numpy as np
import pytest

import oracle
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.engines.screening import (
    FIRST_FULL_PASS,
    FIRST_SLACK,
    GAP,
    KEPT,
    NEXT_FULL_PASS,
    PROMISE,
    RISE,
    SEEN,
    SLACK,
    VIOLATION,
    VISITS_PER_EPOCH,
    WORTH_A_FULL_PASS,
    make_screening,
)
from batchsvm.losses import LOSSES
from batchsvm.methods import Aggressive, Blocks, Guarded, Naive, Safe
from helpers import HOST_ENGINES, LAM, toy

AT_ZERO = 1000.0  # N P(0)
FIRST_LEVEL = FIRST_FULL_PASS * AT_ZERO
ENOUGH = 1e6  # visits


def end_epoch(screening, gap, target=-inf, seen=ENOUGH, kept=5.0, waiting=0):
    """End an epoch of one worker that showed these sums; whether a full pass is due."""
    screening.store(0, seen, gap, 0.0, kept)
    return bool(screening.end_epoch(target, waiting))


def above(number):
    return nextafter(number, inf)


# When a full pass is due.


def test_the_first_full_pass_is_due_at_a_part_of_the_loss_at_zero():
    assert pytest.approx(3.0) == FIRST_LEVEL
    assert end_epoch(make_screening(100, True, AT_ZERO), FIRST_LEVEL)
    assert not end_epoch(make_screening(100, True, AT_ZERO), above(FIRST_LEVEL))


def test_epochs_of_few_rows_do_not_put_a_full_pass_off_for_long():
    # Workers wait for each other at the end of an epoch, whatever its rows.
    screening = make_screening(64_000, True, AT_ZERO)
    epochs = 1
    while not end_epoch(screening, 1e-9, seen=1.0, kept=1.0):
        epochs += 1
    assert epochs == -(-64_000 // 32 // (1 + VISITS_PER_EPOCH))


def test_the_next_full_pass_is_due_at_a_tenth_of_the_gap_of_the_last():
    screening = make_screening(100, True, AT_ZERO)
    screening.note_full_pass(20.0)
    assert not end_epoch(screening, FIRST_LEVEL)
    assert not end_epoch(screening, above(NEXT_FULL_PASS * 20.0))
    assert end_epoch(screening, NEXT_FULL_PASS * 20.0)


def test_the_level_never_rises():
    screening = make_screening(100, True, AT_ZERO)
    screening.note_full_pass(1.0)
    screening.note_full_pass(1e9)
    assert not end_epoch(screening, above(NEXT_FULL_PASS * 1.0))
    assert end_epoch(screening, NEXT_FULL_PASS * 1.0)


def test_a_target_that_is_nearly_as_large_as_the_level_is_waited_for():
    just_worth = FIRST_LEVEL / WORTH_A_FULL_PASS
    # The level is worth a pass of its own: four times the target, or more.
    assert end_epoch(make_screening(100, True, AT_ZERO), FIRST_LEVEL, just_worth)
    # Not any more: only the target is.
    target = 1.01 * just_worth
    assert not end_epoch(make_screening(100, True, AT_ZERO), FIRST_LEVEL, target)
    assert not end_epoch(make_screening(100, True, AT_ZERO), above(target), target)
    assert end_epoch(make_screening(100, True, AT_ZERO), target, target)
    # A target above the level is reached before it.
    assert end_epoch(make_screening(100, True, AT_ZERO), 5.0, target=5.0)
    assert not end_epoch(make_screening(100, True, AT_ZERO), above(5.0), target=5.0)


@pytest.mark.parametrize(("n", "least"), [(60, 100), (3200, 100), (6400, 200)])
def test_a_full_pass_comes_only_after_some_visits(n, least):
    screening = make_screening(n, True, AT_ZERO)
    last = least - VISITS_PER_EPOCH - 1
    assert not end_epoch(screening, 0.0, seen=last)
    assert end_epoch(screening, 0.0, seen=1)  # those of the epoch before count too
    assert end_epoch(screening, 0.0, seen=1)
    screening.note_full_pass(1.0)
    assert not end_epoch(screening, 0.0, seen=last)
    assert end_epoch(screening, 0.0, seen=1)


def test_a_full_pass_is_due_when_no_row_is_left():
    for gap, seen in ((inf, ENOUGH), (AT_ZERO, 1.0)):
        screening = make_screening(100, True, AT_ZERO)
        assert end_epoch(screening, gap, seen=seen, kept=0.0)
        assert not end_epoch(screening, gap, seen=seen, kept=1.0)
        assert not end_epoch(screening, gap, seen=seen, kept=0.0, waiting=1)


def test_without_screening_the_target_alone_counts():
    screening = make_screening(100, False, AT_ZERO)
    assert not end_epoch(screening, 0.5 * FIRST_LEVEL, kept=0.0)
    screening.note_estimate(inf)
    assert not end_epoch(screening, above(1.0), target=1.0, kept=0.0)
    screening.note_estimate(inf)
    assert end_epoch(screening, 1.0, target=1.0, seen=1.0)


@pytest.mark.parametrize("part", [0.9, 0.3, 0.05])
def test_a_gap_that_falls_steadily_is_known_at_the_end_of_an_epoch(part):
    """Where all rows are visited, from the second epoch on."""
    mean = (1 - part) / log(1 / part)  # of part**t over an epoch, t from 0 to 1
    screening = make_screening(100, False, AT_ZERO)
    for epoch in range(5):
        shown = AT_ZERO * part**epoch * mean
        end = AT_ZERO * part ** (epoch + 1) if epoch else shown
        assert end_epoch(screening, shown, target=1.001 * end)
        assert screening.estimate == pytest.approx(end)
    screening.note_estimate(inf)  # what came before is forgotten
    end_epoch(screening, 1e-9)
    assert screening.estimate == 1e-9


@pytest.mark.parametrize(
    ("skips", "gaps"),
    [
        (False, [1.0, 1.0]),
        (False, [1.0, 2.0]),
        (False, [0.0, 0.0]),
        (False, [2.0, 0.0]),
        (True, [3.0, 1.0]),
    ],
)
def test_a_gap_that_does_not_fall_and_that_of_some_rows_are_taken_as_they_are(skips, gaps):
    screening = make_screening(100, skips, AT_ZERO)
    for gap in gaps:
        end_epoch(screening, gap)
        assert screening.estimate == gap


# What an epoch adds up.


def test_an_epoch_adds_up_what_all_workers_saw():
    assert make_screening(100, True, AT_ZERO).sums.shape[0] == 1
    screening = make_screening(100, True, AT_ZERO, workers=3)
    assert screening.sums.shape[0] == 3
    assert screening.estimate == inf
    assert screening.kept_promise() == 1.0
    for worker in range(3):
        screening.store(worker, 100.0, 10.0 + worker, 2.0 * worker, 0.0)
        screening.sums[worker, [RISE, PROMISE]] = 3.0, 8.0
    screening.sums[2, KEPT] = 1.0
    assert not screening.end_epoch(-inf, 0)  # one row is kept, by the last worker
    assert screening.estimate == 33.0
    assert screening.slack(0.0, inf) == SLACK * 6.0 / 300.0
    assert screening.kept_promise() == 9.0 / 24.0
    assert not screening.sums.any()  # the next epoch begins with nothing


def test_visits_of_all_workers_count():
    screening = make_screening(100, True, AT_ZERO, workers=2)
    for worker in range(2):
        screening.store(worker, 50.0, 0.0, 0.0, 1.0)
    assert screening.end_epoch(-inf, 0)


def test_a_worker_stores_its_own_sums_alone():
    screening = make_screening(100, True, AT_ZERO, workers=2)
    screening.sums[:] = -1.0
    screening.store(1, 2.0, 3.0, 4.0, 5.0)
    assert np.all(screening.sums[0] == -1.0)
    expected = {SEEN: 2.0, GAP: 3.0, VIOLATION: 4.0, KEPT: 5.0, RISE: -1.0, PROMISE: -1.0}
    assert {place: float(screening.sums[1, place]) for place in expected} == expected


def test_the_part_of_the_promise_that_was_kept():
    screening = make_screening(100, True, AT_ZERO)
    for rise, promise, expected in (
        (1.0, 4.0, 0.25),
        (-2.0, 4.0, -0.5),
        (0.1, 0.4, 0.25),
        (5.0, 0.0, 1.0),
    ):
        screening.sums[0, [RISE, PROMISE]] = rise, promise
        screening.end_epoch(-inf, 0)
        assert screening.kept_promise() == expected


# Slack, and rows brought back.


def test_slack_of_the_first_epoch_is_that_of_the_rows_seen_so_far():
    screening = make_screening(100, True, AT_ZERO)
    assert screening.slack(10.0, 5.0) == FIRST_SLACK * 0.5
    assert screening.slack(0.5, 5.0) == FIRST_SLACK * 5.0  # no division by less than one row
    assert screening.slack(0.0, 0.0) == 0.0
    assert screening.slack(0.0, inf) == inf  # at a full pass before any epoch: keep all rows


def test_slack_of_later_epochs_is_that_of_the_last_one():
    screening = make_screening(100, True, AT_ZERO)
    screening.store(0, 10.0, 1.0, 5.0, 1.0)
    screening.end_epoch(-inf, 0)
    for seen, violation in ((10.0, 5.0), (0.0, inf), (3.0, 0.0)):
        assert screening.slack(seen, violation) == SLACK * 0.5
    screening.store(0, 1.0, 0.0, 5.0, 1.0)  # of a single row
    screening.end_epoch(-inf, 0)
    assert screening.slack(10.0, 1.0) == SLACK * 5.0
    screening.store(0, 0.0, 0.0, 0.0, 1.0)  # an epoch without visits divides by no zero
    screening.end_epoch(-inf, 0)
    assert screening.slack(10.0, 5.0) == 0.0


@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_a_trainer_reckons_with_n_times_the_loss_at_zero(engine):
    X, y = toy("huber")
    weight = np.linspace(0.5, 2.0, len(y))
    with place_on(engine, X, 1) as data:
        trainer = data.trainer(make_problem(data.targets(y, weight), LOSSES["huber"](), LAM))
        trainer.start(Schedule(Safe(), 1))
    own = getattr(trainer, "trainers", [trainer])[0]
    level = FIRST_FULL_PASS * (weight @ oracle.huber(-y, 1.0))
    assert end_epoch(own.state.screening, 0.999 * level)
    assert not end_epoch(own.state.screening, 1.001 * level)


# Who screens at all.


@pytest.mark.parametrize(
    ("loss", "method", "batch_size", "averaging", "screens"),
    [
        ("hinge", Safe(), 1, None, True),
        ("hinge", Safe(), 1, "tail", False),
        ("hinge", Safe(), 2, None, False),
        ("hinge", Guarded(), 2, None, True),
        ("hinge", Blocks(blocks=2), 2, None, True),
        ("hinge", Blocks(blocks=2, skips=False), 2, None, False),
        ("hinge", Blocks(blocks=2, exchange="frequency"), 2, None, True),
        ("hinge", Aggressive(sampling="subsets"), 1, None, False),
        ("logistic", Safe(), 1, None, False),  # whose rows rest at no corner
        ("huber", Naive(), 1, None, True),
    ],
)
def test_rows_are_left_out_where_the_method_and_the_loss_allow_it(
    loss, method, batch_size, averaging, screens
):
    X, y = toy(loss)
    with place_on("cpu", X, 1) as data:
        trainer = data.trainer(make_problem(data.targets(y), LOSSES[loss](), LAM))
        trainer.start(Schedule(method, batch_size, averaging=averaging))
        assert trainer.screens == screens
        screening, keep = trainer.state.screening, trainer.visits.keep
        levels = np.arange(screening.levels.size) + 7.0
        screening.levels[:] = levels
        keep[:] = False
        trainer.sums(trainer.point())  # a pass that is not asked to screen
        np.testing.assert_array_equal(screening.levels, levels)
        assert not keep.any()
        trainer.sums(trainer.point(), screen=True)
        assert np.array_equal(screening.levels, levels) != screens
        assert keep.any() == screens


@pytest.mark.parametrize("sampling", ["permutation", "subsets"])
def test_the_estimate_of_a_loss_without_corners_does_not_depend_on_the_batch(sampling):
    """It is made of every fourth visit, whatever the size of the batches."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4))
    y = np.where(X[:, 0] + rng.normal(size=6000) > 0, 1.0, -1.0)
    found = []
    with place_on("cpu", X, 1) as data:
        for b in (1, 2, 5, 8):
            trainer = data.trainer(make_problem(data.targets(y), LOSSES["logistic"](), 1e-2))
            trainer.start(Schedule(Naive(sampling=sampling), b))
            trainer.run(-(-6000 // b), np.array([-inf]), StopFlag())
            found.append(trainer.state.screening.estimate / 6000)
    np.testing.assert_allclose(found, found[0], rtol=0.1)
