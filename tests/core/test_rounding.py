"""What the proof of a certificate relies on: how much functions and losses round."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from exact import EXACT, exact, phi, phi_conjugate, phi_slopes, random_loss

from batchsvm.compiled import JIT_OPTIONS
from batchsvm.core import rounding
from batchsvm.core.vectors import column_norms, norm
from batchsvm.engines.cpu.elementary import LARGEST_EXPONENT as LARGEST
from batchsvm.engines.cpu.elementary import LEAST_EXPONENT
from batchsvm.losses import LOSSES
from batchsvm.losses.classification import log_of_one_plus
from batchsvm.losses.elementary import exp, log


def ulps(computed, truth) -> float:
    """How many units in the last place a number is off."""
    spacing = float(np.spacing(np.abs(np.float64(truth))))
    return float(abs(exact(computed) - truth) / exact(spacing))


NEAR_ONE = 1 - np.logspace(-15, -1, 500)
TINY_TO_ONE = np.append(np.logspace(-300, 0, 2000), np.logspace(-17, -14, 1000))
AROUND_ZERO = np.concatenate([TINY_TO_ONE, -TINY_TO_ONE[TINY_TO_ONE < 1], -NEAR_ONE, [0.0]])
FUNCTIONS = {
    "exp": (exp, EXACT.exp, np.append(np.linspace(LEAST_EXPONENT, 700, 4001), AROUND_ZERO)),
    "log": (log, EXACT.log, np.append(np.logspace(-323, 308, 3000), [NEAR_ONE, 2 - NEAR_ONE])),
    "log_of_one_plus": (log_of_one_plus, EXACT.log1p, AROUND_ZERO),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_exp_and_logarithms_are_within_three_units(name, compiled):
    function, truth, points = FUNCTIONS[name]
    found = function(points)
    if compiled:  # as in kernels, where sums may be reordered, and loops are vectorised

        @numba.njit(**JIT_OPTIONS)
        def all_of(x, out):
            for k in range(x.size):
                out[k] = function(x[k])

        all_of(points, found)
    with EXACT.workprec(200):
        assert max(ulps(f, truth(exact(x))) for f, x in zip(found, points, strict=True)) <= 3.0


@pytest.mark.parametrize("times", [1, 64], ids=["one by one", "vectorised"])
def test_exp_and_log_in_kernels_at_the_ends(times):
    @numba.njit(**JIT_OPTIONS)
    def both(x, out):
        for k in range(x.size):
            out[0, k], out[1, k] = exp(x[k]), log(x[k])

    def found(*points):
        out = np.empty((2, len(points), times))
        for point, there in zip(points, out.transpose(1, 0, 2), strict=True):
            both(np.full(times, point), there)
        np.testing.assert_array_equal(out, np.repeat(out[:, :, :1], times, axis=2))
        return out[:, :, 0].tolist()

    inf, below = np.inf, np.nextafter(LEAST_EXPONENT, -np.inf)
    assert found(below, -1e4, -1e300, -inf)[0] == [0.0] * 4
    assert found(0.0, -0.0)[0] == [1.0, 1.0]
    above = np.nextafter(LARGEST, inf)
    assert found(above, 711.0, 720.0, 2200.0, 1e300, inf)[0] == [inf] * 6
    assert found(1.0, inf, 0.0, -0.0)[1] == [0.0, inf, -inf, -inf]
    assert np.isnan(found(-1e-320, -1.0, -1e300, -inf)[1]).all()
    assert np.isnan(found(np.nan)).all()
    assert found(LARGEST)[0][0] == pytest.approx(np.exp(LARGEST), rel=1e-13)


LARGEST_EXPONENT = 80.0  # of the slope of the logistic loss, which exp would take to 0


@numba.njit(**JIT_OPTIONS)
def fill(loss, points, alphas, values, slopes, conjugates):
    for k in range(points.size):
        values[k] = loss.value(points[k])
        slopes[k] = loss.subgradient(points[k])
    for k in range(alphas.size):
        conjugates[k] = loss.conjugate(alphas[k])


def compiled_formulas(loss, points, alphas):
    found = np.empty(points.size), np.empty(points.size), np.empty(alphas.size)
    fill(loss, points, alphas, *found)
    return found


def formulas(loss, points, alphas):
    return loss.value(points), loss.subgradient(points), loss.conjugate(alphas)


@pytest.mark.parametrize("evaluate", [formulas, compiled_formulas])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_round_no_more_than_the_proof_allows(name, evaluate):
    rng = np.random.default_rng(0)
    unit = rounding.UNIT
    for loss in [LOSSES[name](), *(random_loss_of(name, rng) for _ in range(4))]:
        scale = getattr(loss, "scale", 1.0)
        places = [np.nextafter(p, p + np.arange(-1.0, 2.0)) for p in kinks(loss)]
        sizes = 10.0 ** rng.uniform(-20, 20, 200)
        responses = np.concatenate([[0.0], *places, rng.standard_normal(200) * sizes])
        lower, upper = max(loss.lower, -1e6), min(loss.upper, 1e6)
        small = 10.0 ** rng.uniform(-40, 0, 100)
        alphas = np.concatenate([
            [lower, upper, 0.0], rng.uniform(lower, upper, 200), upper * small,
            upper * (1 - small),
        ])  # fmt: skip
        values, slopes, conjugates = evaluate(loss, responses, alphas)
        for a, value in zip(responses, values, strict=True):
            truth = phi(loss, exact(a))
            allowed = rounding.VALUE_ROUNDINGS * unit * truth + 1e-300
            assert abs(exact(value) - truth) <= allowed, (loss, a)
        for a, slope in zip(responses, slopes, strict=True):
            low, high = phi_slopes(loss, exact(a))
            off = rounding.VALUE_ROUNDINGS * unit
            if name == "logistic" and a > LARGEST_EXPONENT:  # no less steep than it is
                low = -EXACT.exp(-exact(LARGEST_EXPONENT))
            assert low - off * abs(low) <= exact(slope) <= high + off * abs(high), (loss, a)
        for alpha, found in zip(alphas, conjugates, strict=True):
            truth = phi_conjugate(loss, exact(alpha))
            allowed = rounding.CONJUGATE_ROUNDINGS * unit * (abs(truth) + scale * abs(alpha))
            assert abs(exact(found) - truth) <= allowed, (loss, alpha)


def random_loss_of(name, rng):
    while True:
        loss = random_loss(rng)
        if type(loss) is LOSSES[name]:
            return loss


def kinks(loss):
    return [float(getattr(loss, field, 0.0)) * sign for field in loss._fields for sign in (-1, 1)]


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000, 70_001])
@pytest.mark.parametrize("k", [1, 3, 17])
def test_norms_of_columns_are_those_of_each_column(size, k):
    V = np.random.default_rng(size).normal(size=(size, k)) * np.geomspace(1e-3, 1e3, k)
    for form in (V, np.asfortranarray(V), np.hstack([V, V])[:, ::2]):
        expected = [norm(np.ascontiguousarray(v)) for v in form.T]
        np.testing.assert_array_equal(column_norms(form), expected)
