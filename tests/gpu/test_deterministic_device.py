"""The same seed and the same device give the same bits, where that is asked for.

Skipped where there is no device.
"""

from __future__ import annotations

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")

from test_sparse_device import compare_states, host, stored, text_like  # noqa: E402

import batchsvm  # noqa: E402
from batchsvm.core.layout import Schedule  # noqa: E402
from batchsvm.core.parallel import StopFlag  # noqa: E402
from batchsvm.core.problem import make_problem  # noqa: E402
from batchsvm.engines.gpu.dataset import place  # noqa: E402
from batchsvm.losses import LOSSES  # noqa: E402
from batchsvm.methods import Aggressive, Naive, Pegasos, Safe  # noqa: E402
from gpu.pairs import loss_of  # noqa: E402
from simulated import place_simulated  # noqa: E402

FORMS = ["csr-float32-int32", "csr-float64-int64", "device-float32", "dense-float32"]


def fitted(X, y, method, **options):
    with batchsvm.place(X, engine="gpu", deterministic=True) as data:
        found = batchsvm.fit(
            data, y, lam=1e-4, method=method, batch_size=256, max_epochs=30, random_state=0,
            warn=False, **options,
        )  # fmt: skip
        return found.w, found.alpha, found.history


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["aggressive", "safe", "pegasos"])
@pytest.mark.parametrize("precision", ["auto", "float64"])
def test_two_fits_have_the_same_bits(form, method, precision):
    X, y = text_like(20000, 3000, 40)
    X = stored(X, form)
    for tol in (1e-3, 1e-9):  # with few certificates, and until steps go on in float64
        first, second = (fitted(X, y, method, tol=tol, precision=precision) for _ in range(2))
        assert np.array_equal(first[0], second[0])
        assert np.array_equal(first[1], second[1])
        for name in ("iteration", "primal", "dual", "gap", "beta", "refused"):
            ours, theirs = (getattr(history, name) for history in (first[2], second[2]))
            assert np.array_equal(ours, theirs, equal_nan=True), name


def pair(form, loss_name, method, real, n=700, d=300, **kwargs):
    """The trainer of the device and that of the simulation."""
    X, y = text_like(n, d, 12)
    rng = np.random.default_rng(1)
    loss = loss_of(loss_name)
    y = y if loss.task == "classification" else y + rng.normal(size=n)
    columns = y, rng.integers(0, 4, n) / 2, 0.3 * rng.normal(size=n)
    own = stored(X, form)
    found = []
    for make, rows in ((place, own), (place_simulated, own.get() if "device" in form else own)):
        data = make(rows, deterministic=True)
        problem = make_problem(data.targets(*columns), loss, 1e-3, bias=0.5, offset=0.1, **kwargs)
        trainer = data.trainer(problem)
        trainer.start(Schedule(method, 64, seed=3, precision=real, beta_b=4.0))
        found.append(trainer._trainer)
    return found


@pytest.mark.parametrize("form", [*FORMS, "dense-float16"])
@pytest.mark.parametrize(("real", "tolerance"), [("float32", 2e-4), ("float64", 1e-9)])
@pytest.mark.parametrize("method", [Naive(), Safe(step="literal"), Aggressive(), Pegasos()])
def test_steps_in_fixed_point(form, real, tolerance, method):
    device, simulated = pair(form, "smoothed_hinge", method, real)
    peaks = [host(trainer.data.column_peaks) for trainer in (device, simulated)]
    assert np.array_equal(*peaks)
    for count in (1, 4, 40):
        for trainer in (device, simulated):
            trainer.run(trainer._iteration + count, np.array([-np.inf]), StopFlag())
        compare_states(device, simulated, tolerance)
        assert not host(device.state.deltas).any(), "deltas are not cleared"


@pytest.mark.parametrize("loss_name", LOSSES)
def test_steps_of_every_loss_in_fixed_point(loss_name):
    device, simulated = pair("csr-float32-int32", loss_name, Aggressive(gamma=0.7), "float64")
    for trainer in (device, simulated):
        trainer.run(40, np.array([-np.inf]), StopFlag())
    compare_states(device, simulated, 1e-8)
