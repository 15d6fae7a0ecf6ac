"""How often the gpu engine turns to the device: for little data, that is most of the time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

from batchsvm.core.layout import Schedule
from batchsvm.core.options import read_options
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.training import Start, train
from batchsvm.engines.gpu import sparse
from batchsvm.engines.gpu.sparse_kernels import Control
from batchsvm.losses import LOSSES
from batchsvm.methods import Naive, Pegasos, Safe
from helpers import FORMATS, LAM, toy
from simulated import SimulatedDevice, place_simulated

N, D, B = 60, 6, 10


def started(method, X=None, **kwargs):
    X, y = toy("hinge", n=N, d=D) if X is None else X
    data = place_simulated(sp.csr_array(X))
    problem = make_problem(data.targets(y), LOSSES["hinge"](), LAM)
    trainer = data.trainer(problem)
    trainer.start(Schedule(method, B, seed=3, **{"precision": "float64", **kwargs}))
    return trainer._trainer


def counted_launches(trainer):
    kernels, calls = trainer.device.kernels, []
    inner = kernels.train_batches

    def train_batches(state, first, count, target):
        inner(state, first, count, target)
        calls.append((first, count, int(state.control[Control.DONE])))

    kernels.train_batches = train_batches
    return calls


def run(trainer, until, target=-np.inf):
    return trainer.run(until, np.array([target]), StopFlag())


def test_a_launch_takes_several_epochs():
    trainer = started(Safe())
    calls = counted_launches(trainer)
    run(trainer, 100)
    assert calls == [(0, 48, 48), (0, 48, 48), (0, 4, 4)]


def test_in_float32_a_launch_ends_where_w_is_computed_anew():
    trainer = started(Safe(), precision="float32")
    calls = counted_launches(trainer)
    run(trainer, 77)
    assert [some for _, some, _ in calls] == [36, 12, 24, 5]
    assert sparse.REFRESH_EPOCHS == 6


@pytest.mark.parametrize("epochs", [1, 8])
def test_a_launch_ends_with_the_first_epoch_within_the_target(monkeypatch, epochs):
    found = []
    for per_launch in (1, epochs):
        monkeypatch.setattr(sparse, "EPOCHS_PER_LAUNCH", per_launch)
        trainer = started(Safe())
        calls = counted_launches(trainer)
        first = run(trainer, 1000, target=0.05)
        again = run(trainer, 1000, target=0.01)  # goes on with the order that was drawn
        assert 0 < again.estimates[0] <= 0.01 < first.estimates[0] <= 0.05
        assert first.iterations[0] % 6 == again.iterations[0] % 6 == 0
        found.append((first, again, trainer.point()))
        assert per_launch == 1 or calls[-1][2] < calls[-1][1]  # it ended early
    (a, b, w), (c, e, v) = found
    assert a.iterations == c.iterations
    assert b.iterations == e.iterations
    assert np.array_equal(w, v)


def test_estimates_of_epochs_that_several_runs_share():
    whole, parts = started(Safe()), started(Safe())
    expected = run(whole, 6, target=1e9).estimates
    run(parts, 2)
    run(parts, 5)
    assert np.allclose(run(parts, 6, target=1e9).estimates, expected, rtol=1e-14)


def test_pegasos_shows_nothing_and_is_not_stopped():
    trainer = started(Pegasos())
    assert run(trainer, 60, target=1e9).iterations == 60


def test_a_point_that_was_fetched_is_not_uploaded_again(monkeypatch):
    trainer = started(Naive(), precision="float32")
    run(trainer, 9)
    W = trainer.point()
    sizes = []
    upload = SimulatedDevice.upload
    monkeypatch.setattr(
        SimulatedDevice,
        "upload",
        lambda self, array, dtype=None: sizes.append(np.size(array)) or upload(self, array, dtype),
    )
    found = trainer.sums(W)
    assert D not in sizes
    again = trainer.sums(W.copy())
    assert D in sizes
    assert np.array_equal(found.values, again.values)
    with pytest.raises(ValueError, match="read-only"):
        W[0] = 1.0  # the device would not know


def test_how_often_a_fit_turns_to_the_device(monkeypatch):
    counts = Counter()
    for name in ("upload", "to_host"):
        inner = getattr(SimulatedDevice, name)

        def counted(self, *args, _inner=inner, _name=name, **kwargs):
            counts[_name] += 1
            return _inner(self, *args, **kwargs)

        monkeypatch.setattr(SimulatedDevice, name, counted)
    rng = np.random.default_rng(0)
    X = sp.random_array((4000, 3000), density=0.005, rng=rng, format="csr", dtype=np.float32)
    y = np.sign(X @ rng.normal(size=3000) + 1e-9)
    data = place_simulated(X)
    assert counts == {"to_host": 1}  # what is found of the parts
    problem = make_problem(data.targets(y), LOSSES["hinge"](), 1e-3)
    [solution] = train(data, problem, read_options(tol=1e-3), Start(0))
    epochs, certificates = solution.history.epoch[-1], len(solution.history.gap)
    assert certificates <= 3
    launches = epochs / 6 + 4
    assert counts["to_host"] <= launches + 6 * certificates + 8
    assert counts["upload"] <= 2 * launches + 4 * certificates + 16


# Uploads of SciPy's matrices: checked on the device.


def broken(X, part, place, value, dtype=np.int64):
    X = X.copy()
    changed = getattr(X, part).astype(dtype)
    changed[place] = value
    setattr(X, part, changed)
    return X


@pytest.mark.parametrize(
    ("part", "place", "value", "words"),
    [
        ("indices", 4, D, rf"indices must lie between 0 and {D - 1}, not {D}$"),
        ("indices", 4, -1, rf"indices must lie between 0 and {D - 1}, not -1$"),
        ("indices", 4, 2**32, rf"indices must lie between 0 and {D - 1}, not {2**32}$"),
        ("indptr", 9, 0, "indptr must not fall from one entry to the next$"),
        ("indptr", 9, 10**6, "indptr must not fall from one entry to the next$"),
        ("indptr", 9, -5, "indptr must not fall from one entry to the next$"),
    ],
)
def test_a_broken_matrix_of_the_host_is_refused(part, place, value, words):
    X = broken(sp.csr_array(toy("hinge", n=N, d=D)[0]), part, place, value)
    with pytest.raises(ValueError, match=f"^X must be a valid CSR matrix, but its {words}"):
        place_simulated(X)


@pytest.mark.parametrize("form", ["csr-float64-int32", "csr-float64-int64", "csr-float32-int32"])
def test_numbers_stay_as_they_are(form):
    X = FORMATS[form](toy("hinge", n=N, d=D)[0])
    rows = place_simulated(X).rows
    assert rows.values.dtype == X.data.dtype
    assert rows.indices.dtype == rows.starts.dtype == np.int32
    assert np.array_equal(rows.indices, X.indices)
