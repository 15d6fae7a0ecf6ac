"""What every engine has to pass: the passes that Newton's method needs, and training by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from setting import CASES, Setting, close_to, train_all

from batchsvm.core.certificate import certify_point
from batchsvm.core.options import FitOptions
from batchsvm.core.solution import Status
from batchsvm.losses import LOSSES
from batchsvm.methods import Newton, is_smooth

SMOOTH = [name for name, kind in LOSSES.items() if is_smooth(kind)]
LENGTHS = np.array([1.0, 0.25, 0.0])

smooth = pytest.mark.parametrize("loss_name", SMOOTH)


@pytest.fixture
def setting(engine, loss_name, k):
    found = Setting(engine, loss_name, k).place()
    with found.data:
        yield found


def unconfined(setting):
    """The setting without its radius, which Newton's method does not know."""
    setting.case = replace(setting.case, radius=np.inf)
    return setting


def test_the_smooth_losses():
    regression = ["squared_epsilon_insensitive", "squared_error", "huber"]
    assert SMOOTH == ["smoothed_hinge", "squared_hinge", "logistic", *regression]


@smooth
def test_losses_and_gradients_are_those_of_the_textbook(setting, k):
    W, _ = setting.random_points()
    found = setting.data.gradient_sums(setting.problem, W)
    assert found.losses.shape == (k,)
    assert found.slopes.shape == W.shape
    for j in range(k):
        a, c = setting.responses(j, W[:, j]), setting.weights(j)
        close_to(found.losses[j], c @ setting.values(j, a), scale=c.sum())
        slopes = c * setting.signs(j) * setting.loss.subgradient(a)
        close_to(found.slopes[:, j], setting.rows(j).T @ slopes, scale=10)


@smooth
def test_losses_along_a_step_are_those_of_the_textbook(setting, k):
    W, _ = setting.random_points()
    V = np.random.default_rng(3).normal(size=W.shape)
    found = setting.data.losses_along(setting.problem, W, V, LENGTHS)
    assert found.shape == (LENGTHS.size, k)
    for j in range(k):
        for t, losses in zip(LENGTHS, found[:, j], strict=True):
            values = setting.values(j, setting.responses(j, W[:, j] + t * V[:, j]))
            close_to(losses, setting.weights(j) @ values, scale=100)


@smooth
def test_the_linearised_dual_point_is_put_into_its_box(setting, k):
    W, _ = setting.random_points()
    V = np.random.default_rng(3).normal(size=W.shape)
    found = setting.data.dual_at(setting.problem, W, V).fetch()
    loss, clipped = setting.loss, 0
    for j in range(k):
        a, c = setting.responses(j, W[:, j]), setting.weights(j)
        along = setting.signs(j) * (setting.rows(j) @ V[:, j])
        relative = -(loss.subgradient(a) + loss.second_derivative(a) * along)
        inside = np.clip(relative, loss.lower, loss.upper)
        clipped += np.count_nonzero(inside != relative)
        close_to(found[:, j], c * inside)
    assert (clipped > 0) == bool(np.isfinite([loss.lower, loss.upper]).any())


def test_w_of_the_linearised_point_is_the_end_of_a_newton_step(engine):
    setting = Setting(engine, "logistic", 1).place()
    with setting.data as data:
        lam = 20.0  # so large that no row is moved out of its box
        problem = replace(setting.problem, lam=np.array([lam]))
        weight = data.facts(problem).total_weight[0]
        W = np.zeros((setting.p, 1))
        gradient = data.gradient_sums(problem, W).slopes[:, 0] / weight
        hessian = data.hessian(problem, W) + lam * np.eye(setting.p)
        step = np.linalg.solve(hessian, -gradient)
        dual = data.dual_at(problem, W, step[:, np.newaxis])
        alpha = dual.fetch()[:, 0]
        assert 0.0 < alpha.min() < alpha.max() < 1.0
        w = data.combination(problem, dual)[:, 0] / (lam * weight)
        np.testing.assert_allclose(w, step, rtol=1e-9, atol=1e-11)


@smooth
def test_the_gap_of_a_primal_point_is_that_of_its_gradient(engine, loss_name):
    setting = unconfined(Setting(engine, loss_name, 1)).place()
    with setting.data as data:
        problem, lam = setting.problem, setting.lam[0]
        W, _ = setting.random_points()
        weight = data.facts(problem).total_weight[0]
        gradient = data.gradient_sums(problem, W).slopes[:, 0] / weight + lam * W[:, 0]
        [certificate] = certify_point(data, problem, W, data.dual_at(problem, W))
        assert certificate.gap == pytest.approx(gradient @ gradient / (2 * lam), rel=1e-9)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@smooth
def test_newton_finds_the_optimum(engine, loss_name, k, solver):
    setting = unconfined(Setting(engine, loss_name, k)).place()
    options = FitOptions(Newton(solver), tol=1e-9)
    with setting.data as data:
        assert data.problems_at_once(Newton()) == 1
        solutions = train_all(data, setting.problem, options)
        for j, solution in enumerate(solutions):
            assert solution.status is Status.CONVERGED
            assert solution.certificate.relative_gap <= 1e-9
            alpha, w = solution.alpha, solution.w
            assert setting.primal(j, w) == pytest.approx(solution.certificate.primal, rel=1e-12)
            assert setting.dual(j, alpha) == pytest.approx(solution.certificate.dual, rel=1e-12)
            assert solution.history.iteration[-1] < 20
            assert solution.batch_size == data.n
            assert np.isnan(solution.history.beta).all()


@smooth
def test_newton_is_the_same_on_every_engine(tested_engine, loss_name):
    options = FitOptions(Newton(), tol=1e-6)
    found = {}
    for engine in ("reference", tested_engine):
        setting = unconfined(Setting(engine, loss_name, 1)).place()
        with setting.data as data:
            [solution] = train_all(data, setting.problem, options)
            found[engine] = solution.history.iteration.tolist(), solution.w, solution.alpha
    here, there = found["reference"], found[tested_engine]
    assert here[0] == there[0]
    np.testing.assert_allclose(there[1], here[1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(there[2], here[2], rtol=1e-7, atol=1e-9)


@smooth
def test_newton_goes_on_from_a_dual_point(engine, loss_name):
    setting = unconfined(Setting(engine, loss_name, 1)).place()
    with setting.data as data:
        [cold] = train_all(data, setting.problem, FitOptions(Newton(), tol=1e-9))
        again = FitOptions(Newton(), tol=1e-8)
        [warm] = train_all(data, setting.problem, again, alpha=cold.alpha[:, np.newaxis])
    assert warm.status is Status.CONVERGED
    assert warm.history.iteration[-1] == 0


def test_the_cases_have_what_newton_has_to_know():
    cases = [CASES[name] for name in SMOOTH]
    assert any(case.weighted for case in cases)
    assert any(case.offset for case in cases)
    assert any(case.bias for case in cases)
    assert {case.form.split("-")[0] for case in cases} == {"dense", "csr"}
