"""The compiled engine against its oracle, seed by seed."""

from __future__ import annotations

import numpy as np
import pytest

from batchsvm.methods import Aggressive, Pegasos
from helpers import FORMATS, HOST_METHODS, LAM, grid, quietly, thinned, toy


def assert_same_run(X, y, epochs=2, rtol=1e-9, **kwargs):
    # Few epochs: at the optimum only rounding moves, and beta follows that noise.
    ours, oracle = (
        quietly(X, y, tol=0, max_epochs=epochs, random_state=11, engine=engine, **kwargs)
        for engine in ("cpu", "reference")
    )
    np.testing.assert_allclose(ours.w, oracle.w, rtol=rtol, atol=rtol / 100)
    np.testing.assert_allclose(ours.alpha, oracle.alpha, rtol=rtol, atol=rtol / 100)
    for column in ("iteration", "epoch", "beta", "refused", "primal", "dual"):
        np.testing.assert_allclose(
            getattr(ours.history, column),
            getattr(oracle.history, column),
            rtol=rtol,
            atol=rtol / 100,
        )
    return ours


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("method", HOST_METHODS)
def test_every_method_and_loss(method, loss_name, batch_size):
    X, y = toy(loss_name)
    assert_same_run(X, y, loss=loss_name, lam=LAM, method=method, batch_size=batch_size)


@pytest.mark.parametrize(("method", "stored"), thinned(HOST_METHODS, FORMATS))
def test_every_format(method, stored):
    form = FORMATS[stored]
    X, y = toy("hinge")
    assert_same_run(form(X), y, lam=LAM, method=method, batch_size=7)


@pytest.mark.parametrize(
    ("method", "averaging", "sampling", "batch_size"),
    grid(
        [name for name in HOST_METHODS if name not in ("blocks", "gram")],
        [None, "tail", "decay"],
        ["permutation", "subsets"],
        [1, 7],
    ),
)
def test_every_sampling_and_averaging(method, averaging, sampling, batch_size):
    X, y = toy("logistic")
    weights = np.random.default_rng(0).random(len(y)) * (np.arange(len(y)) % 5 > 0)
    assert_same_run(
        X,
        y,
        epochs=12,
        rtol=1e-7,
        loss="logistic",
        lam=LAM,
        method=HOST_METHODS[method](sampling=sampling),
        batch_size=batch_size,
        averaging=averaging,
        sample_weight=weights,
    )


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_aggressive_with_more_rounds(loss):
    X, y = toy(loss)
    runs = [
        assert_same_run(X, y, loss=loss, lam=LAM, method=Aggressive(rounds=r), batch_size=20)
        for r in (1, 3)
    ]
    assert not np.allclose(runs[0].w, runs[1].w, rtol=1e-6)


def test_aggressive_refuses_the_same_steps():
    rng = np.random.default_rng(27)
    X = 1.0 + rng.normal(size=(60, 1))
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    run = assert_same_run(X, y, lam=5e-4, method=Aggressive(), batch_size=12, epochs=10)
    assert run.history.refused[-1] > 0


@pytest.mark.parametrize("rows", [400, 200])
def test_guarded_steps_are_halved_in_the_same_epochs(rows):
    """In 50 batches of an epoch, of which every fourth is looked at; and in 25, in all of them."""
    rng = np.random.default_rng(3)
    X = 1.0 + 0.5 * rng.normal(size=(rows, 5))
    y = np.where(rng.random(rows) < 0.6, 1.0, -1.0)
    run = assert_same_run(X, y, lam=1e-2, method="guarded", batch_size=8, epochs=6)
    assert run.history.beta[-1] > 1


@pytest.mark.parametrize("averaging", [None, "tail", "decay"])
@pytest.mark.parametrize(("lam", "radius"), [(LAM, 0.7), (1e-4, 0.1), (0.1, 0.01)])
def test_projection(averaging, lam, radius):
    # The smaller lam and radius, the more a step is shrunk, down to what float64 can hold.
    X, y = toy("hinge")
    run = assert_same_run(
        X, y, lam=lam, method=Pegasos(radius=radius), batch_size=3, epochs=20, averaging=averaging
    )
    assert np.linalg.norm(run.w) <= radius * (1 + 1e-12)
    assert np.isfinite(run.history.primal).all()


@pytest.mark.parametrize("loss", ["hinge", "absolute", "squared_hinge"])
def test_skipping_rows_some_of_which_weigh_nothing(loss):
    X, y = toy(loss)
    weights = (np.arange(60) % 3 > 0) * 1.0
    assert_same_run(X, y, loss=loss, lam=LAM, sample_weight=weights, epochs=4)


def test_long_decaying_averages_do_not_underflow():
    # 0.9 to the number of iterations leaves the range of float64 after about 7000.
    X, y = toy("hinge")
    assert_same_run(X, y, lam=LAM, method="safe", batch_size=1, averaging="decay", epochs=150)


def test_warm_starts():
    X, y = toy("hinge")
    first = quietly(X, y, lam=LAM, tol=0, max_epochs=2, random_state=0)
    for method in HOST_METHODS:
        assert_same_run(X, y, lam=LAM, method=method, batch_size=5, initial=first)
