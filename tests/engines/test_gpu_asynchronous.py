"""Asynchronous training of the gpu engine: on a device, or on one made of NumPy.

One row at a time leaves nothing to chance, and is serial SDCA.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
import oracle
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.engines.gpu.strips import STRIPS, in_strips, strip_columns
from batchsvm.methods import Asynchronous
from gpu.pairs import loss_of
from helpers import LAM, quietly, signs_and_offsets, toy
from simulated_rows import permutation
from simulated_sparse import in_order

N, D = 60, 6


def trainer_of(data, y, loss, b=1, lam=LAM, precision="float64", **columns):
    loss = loss_of(loss) if isinstance(loss, str) else loss
    problem = make_problem(data.targets(y, **columns), loss, lam)
    trainer = data.trainer(problem)
    trainer.start(Schedule(Asynchronous(), b, seed=3, precision=precision))
    return trainer


def alphas(trainer, k):
    trainer.keep_dual(np.ones(k, np.bool_))
    return trainer.best()[1].fetch()


def test_one_row_at_a_time_is_serial_sdca(loss_name):
    X, y = toy(loss_name)
    weights = np.random.default_rng(0).integers(0, 3, size=N).astype(float)
    loss, lam_n = loss_of(loss_name), LAM * weights.sum()
    s, o = signs_and_offsets(loss, y)
    w, alpha = np.zeros(D), np.zeros(N)
    with place_on("gpu", sp.csr_array(X), 1) as data:
        trainer = trainer_of(data, y, loss, sample_weight=weights)
        for epoch in range(3):
            for i in permutation(trainer._key, epoch, N):
                if weights[i]:
                    old, q = alpha[i], X[i] @ X[i] * weights[i] / lam_n
                    alpha[i] = loss.dual_step(old, s[i] * (X[i] @ w) - o[i], q)
                    w += s[i] * weights[i] * (alpha[i] - old) / lam_n * X[i]
        for until in (25, 3 * N):  # a part of an epoch, and then the rest
            trainer.run(until, np.array([-np.inf]), StopFlag())
        np.testing.assert_allclose(trainer.point()[:, 0], w, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(alphas(trainer, 1)[:, 0], weights * alpha, rtol=1e-9, atol=1e-11)


def test_a_combination_that_is_computed_ahead_is_that_of_the_alpha_of_its_pass():
    """After an epoch that has shown a small gap, the full pass computes it; steps make it void."""
    X, y = toy("hinge")
    with place_on("gpu", sp.csr_array(X), 1) as data:
        trainer = trainer_of(data, y, "hinge")
        for until in (N, 2 * N):
            trainer.run(until, np.array([np.inf]), StopFlag())
            trainer.sums(trainer.point(), screen=True)
            assert trainer._ahead is not None
        trainer.run(3 * N, np.array([-np.inf]), StopFlag())
        assert trainer._ahead is None
        trainer.sums(trainer.point(), screen=True)
        assert trainer._ahead is None  # no small gap was shown
        trainer.run(4 * N, np.array([np.inf]), StopFlag())
        trainer.sums(trainer.point(), screen=True)
        for _ in range(2):  # the second one is computed when it is asked for
            found = trainer.combination()[:, 0]
            expected = X.T @ (y * alphas(trainer, 1)[:, 0])
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
            assert trainer._ahead is None


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 17, 1000, 4097])
def test_every_epoch_visits_every_row_once_in_a_fresh_order(n):
    orders = [permutation(key, epoch, n) for key in (7, 2**63 + 11) for epoch in range(4)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(n))
    if n >= 16:
        assert len({order.tobytes() for order in orders}) == len(orders)


def test_orders_look_drawn_at_random():
    """Neighbours go far apart, and the halves of the rows are mixed in every tenth of an epoch."""
    n = 10_000
    for epoch in range(5):
        order = permutation(12345, epoch, n).astype(np.int64)
        assert np.corrcoef(order[:-1], order[1:])[0, 1] == pytest.approx(0.0, abs=0.05)
        steps = np.abs(np.diff(order))
        assert np.median(steps) == pytest.approx((1 - 0.5**0.5) * n, rel=0.05)
        upper = (order >= n // 2).reshape(10, -1).mean(axis=1)
        np.testing.assert_allclose(upper, 0.5, atol=0.06)


def test_every_row_is_visited_in_every_epoch():
    X, y = toy("squared_error")  # no row stays at alpha = 0
    with place_on("gpu", sp.csr_array(X), 1) as data:
        trainer = trainer_of(data, y, "squared_error")
        before = alphas(trainer, 1)
        for epoch in range(1, 4):
            trainer.run(N * epoch, np.array([-np.inf]), StopFlag())
            now = alphas(trainer, 1)
            assert (now != before)[X.any(axis=1)].all()
            before = now


def alike(K):
    """Rows so much alike that steps taken at once overshoot."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(1, 0.05, size=(600, 5)))
    return X, np.where(rng.random((600, K)) < 0.8, 1.0, -1.0)


@pytest.mark.parametrize("K", [1, 3])
def test_an_epoch_in_which_the_dual_objective_falls_is_taken_back(K):
    X, Y = alike(K)
    with place_on("gpu", sp.csr_array(X), 1) as data:
        trainer = trainer_of(data, Y, "hinge", b=64, lam=np.full(K, 1e-3))
        duals, refused = [np.zeros(K)], 0
        for epoch in range(1, 25):
            trainer.run(10 * epoch, np.full(K, -np.inf), StopFlag())
            found, now = alphas(trainer, K), int(trainer.refused.max())
            duals.append([oracle.dual(X, Y[:, k], found[:, k], "hinge", 1e-3) for k in range(K)])
            if now > refused:
                assert min(duals[-1]) == pytest.approx(min(duals[-2]), abs=1e-12) or K > 1
            refused = now
        at_once = data.device.to_host(trainer.state.control)[0]
        assert 0 < refused < 10
        assert at_once < 64
    assert np.diff(duals, axis=0).min() >= -1e-12
    assert np.min(duals[-1]) > 0


def test_all_losses_and_many_problems_come_to_their_optima(loss_name):
    X, y = toy(loss_name)
    Y = np.column_stack([y, -y, np.roll(y, 7)])
    many = batchsvm.fit_many(
        sp.csr_array(X), Y, loss_name, LAM, engine="gpu", tol=1e-6, random_state=0
    )
    for k, ours in enumerate(many):
        assert ours.method.name == "asynchronous"
        theirs = quietly(X, Y[:, k], loss_name, LAM, tol=1e-8, random_state=0)
        assert ours.certificate.relative_gap <= 1e-6
        assert ours.certificate.dual_below <= theirs.certificate.primal_above
        assert theirs.certificate.dual_below <= ours.certificate.primal_above


def test_problems_that_are_done_leave_and_keep_what_they_have_reached():
    X, y = toy("hinge")
    Y = np.column_stack([y, np.roll(y, 3), -y])
    with place_on("gpu", sp.csr_array(X), 1) as data:
        trainer = trainer_of(data, Y, "hinge", lam=np.array([0.1, 0.05, 0.02]))
        trainer.run(90, np.full(3, -np.inf), StopFlag())
        before = alphas(trainer, 3)
        trainer.keep_primal(trainer.point(), np.ones(3, np.bool_))
        kept = trainer.point()[:, 1].copy()
        trainer.run(200, np.array([-np.inf, np.nan, -np.inf]), StopFlag())
        assert trainer.state.K == 2
        np.testing.assert_array_equal(trainer.point()[:, 1], kept)
        after = alphas(trainer, 3)
        np.testing.assert_array_equal(after[:, 1], before[:, 1])
        assert not np.array_equal(after[:, 2], before[:, 2])
        np.testing.assert_array_equal(trainer.iterations, [200, 90, 200])
        # The others are trained as if there had never been a third.
        alone = trainer_of(data, Y[:, [0, 2]], "hinge", lam=np.array([0.1, 0.02]))
        alone.run(200, np.full(2, -np.inf), StopFlag())
        np.testing.assert_allclose(trainer.point()[:, [0, 2]], alone.point(), rtol=1e-9, atol=1e-12)


def test_steps_that_stall_in_float32_go_on_in_float64():
    X, y = toy("logistic")
    found = quietly(sp.csr_array(X), y, "logistic", LAM, engine="gpu", tol=1e-12, max_epochs=400)
    assert found.certificate.relative_gap <= 1e-12


def test_a_warm_start_goes_on_where_another_engine_has_ended():
    X, y = toy("hinge")
    start = quietly(X, y, lam=LAM, tol=1e-7, random_state=0)
    with place_on("gpu", sp.csr_array(X), 1) as data:
        found = quietly(data, y, lam=LAM, tol=1e-6, initial=start, max_epochs=1)
        assert found.certificate.relative_gap <= 1e-6


def test_neighbours_lie_in_different_strips():
    assert [strip_columns(count) for count in (1, 256, 257, 2048)] == [1, 1, 3, 9]
    W = np.arange(STRIPS * 3 * 2.0).reshape(-1, 2)
    np.testing.assert_array_equal(in_order(in_strips(W)), W)
    columns = in_strips(np.arange(STRIPS * 3)[:, None])[:, 0]
    np.testing.assert_array_equal(columns[:3], [0, STRIPS, 2 * STRIPS])
    assert columns[3] == 1


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_other_engines_say_where_it_is_offered(engine):
    X, y = toy("hinge")
    with pytest.raises(ValueError, match=r'^method "asynchronous" is for engine="gpu"'):
        batchsvm.fit(X, y, method="asynchronous", engine=engine)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sampling": "subsets"}, 'sampling must be "permutation" for asynchronous, not "subsets"'),
        ({"step": "literal"}, 'step must be "general" for asynchronous, not "literal"'),
    ],
)
def test_parameters_that_it_does_not_have(changed, words):
    X, y = toy("hinge")
    with pytest.raises(ValueError, match=words):
        batchsvm.fit(sp.csr_array(X), y, method=Asynchronous(**changed), engine="gpu")
