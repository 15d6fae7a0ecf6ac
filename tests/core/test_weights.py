"""A weight of k is k copies of a row, and a weight of 0 is no row."""

from __future__ import annotations

import numpy as np
import pytest

import batchsvm
import oracle
from helpers import FORMATS, HOST_METHODS, quietly, thinned, toy

LAM = 0.05


def optimum(X, y, loss, weights=None, method="auto", **kwargs):
    return batchsvm.fit(
        X, y, loss, LAM, method, tol=1e-9, max_epochs=200_000, sample_weight=weights,
        random_state=0, **kwargs,
    )  # fmt: skip


def counts(n):
    return np.random.default_rng(5).integers(0, 4, size=n)


def test_weight_k_is_k_copies_and_weight_0_is_no_row(loss_name):
    X, y = toy(loss_name)
    k = counts(len(y))
    assert (k == 0).any()
    weighted = optimum(X, y, loss_name, k)
    repeated = optimum(np.repeat(X, k, axis=0), np.repeat(y, k), loss_name)
    removed = optimum(X[k > 0], y[k > 0], loss_name, k[k > 0])
    for other in (repeated, removed):
        assert weighted.certificate.primal == pytest.approx(other.certificate.primal, abs=1e-8)
        np.testing.assert_allclose(weighted.w, other.w, atol=2e-4)
    assert np.all(weighted.alpha[k == 0] == 0)


@pytest.mark.parametrize("method", ["naive", "safe", "aggressive"])
@pytest.mark.parametrize("loss_name", ["hinge", "logistic", "epsilon_insensitive"])
def test_in_batches_too(method, loss_name):
    X, y = toy(loss_name)
    k = counts(len(y))
    weighted = optimum(X, y, loss_name, k, method, batch_size=4)
    repeated = optimum(np.repeat(X, k, axis=0), np.repeat(y, k), loss_name)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, abs=1e-8)


@pytest.mark.parametrize(("method", "stored"), thinned(HOST_METHODS, FORMATS))
def test_the_certificate_is_the_weighted_one(method, stored):
    form = FORMATS[stored]
    loss_name = "huber"
    X, y = toy(loss_name)
    weights = np.random.default_rng(1).random(len(y)) * (np.arange(len(y)) % 4 > 0)
    solution = quietly(form(X), y, loss_name, LAM, method, 3, max_epochs=20, sample_weight=weights)
    expected = oracle.primal(X, y, solution.w, loss_name, LAM, weights)
    assert solution.certificate.primal == pytest.approx(expected, abs=1e-13)
    expected = oracle.dual(X, y, solution.alpha, loss_name, LAM, weights)
    assert solution.certificate.dual == pytest.approx(expected, abs=1e-13)
    assert np.all(np.abs(solution.alpha) <= weights)


def test_scaling_all_weights_changes_nothing_but_alpha():
    X, y = toy("hinge")
    weights = np.random.default_rng(1).random(len(y))
    one = batchsvm.fit(X, y, lam=LAM, sample_weight=weights, random_state=0, tol=1e-6)
    ten = batchsvm.fit(X, y, lam=LAM, sample_weight=8 * weights, random_state=0, tol=1e-6)
    np.testing.assert_allclose(one.w, ten.w, atol=1e-12)
    np.testing.assert_allclose(8 * one.alpha, ten.alpha, atol=1e-11)
    assert one.certificate.gap == pytest.approx(ten.certificate.gap, abs=1e-14)


def test_unit_weights_are_no_weights():
    X, y = toy("logistic")
    plain = batchsvm.fit(X, y, "logistic", LAM, random_state=0)
    ones = batchsvm.fit(X, y, "logistic", LAM, random_state=0, sample_weight=np.ones(len(y)))
    np.testing.assert_array_equal(plain.w, ones.w)
