"""The rules by which methods decide: beta, theta, and whether rows may be left out."""

from __future__ import annotations

from itertools import product
from math import inf, nextafter

import numpy as np
import pytest

from batchsvm.methods import (
    METHODS,
    SAMPLINGS,
    Aggressive,
    Asynchronous,
    Blocks,
    DualMethod,
    Gram,
    Guarded,
    Naive,
    Safe,
    best_theta,
    next_beta,
)
from batchsvm.methods.blocks import ALMOST_ONE
from batchsvm.methods.sdca import MIN_KEPT_PROMISE

DUAL_METHODS = [kind for kind in METHODS.values() if issubclass(kind, DualMethod)]


# beta of the guarded rule.


def test_beta_doubles_when_less_than_half_of_the_promise_was_kept():
    assert MIN_KEPT_PROMISE == 0.5
    below = nextafter(0.5, 0.0)
    for kept in (below, 0.3, 0.0, -5.0, -inf):
        assert next_beta(1.0, kept, 64.0) == 2.0
        assert next_beta(3.0, kept, 64.0) == 6.0


def test_beta_stays_when_half_of_the_promise_or_more_was_kept():
    for kept in (0.5, nextafter(0.5, 1.0), 1.0, 7.0):
        assert next_beta(3.0, kept, 64.0) == 3.0


def test_beta_is_no_more_than_the_largest():
    assert next_beta(3.0, 0.0, 6.0) == 6.0
    assert next_beta(3.0, 0.0, 5.0) == 5.0
    assert next_beta(5.0, 0.0, 5.0) == 5.0
    assert next_beta(1.0, 0.0, 1.0) == 1.0


# theta of blocks.


def bound(theta, first_order, quadratic):
    """What D rises by at the least, N times."""
    return theta * first_order - theta**2 / 2 * quadratic


def test_theta_is_1_where_the_first_order_suffices():
    for first_order, quadratic in ((2.0, 1.0), (1.0, 1.0), (1e-30, 0.0), (0.0, 0.0)):
        assert best_theta(first_order, quadratic, 4) == 1.0


@pytest.mark.parametrize("ratio", [0.9, 0.5, 0.3, 0.13])
@pytest.mark.parametrize("quadratic", [1e-12, 1.0, 3e5])
def test_theta_maximises_the_bound(ratio, quadratic):
    first_order = ratio * quadratic
    found = best_theta(first_order, quadratic, 8)
    grid = np.linspace(0.0, 1.0, 100_001)
    best = grid[np.argmax(bound(grid, first_order, quadratic))]
    assert found == pytest.approx(best, abs=1e-5)
    assert found < 1.0
    assert bound(found, first_order, quadratic) > 0


@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_theta_is_not_below_half_over_the_blocks(blocks):
    floor = 0.5 / blocks
    for first_order in (0.99 * floor, 0.0, -3.0):
        assert best_theta(first_order, 1.0, blocks) == floor
    assert best_theta(1.01 * floor, 1.0, blocks) == 1.01 * floor


def test_theta_that_rounding_keeps_from_1_is_1():
    assert best_theta(ALMOST_ONE, 1.0, 2) == 1.0
    assert best_theta(1.0 - 1e-10, 1.0, 2) == 1.0
    assert best_theta(nextafter(ALMOST_ONE, 0.0), 1.0, 2) == nextafter(ALMOST_ONE, 0.0)
    assert best_theta(1.0 - 1e-8, 1.0, 2) == 1.0 - 1e-8


# The first beta, and who may leave rows out.


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(Naive, 1.0), (Safe, 3.5), (Guarded, 1.0), (Aggressive, 3.5), (Blocks, 1.0), (Gram, 1.0),
     (Asynchronous, 1.0)],
)  # fmt: skip
def test_the_first_beta(kind, expected):
    assert kind().first_beta(3.5) == expected


def test_every_dual_method_is_in_the_table_of_first_betas():
    assert set(DUAL_METHODS) == {
        Naive, Safe, Guarded, Aggressive, Blocks, Gram, Asynchronous
    }  # fmt: skip


@pytest.mark.parametrize("kind", DUAL_METHODS)
@pytest.mark.parametrize("batch_size", [1, 2, 60])
def test_who_may_leave_rows_out(kind, batch_size):
    """Only in permuted order, where no iterates are averaged, for batches of one, the guarded
    rule and blocks; never with Gram matrices, whose batches stay whole."""
    in_batches = kind in (Guarded, Blocks)
    for skips, averages, sampling in product((True, False), (True, False), SAMPLINGS):
        expected = (
            skips and not averages and sampling == "permutation" and kind is not Gram
            and (batch_size == 1 or in_batches)
        )  # fmt: skip
        method = kind(skips=skips, sampling=sampling)
        assert method.may_skip(batch_size, averages) is expected
