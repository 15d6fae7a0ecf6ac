"""Steps in fixed point, by which runs on a device have the same bits: on a device made of NumPy.

It adds up in one order, so that bits can be compared on a device alone (tests/gpu/): here, the
numbers are those of the plain mode up to rounding, and no sum overflows.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.engines.gpu.fixed_point import BITS, LONGEST_STEP, column_scales, longest_step
from batchsvm.engines.gpu.sparse_kernels import Setting
from batchsvm.losses import LOSSES
from batchsvm.methods import Aggressive, Naive, Pegasos, Safe
from helpers import FORMATS, LAM, toy
from simulated import place_simulated

N, D = 60, 6
FORMS = ["csr-float64-int32", "csr-float32-int64", "dense-float32"]


def trainers(X, y, loss_name, method, b=7, weight=None, offset=None, precision="float64", **kwargs):
    """One in the plain mode, and one in fixed point."""
    found = []
    for deterministic in (False, True):
        data = place_simulated(X, deterministic=deterministic)
        problem = make_problem(data.targets(y, weight, offset), LOSSES[loss_name](), **kwargs)
        trainer = data.trainer(problem)
        trainer.start(Schedule(method, b, beta_b=3.0, seed=3, precision=precision))
        found.append(trainer._trainer)
    return found


def run(both, count):
    for trainer in both:
        trainer.run(count, np.array([-np.inf]), StopFlag())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("method", [Safe(), Aggressive(), Pegasos(radius=0.5)])
def test_steps_in_fixed_point_are_those_of_the_plain_mode(form, loss_name, method):
    X, y = toy(loss_name, n=N, d=D)
    rng = np.random.default_rng(1)
    weight, offset = rng.integers(0, 4, N) / 2, rng.normal(size=N)
    plain, fixed = both = trainers(
        FORMATS[form](X), y, loss_name, method, weight=weight, offset=offset, lam=LAM, bias=0.5,
        radius=getattr(method, "radius", np.inf),
    )  # fmt: skip
    run(both, 40)
    assert fixed.state.deltas.dtype == np.int64
    assert np.abs(plain.state.w).max() > 0
    assert np.allclose(fixed.state.w, plain.state.w, rtol=1e-9, atol=1e-11)
    assert np.allclose(fixed.state.alpha, plain.state.alpha, rtol=1e-9, atol=1e-9)
    shown = [np.nan_to_num(trainer.state.control) for trainer in both]
    assert np.allclose(*shown, rtol=1e-9)


EXTREMES = {
    "large values": (1e140, 1.0, 1e-3),
    "small values": (1e-140, 1.0, 1e-3),
    "large weights": (1.0, 1e99, 1e-3),
    "small weights": (1.0, 1e-99, 1e-3),
    "all in one direction": (1.0, 1.0, 1e3),
}


@pytest.mark.parametrize("method", [Naive(), Aggressive(), Pegasos()])
@pytest.mark.parametrize("loss_name", ["hinge", "absolute", "squared_hinge"])
@pytest.mark.parametrize("case", EXTREMES)
def test_no_sum_overflows(method, loss_name, case):
    """Rows that are all alike, each of which takes the longest step at once; the simulation fails
    where a sum leaves 64 bits."""
    size, weight, lam = EXTREMES[case]
    if loss_name == "squared_hinge" and isinstance(method, Pegasos):
        pytest.skip("refused: see below")
    X = sp.csr_array(size * np.tile([1.0, 1e-9, 0.0, 3.0], (N, 1)))
    both = trainers(
        X, np.ones(N), loss_name, method, b=N, weight=np.full(N, weight), lam=lam * size**2
    )
    run(both, 1)
    plain, fixed = (trainer.state.w for trainer in both)
    assert np.allclose(fixed, plain, rtol=1e-9, atol=1e-12 * np.abs(plain).max())
    assert isinstance(method, Aggressive) or np.abs(fixed).max() > 0  # it may have refused
    run(both, 5)  # which go to and fro
    assert np.isfinite(fixed).all()


def test_scales_are_the_largest_powers_of_two_that_cannot_overflow():
    X = np.array([[0.5, -8.0, 0.0], [0.25, 3.0, 0.0]])
    for stored in (X, sp.csr_array(X)):
        data = place_simulated(stored, deterministic=True)
        assert np.array_equal(data.column_peaks, [0.5, 8.0, 0.0])
        scales = column_scales(data, 1.0, 2)
        assert np.array_equal(np.frexp(scales)[0], [0.5, 0.5, 0.5])
        used = scales[:2] * np.array([0.5, 8.0]) * 2.0
        assert (used <= 2.0**BITS).all()
        assert (used >= 2.0 ** (BITS - 2)).all()
        assert np.isfinite(column_scales(data, 1e-290, 2)).all()


def test_the_longest_step():
    X, y = toy("hinge", n=N, d=D)
    data = place_simulated(sp.csr_array(X))

    def longest(loss, method, **kwargs):
        return longest_step(data, make_problem(data.targets(y), loss, LAM, **kwargs), method)

    assert longest(LOSSES["hinge"](), Safe()) == 1.0
    assert longest(LOSSES["absolute"](), Safe()) == 2.0
    assert longest(LOSSES["absolute"](), Pegasos()) == 1.0
    assert longest(LOSSES["squared_hinge"](), Safe()) == 2.0 * LONGEST_STEP  # the slope is -2
    confined = longest(LOSSES["squared_hinge"](), Pegasos(radius=2.0), radius=2.0)
    furthest = 2.0 * np.sqrt((X**2).sum(axis=1).max())
    assert confined == pytest.approx(2 * (1 + furthest), rel=2e-3)
    with pytest.raises(ValueError, match=r"^radius must be finite .* SquaredHinge.* not inf$"):
        longest(LOSSES["squared_hinge"](), Pegasos())


def test_steps_beyond_the_longest_one_are_shortened():
    """Of a loss without an upper end: such steps would overflow."""
    X, y = toy("squared_hinge", n=N, d=D)
    plain, fixed = both = trainers(sp.csr_array(X), y, "squared_hinge", Naive(), lam=LAM)
    fixed.state.settings[Setting.LIMIT] = 0.01
    run(both, 1)
    moved = np.abs(fixed.state.alpha)
    assert moved.max() == 0.01
    assert np.array_equal(moved > 0, plain.state.alpha != 0)
    run(both, 9 * 400)
    assert np.allclose(fixed.point(), plain.point(), rtol=1e-3, atol=1e-4)  # it comes there too


@pytest.mark.parametrize("engine", ["gpu", "cpu", "reference", "auto"])
def test_every_engine_takes_it(engine):
    X, y = toy("hinge", n=N, d=D)
    with batchsvm.place(sp.csr_array(X), engine=engine, deterministic=True) as data:
        assert data.deterministic
        found = batchsvm.fit(data, y, lam=0.1, tol=1e-4, random_state=0)
        assert found.certificate.relative_gap <= 1e-4
        with data.subset(np.arange(30)) as part:
            assert part.deterministic
        assert data.share(1).deterministic
    with pytest.raises(ValueError, match="deterministic must be one of False, True, not 'yes'"):
        batchsvm.place(X, engine=engine, deterministic="yes")


def test_a_data_set_says_whether_runs_have_the_same_bits():
    X = toy("hinge", n=N, d=D)[0]
    assert not place_simulated(sp.csr_array(X)).deterministic
    assert not place_simulated(X).deterministic  # but with "gram"
    fixed = place_simulated(sp.csr_array(X), deterministic=True)
    assert fixed.rows.deterministic
