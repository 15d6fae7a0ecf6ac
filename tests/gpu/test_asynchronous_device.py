"""Asynchronous steps on a CUDA device against their restatement in NumPy.

One row at a time leaves nothing to chance: then both make the same steps.  Skipped where there is
no device.
"""

from __future__ import annotations

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")

from test_sparse_device import SPARSE, close, host, stored, text_like  # noqa: E402

import batchsvm  # noqa: E402
import oracle  # noqa: E402
from batchsvm.core.layout import Schedule  # noqa: E402
from batchsvm.core.parallel import StopFlag  # noqa: E402
from batchsvm.core.problem import make_problem  # noqa: E402
from batchsvm.engines.gpu.dataset import place  # noqa: E402
from batchsvm.losses import LOSSES  # noqa: E402
from batchsvm.methods import Asynchronous  # noqa: E402
from gpu.pairs import loss_of  # noqa: E402
from simulated import place_simulated  # noqa: E402

TOLERANCE = {"float32": 2e-4, "float64": 1e-9}


def trainers(form, loss_name, K, real, b=1, full=True):
    """One trainer on the device and one on its simulation, of K problems."""
    n, rng = 300, np.random.default_rng(1)
    X, y = text_like(n, 1500, 12)
    loss = loss_of(loss_name)
    Y = y[:, None] * rng.choice([-1.0, 1.0], size=(n, K))
    Y = Y if loss.task == "classification" else Y + rng.normal(size=(n, K))
    weight, offset = rng.integers(0, 4, n) / 2, 0.3 * rng.normal(size=n)
    own, found = stored(X, form), []
    for make, rows in ((place, own), (place_simulated, own.get() if "device" in form else own)):
        data = make(rows)
        targets = data.targets(Y, weight, offset) if full else data.targets(Y)
        stated = {"bias": 0.5, "offset": 0.1} if full else {}
        trainer = data.trainer(make_problem(targets, loss, np.geomspace(1e-2, 1e-3, K), **stated))
        trainer.start(Schedule(Asynchronous(), b, seed=3, precision=real))
        found.append(trainer._trainer)
    return found


def compare(device, simulated, tolerance):
    for name in ("W", "alpha", "control", "lines"):
        pair = host(getattr(device.state, name)), getattr(simulated.state, name)
        pair = [np.where(np.isinf(array), -1, array) for array in pair]
        close(name, *pair, tolerance if name in ("W", "alpha") else 10 * tolerance)


@pytest.mark.parametrize("form", SPARSE)
@pytest.mark.parametrize("real", TOLERANCE)
@pytest.mark.parametrize("K", [1, 3, 16, 40])
def test_one_row_at_a_time(form, real, K):
    device, simulated = trainers(form, "smoothed_hinge", K, real)
    for until in (7, 300, 1000):  # a part of an epoch, a whole one, some of them
        for trainer in (device, simulated):
            trainer.run(until, np.full(K, -np.inf), StopFlag())
        compare(device, simulated, TOLERANCE[real])


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("K", [1, 5])
@pytest.mark.parametrize("full", [False, True])
def test_every_loss(loss_name, K, full):
    device, simulated = trainers("csr-float32-int32", loss_name, K, "float64", full=full)
    for trainer in (device, simulated):
        trainer.run(700, np.full(K, -np.inf), StopFlag())
    compare(device, simulated, 1e-8)


def test_problems_that_are_done_leave():
    device, simulated = trainers("csr-float32-int32", "hinge", 6, "float64")
    goals = np.full(6, -np.inf)
    for until, done in ((300, 1), (650, 4), (1200, 0)):
        for trainer in (device, simulated):
            trainer.run(until, goals, StopFlag())
        compare(device, simulated, 1e-9)
        goals[done] = np.nan
    np.testing.assert_allclose(device.iterate(), simulated.iterate(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("K", [1, 4])
def test_an_epoch_in_which_the_dual_objective_falls_is_taken_back(K):
    """All rows alike, and all of them at once."""
    n, rng = 4096, np.random.default_rng(0)
    X = np.abs(rng.normal(1, 0.05, size=(n, 40)))
    Y = np.where(rng.random((n, K)) < 0.8, 1.0, -1.0)
    import scipy.sparse as sp

    with place(sp.csr_array(X)) as data:
        problem = make_problem(data.targets(Y), LOSSES["hinge"](), 1e-3)
        trainer = data.trainer(problem)
        trainer.start(Schedule(Asynchronous(), 2048, seed=0, precision="float64"))
        duals = []
        for epoch in range(1, 25):
            trainer.run(2 * epoch, np.full(K, -np.inf), StopFlag())
            trainer.keep_dual(np.ones(K, bool))
            alpha = trainer.best()[1].fetch()
            duals.append([oracle.dual(X, Y[:, k], alpha[:, k], "hinge", 1e-3) for k in range(K)])
        assert trainer.refused.min() > 0
    assert np.diff(duals, axis=0).min() >= -1e-9


@pytest.mark.parametrize("loss_name", ["hinge", "logistic"])
def test_many_rows_at_once_come_to_the_optimum(loss_name):
    X, y = text_like(20000, 3000, 40)
    Y = np.column_stack([y, -y, np.where(np.arange(len(y)) % 3, 1.0, -1.0)])
    found = batchsvm.fit_many(X, Y, loss_name, 1e-4, tol=1e-4, engine="gpu", random_state=0)
    for k, solution in enumerate(found):
        assert solution.method.name == "asynchronous"
        assert solution.certificate.relative_gap <= 1e-4
        other = batchsvm.fit(X, Y[:, k], loss_name, 1e-4, tol=1e-5, random_state=0, warn=False)
        assert solution.certificate.dual_below <= other.certificate.primal_above
        assert other.certificate.dual_below <= solution.certificate.primal_above
