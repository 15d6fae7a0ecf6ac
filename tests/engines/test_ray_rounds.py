"""How rounds on a cluster are sized, dealt out and ended; no cluster is needed for that."""

from __future__ import annotations

import numpy as np
import pytest

from batchsvm.engines.ray.rounds import MAX_EPOCHS, RoundSize, Shares, joint_step


def test_every_iteration_is_dealt_out_once():
    rng = np.random.default_rng(0)
    for _ in range(50):
        per_epoch = rng.integers(1, 40, size=rng.integers(1, 9))
        shares, done, given = Shares(per_epoch), np.zeros(per_epoch.size), 0
        while given < 2 * per_epoch.sum():
            count = int(min(rng.integers(1, 30), 2 * per_epoch.sum() - given))
            own = shares.deal(count)
            assert own.min() >= 0
            assert own.sum() == count
            done, given = done + own, given + count
            ideal = given * per_epoch / per_epoch.sum()
            assert np.abs(done - ideal).max() < per_epoch.size
        np.testing.assert_array_equal(done, 2 * per_epoch)


def test_what_was_not_done_is_dealt_out_again():
    shares = Shares(np.array([3, 2]))
    first = shares.deal(1)
    shares.take_back(first)
    np.testing.assert_array_equal(shares.deal(1), first)


def test_a_round_lasts_some_times_as_long_as_its_exchange():
    size = RoundSize(1_000_000, fixed=False)
    for _ in range(30):  # a worker does 100,000 per second, and an exchange takes 20 ms
        size.learn(size.iterations, size.iterations / 1e5, 0.02)
    assert size.iterations == pytest.approx(5 * 0.02 * 1e5, rel=0.01)
    assert size.exchange_seconds == pytest.approx(0.02)


def test_a_round_is_no_longer_than_an_epoch_and_never_empty():
    size = RoundSize(100, fixed=False)
    for _ in range(30):
        size.learn(size.iterations, 1e-6, 1.0)
    assert size.iterations == MAX_EPOCHS * 100
    for _ in range(30):
        size.learn(size.iterations, 1e3, 1e-6)
    assert size.iterations == 1


def test_a_fixed_round_does_not_depend_on_the_clock():
    size = RoundSize(1000, fixed=True)
    before = size.iterations
    size.learn(before, 1e-6, 1.0)
    assert size.iterations == before


def numbers(gains, squares, curved=0.0):
    found = np.zeros((len(gains), 7, 1))
    found[:, 0, 0], found[:, 1, 0], found[:, 2, 0] = gains, squares, curved
    return found


def one(value):
    return np.array([value])


def test_theta_makes_the_most_of_a_step():
    # Two workers with the same change, of square 1 each: N D rises by 3 t - t^2 lam N 4/2.
    step = joint_step(numbers([1.5, 1.5], [1.0, 1.0]), one(0.0), one(4.0), one(1.0), one(1.0))
    assert step.thetas[0] == pytest.approx(3 / 4)
    assert step.betas[0] == pytest.approx(2**0.1)  # towards rho = 2
    # <w, sum Delta> counts against it.
    step = joint_step(numbers([1.5, 1.5], [1.0, 1.0]), one(1.0), one(4.0), one(1.0), one(1.0))
    assert step.thetas[0] == pytest.approx(2 / 4)


def test_a_step_that_would_lower_the_dual_is_not_taken():
    step = joint_step(numbers([1.0, 1.0], [1.0, 1.0]), one(2.5), one(4.0), one(1.0), one(1.0))
    assert step.thetas[0] == 0.0


def test_one_worker_alone_takes_whole_steps():
    step = joint_step(numbers([0.1], [1.0]), one(0.0), one(1.0), one(1.0), one(1.0))
    assert (step.thetas[0], step.betas[0]) == (1.0, 1.0)
