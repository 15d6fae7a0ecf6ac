"""Batches are uniform, distinct, seeded, and cost O(b)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from batchsvm.engines.sampling import draw_batch, make_sampler
from batchsvm.methods import SAMPLINGS


def batches(sampling, n, b, count, seed=0):
    sampler = make_sampler(sampling, n, b, seed)
    for _ in range(count):
        start = draw_batch(sampler)
        yield sampler.order[start : start + b].copy()


@pytest.mark.parametrize("sampling", ["permutation", "subsets"])
@pytest.mark.parametrize(("n", "b"), [(1, 1), (7, 1), (7, 3), (7, 7), (100, 33)])
def test_a_batch_holds_distinct_rows(sampling, n, b):
    for batch in batches(sampling, n, b, 200):
        assert len(set(batch)) == b
        assert batch.min() >= 0
        assert batch.max() < n


@pytest.mark.parametrize("sampling", ["permutation", "subsets"])
@pytest.mark.parametrize("b", [1, 2, 4])
def test_every_subset_is_equally_likely(sampling, b):
    n, count = 5, 30000
    seen = Counter(tuple(sorted(batch)) for batch in batches(sampling, n, b, count))
    frequencies = [seen[subset] for subset in combinations(range(n), b)]
    assert sum(frequencies) == count
    # Without replacement across a permutation the counts vary less than chi-square's.
    assert chisquare(frequencies).pvalue > 1e-4


def test_rows_drawn_with_replacement_are_uniform_and_may_repeat():
    rows = np.concatenate(list(batches("replacement", 6, 4, 8000)))
    assert chisquare(np.bincount(rows, minlength=6)).pvalue > 1e-4
    assert any(len(set(batch)) < 4 for batch in batches("replacement", 6, 4, 50))


def test_an_epoch_of_a_permutation_visits_each_row_once():
    n, b = 12, 4
    drawn = list(batches("permutation", n, b, 30))
    for epoch in range(10):
        rows = np.concatenate(drawn[3 * epoch : 3 * epoch + 3])
        assert sorted(rows) == list(range(n))
    assert not np.array_equal(drawn[0], drawn[3])  # shuffled afresh


def test_rows_left_over_by_one_epoch_are_not_left_over_for_good():
    n, b = 10, 4
    visits = np.bincount(np.concatenate(list(batches("permutation", n, b, 3000))), minlength=n)
    assert chisquare(visits).pvalue > 1e-4


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_seeds(sampling):
    def stream(seed):
        return np.concatenate(list(batches(sampling, 1000, 10, 20, seed)))

    np.testing.assert_array_equal(stream(3), stream(3))
    assert not np.array_equal(stream(3), stream(4))
    assert stream(2**64 - 1).size == 200


def test_a_subset_costs_no_more_than_its_size():
    # O(b): drawing 3 of 10 million leaves all but 6 places of the pool untouched.
    sampler = make_sampler("subsets", 10_000_000, 3, 0)
    draw_batch(sampler)
    assert np.count_nonzero(sampler.order != np.arange(10_000_000)) <= 6
