"""Laws that every loss obeys, over the registry."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit

import oracle
from batchsvm import losses
from batchsvm.compiled import Kernel
from batchsvm.losses import classification

OBJECTS = [
    losses.Hinge(),
    losses.Hinge(margin=0.3),
    losses.SmoothedHinge(),
    losses.SmoothedHinge(smoothing=0.25),
    losses.SquaredHinge(),
    losses.SquaredHinge(margin=0.3),
    losses.Logistic(),
    losses.Absolute(),
    losses.EpsilonInsensitive(),
    losses.EpsilonInsensitive(epsilon=0.0),
    losses.EpsilonInsensitive(epsilon=0.7),
    losses.SquaredEpsilonInsensitive(),
    losses.SquaredEpsilonInsensitive(epsilon=0.7),
    losses.SquaredError(),
    losses.SquaredError(factor=1.5),
    losses.Quantile(),
    losses.Quantile(quantile=0.9),
    losses.Huber(),
    losses.Huber(delta=0.3),
]
# Their conjugates have no constant curvature, or a kink.
BENT = losses.Logistic | losses.EpsilonInsensitive | losses.SquaredEpsilonInsensitive
NAME = {kind: name for name, kind in losses.LOSSES.items()}
# Where a value or a slope may jump: the kinks of all losses, and points beside them.
KINKS = [-1.0, -0.7, -0.3, -0.1, 0.0, 0.1, 0.3, 0.7, 0.75, 1.0]
RESPONSES = np.unique(
    np.concatenate([np.linspace(-6, 6, 121), KINKS, np.array(KINKS) + 1e-9, np.array(KINKS) - 1e-9])
)

each_loss = pytest.mark.parametrize("loss", OBJECTS, ids=repr)


def box(loss, count=41):
    return np.linspace(max(loss.lower, -8.0), min(loss.upper, 8.0), count)


def oracle_parameters(loss):
    return () if isinstance(loss, losses.Logistic) else tuple(loss)


def test_every_loss_of_the_registry_is_tested():
    assert {type(loss) for loss in OBJECTS} == set(losses.LOSSES.values())


@each_loss
def test_value_is_the_textbook_definition(loss):
    expected = oracle.VALUES[NAME[type(loss)]](RESPONSES, *oracle_parameters(loss))
    np.testing.assert_allclose(loss.value(RESPONSES), expected, rtol=1e-14, atol=1e-15)


@each_loss
def test_conjugate_is_the_textbook_definition(loss):
    expected = oracle.CONJUGATES[NAME[type(loss)]](box(loss), *oracle_parameters(loss))
    np.testing.assert_allclose(loss.conjugate(box(loss)), expected, rtol=1e-13, atol=1e-14)


@each_loss
def test_conjugate_is_the_maximum_that_defines_it(loss):
    # At the ends of the box the supremum may only be reached at infinity (logistic).
    for alpha in box(loss, 9)[1:-1]:
        found = minimize_scalar(
            lambda a, alpha=alpha: alpha * a + float(loss.value(a)),
            bounds=(-40, 40),
            method="bounded",
            options={"xatol": 1e-10},
        )
        kinks = max(-alpha * a - float(loss.value(a)) for a in KINKS)
        best = max(-found.fun, kinks)
        assert float(loss.conjugate(alpha)) == pytest.approx(best, abs=1e-8)


@each_loss
def test_second_derivative_is_that_of_the_slope_between_kinks(loss):
    h, kinks = 1e-6, np.append(KINKS, 1.0 - getattr(loss, "smoothing", 1.0))
    between = RESPONSES[np.abs(RESPONSES[:, None] - kinks).min(axis=1) > 1e-3]
    slope = (loss.subgradient(between + h) - loss.subgradient(between - h)) / (2 * h)
    np.testing.assert_allclose(loss.second_derivative(between), slope, atol=1e-7)
    # At a kink it is that of one side: never negative, never more than beside it.
    everywhere = loss.second_derivative(RESPONSES)
    assert everywhere.min() >= 0.0
    assert everywhere.max() <= 1.02 * loss.second_derivative(between).max()


@each_loss
def test_a_smooth_loss_has_a_slope_without_jumps(loss):
    h = 1e-9
    jumps = np.abs(loss.subgradient(RESPONSES + h) - loss.subgradient(RESPONSES - h))
    assert getattr(loss, "smooth", False) == bool(jumps.max() < 1e-6)


@each_loss
def test_conjugate_curvature_is_the_second_derivative_in_the_box(loss):
    alpha = box(loss)
    middle = (alpha[:-1] + alpha[1:]) / 2
    found = loss.conjugate(alpha[:-1]) + loss.conjugate(alpha[1:]) - 2 * loss.conjugate(middle)
    curvature = getattr(loss, "conjugate_curvature", 0.0)
    least = curvature * np.diff(alpha) ** 2 / 4
    assert (found - least).min() >= -1e-12  # no more than there is, or theta would be too long
    if not isinstance(loss, BENT):
        np.testing.assert_allclose(found, least, atol=1e-12)


@each_loss
def test_fenchel_young(loss):
    a, alpha = np.meshgrid(RESPONSES, box(loss))
    slack = loss.value(a) + loss.conjugate(alpha) + a * alpha
    assert slack.min() >= -1e-12
    # Equality holds where alpha is minus a subgradient.
    alpha = -loss.subgradient(RESPONSES)
    slack = loss.value(RESPONSES) + loss.conjugate(alpha) + RESPONSES * alpha
    np.testing.assert_allclose(slack, 0, atol=1e-12)


@each_loss
def test_subgradient_supports_the_loss_from_below(loss):
    at, other = np.meshgrid(RESPONSES, RESPONSES)
    line = loss.value(at) + loss.subgradient(at) * (other - at)
    assert (loss.value(other) - line).min() >= -1e-12


@each_loss
def test_subgradient_is_the_derivative_between_kinks(loss):
    h = 1e-6
    smooth = RESPONSES[np.abs(RESPONSES[:, None] - np.array(KINKS)).min(axis=1) > 1e-3]
    slope = (loss.value(smooth + h) - loss.value(smooth - h)) / (2 * h)
    np.testing.assert_allclose(loss.subgradient(smooth), slope, atol=1e-7)


@each_loss
def test_minus_a_subgradient_is_in_the_dual_box(loss):
    alpha = -loss.subgradient(RESPONSES)
    assert alpha.min() >= loss.lower
    assert alpha.max() <= loss.upper


@each_loss
def test_lipschitz_constant_is_the_steepest_slope(loss):
    far = np.linspace(-60, 60, 4001)
    steepest = np.abs(np.diff(loss.value(far)) / np.diff(far)).max()
    if np.isinf(loss.lipschitz):
        assert steepest > 50
    else:
        assert steepest == pytest.approx(loss.lipschitz, rel=1e-6)
        assert loss.lipschitz == pytest.approx(max(-loss.lower, loss.upper))


def step_objective(loss, alpha, a, q, new):
    delta = new - alpha
    return float(-loss.conjugate(new) - a * delta - q / 2 * delta**2)


@each_loss
@given(
    a=st.floats(-20, 20),
    q=st.floats(-6, 6).map(lambda e: 10.0**e),
    where=st.floats(0, 1),
)
def test_dual_step_maximises_its_objective(loss, a, q, where):
    low, high = max(loss.lower, -50.0), min(loss.upper, 50.0)
    alpha = low + where * (high - low)
    new = float(loss.dual_step(alpha, a, q))
    assert loss.lower <= new <= loss.upper
    bottom = loss.lower if np.isfinite(loss.lower) else new - 10.0
    top = loss.upper if np.isfinite(loss.upper) else new + 10.0
    found = minimize_scalar(
        lambda v: -step_objective(loss, alpha, a, q, v),
        bounds=(bottom, top),
        method="bounded",
        options={"xatol": 1e-12},
    )
    ours = step_objective(loss, alpha, a, q, new)
    assert ours >= -found.fun - 1e-9 * max(1.0, abs(found.fun))
    ends = [step_objective(loss, alpha, a, q, v) for v in (bottom, top)]
    assert ours >= max(ends) - 1e-9 * max(1.0, abs(ours))


@each_loss
def test_dual_step_of_a_zero_row_goes_to_the_best_alpha_at_once(loss):
    # q is tiny for a row of norm zero, and its response does not depend on w.
    for a in (-3.0, -0.5, 0.0, 0.5, 3.0):
        new = float(loss.dual_step(0.0, a, losses.TINY))
        assert loss.lower <= new <= loss.upper
        slack = float(loss.value(a) + loss.conjugate(new) + a * new)
        assert slack == pytest.approx(0, abs=1e-12)


@each_loss
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_every_type_give_what_single_numbers_give(loss, dtype):
    a = RESPONSES.astype(dtype)
    alpha = np.resize(box(loss), a.size).astype(dtype)
    whole = [loss.value(a), loss.subgradient(a), loss.conjugate(alpha), loss.dual_step(alpha, a, 2)]
    for k in range(0, a.size, 7):
        one = [
            loss.value(a[k]),
            loss.subgradient(a[k]),
            loss.conjugate(alpha[k]),
            loss.dual_step(alpha[k], a[k], 2),
        ]
        np.testing.assert_allclose([w[k] for w in whole], one, rtol=1e-6, atol=1e-6)


@Kernel
def all_four(loss, alpha, a, q, out):
    for k in range(a.size):
        out[0, k] = loss.value(a[k])
        out[1, k] = loss.subgradient(a[k])
        out[2, k] = loss.conjugate(alpha[k])
        out[3, k] = loss.dual_step(alpha[k], a[k], q)


@each_loss
def test_compiled_code_gives_what_numpy_gives(loss):
    alpha = np.resize(box(loss), RESPONSES.size)
    out = np.empty((4, RESPONSES.size))
    all_four._uncached(loss, alpha, RESPONSES, 0.7, out)
    expected = [
        loss.value(RESPONSES),
        loss.subgradient(RESPONSES),
        loss.conjugate(alpha),
        loss.dual_step(alpha, RESPONSES, 0.7),
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-14)


@each_loss
def test_a_loss_survives_pickling(loss):
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss
    assert type(again) is type(loss)


@given(
    a=st.floats(-300, 300),
    q=st.floats(-12, 12).map(lambda e: 10.0**e),
    alpha=st.floats(0, 1),
)
def test_logistic_newton_steps_are_enough(a, q, alpha):
    few, many = losses.Logistic(), losses.Logistic(newton_steps=60)
    assert few.dual_step(alpha, a, q) == pytest.approx(many.dual_step(alpha, a, q), abs=3e-8)


@given(
    a=st.floats(-300, 300),
    q=st.floats(-12, 0).map(lambda e: 10.0**e),
    alpha=st.floats(0, 1),
)
def test_a_short_logistic_step_is_the_root_of_its_equation(a, q, alpha):
    new = float(losses.Logistic().dual_step(alpha, a, q))
    low, high = -a - 1.0, -a + 1.0  # where the root u lies for q up to 1
    for _ in range(100):
        u = (low + high) / 2
        rises = u + a + q * (expit(u) - alpha) < 0.0
        low, high = (u, high) if rises else (low, u)
    assert 0.0 <= new <= 1.0
    assert new == pytest.approx(expit(u), abs=2e-9)


def test_short_and_long_logistic_steps_agree_where_they_meet():
    rng = np.random.default_rng(0)
    alpha, a = rng.uniform(size=1000), 5.0 * rng.standard_normal(1000)
    limit = classification.SMALL_CURVATURE
    short = losses.Logistic().dual_step(alpha, a, limit)
    long = losses.Logistic().dual_step(alpha, a, np.nextafter(limit, 2.0))
    np.testing.assert_allclose(short, long, atol=3e-8)
    assert (short != long).any()
    np.testing.assert_allclose(
        short, [losses.Logistic().dual_step(*pair, limit) for pair in zip(alpha, a, strict=True)],
        atol=2e-9,
    )  # fmt: skip
