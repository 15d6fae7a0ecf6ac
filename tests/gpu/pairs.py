"""The same input on a device and in NumPy, and comparisons that say what is off and where."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from batchsvm import losses
from batchsvm.core.layout import Schedule
from batchsvm.core.problem import make_problem
from batchsvm.engines.gpu.rows import DenseRows
from batchsvm.engines.gpu.targets import DeviceColumns
from batchsvm.losses import LOSSES
from batchsvm.losses.classification import long_logistic_step
from batchsvm.methods import Gram
from simulated import SimulatedDevice, place_simulated

# How far apart results may be, relative to the largest: float32 products are rounded in another
# order, and formulas are compiled with fast approximations.
TOLERANCES = {"float32": 3e-4, "float64": 1e-10}


class ExactLogistic(losses.Logistic):
    """The logistic loss with a step that is exact in NumPy: a device goes on until it is."""

    def dual_step(self, alpha, a, q):
        return long_logistic_step(alpha, a, q, 20)


def loss_of(name):
    """The loss of this name, for a device and for NumPy."""
    return ExactLogistic() if name == "logistic" else LOSSES[name]()


def assert_close(what, found, expected, tolerance):
    """Equal up to tolerance times the largest of the expected numbers."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}"
    if not found.size:
        return
    assert np.isfinite(found).all(), f"{what}: not finite at {np.argwhere(~np.isfinite(found))[:3]}"
    off = np.abs(found - expected)
    worst = np.unravel_index(np.argmax(off), off.shape)
    allowed = tolerance * max(float(np.abs(expected).max()), 1e-30)
    assert off.max() <= allowed, (
        f"{what}: off by {off[worst]:.3g} at {worst}, {found[worst]!r} in the place of"
        f" {expected[worst]!r}; {np.count_nonzero(off > allowed)} of {off.size} are off by more"
        f" than {allowed:.3g}"
    )


def uploaded(value, device):
    """Arrays on the device; anything else as it is."""
    if isinstance(value, np.ndarray):
        return device.upload(value)
    if isinstance(value, DeviceColumns):
        return DeviceColumns(*(uploaded(getattr(value, f.name), device) for f in fields(value)))
    return value


def state_on(state, device):
    """A copy of a state of NumPy arrays on a device."""
    return replace(
        state, **{f.name: uploaded(getattr(state, f.name), device) for f in fields(state)}
    )


def rows_of(values, kind, device):
    """Dense rows; bfloat16 is stored as its 16 bits."""
    if kind == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        values = (bits >> 16).astype(np.uint16).view(np.int16)
    else:
        values = np.ascontiguousarray(values, kind)
    return DenseRows(device, device.upload(values), kind)


def random_state(loss_name, real, K=3, S=2, b=40, bias=True, seed=0):
    """Rows, and a state in the midst of an epoch with random w, alpha, products and betas; the
    batches have empty places, and the last round is short of a batch."""
    rng = np.random.default_rng(seed)
    n, d, loss = 4 * b + max(1, b - 7), 11, loss_of(loss_name)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = rng.normal(size=(n, K))
    if loss.task == "classification":
        y = np.where(y > 0, 1.0, -1.0)
    weights = rng.integers(0, 3, size=(n, K)) / 2
    data = place_simulated(X)
    stated = {"bias": 0.5 + np.arange(K) / 4, "offset": 0.1 * np.arange(K)} if bias else {}
    targets = data.targets(np.asfortranarray(y), np.asfortranarray(weights))
    problem = make_problem(targets, loss, np.full(K, 0.05), **stated)
    trainer = data.trainer(problem)
    trainer.start(Schedule(Gram(batches=S), b, batches=S, precision=real, seed=seed))
    state = trainer._trainer.state
    high = min(loss.upper, 3.0)
    state.alpha[:] = rng.uniform(max(loss.lower, -3.0), high, state.alpha.shape)
    state.alpha[:] = np.where(state.cut[:, None] >= 0, state.alpha, 0)
    state.W[:] = rng.normal(size=state.W.shape)
    state.products[:] = rng.normal(size=state.products.shape)
    state.changes[:] = rng.normal(size=state.changes.shape)
    state.beta[:] = rng.uniform(1, S, K)
    state.estimate[:] = rng.normal(size=state.estimate.shape)
    if state.fresh is not None:
        state.fresh[:] = rng.uniform(max(loss.lower, -3.0), high, state.fresh.shape)
        state.Delta[:] = rng.normal(size=state.Delta.shape)
        state.partial[:] = rng.uniform(0.1, 1, state.partial.shape)
    return data.rows, state


def pair_of_rows(cuda, values, kind):
    return rows_of(values, kind, cuda), rows_of(values, kind, SimulatedDevice())
