"""Newton's method on losses with kinks: the proximal point method over smoothed losses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor
from sklearn.svm import LinearSVC

import batchsvm
from batchsvm import BatchSVC, BatchSVR
from batchsvm.losses import LOSSES, Hinge
from batchsvm.losses.smoothing import Smoothed
from batchsvm.methods import Newton, is_smooth
from helpers import LAM, quietly, toy

KINKS = [name for name, kind in LOSSES.items() if not is_smooth(kind)]


@pytest.fixture(scope="module")
def raw():
    """Columns in thousands beside others below 0.1."""
    X, y = load_breast_cancer(return_X_y=True)
    return X, np.where(y == 1, 1, -1)


# The smoothed losses.


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("width", [1e-3, 0.5, 7.0])
def test_a_smoothed_loss_is_the_best_of_its_dual(name, width):
    base = LOSSES[name]()
    loss, a = Smoothed(base, width), np.linspace(-5, 5, 401)
    box = np.linspace(base.lower, base.upper, 20_001)
    lines = -np.outer(a, box) - base.conjugate(box) - width / 2 * box**2
    np.testing.assert_allclose(loss.value(a), lines.max(axis=1), atol=1e-6)
    assert (loss.value(a) <= base.value(a) + 1e-12).all()  # from below
    middle = (loss.value(a + 1e-6) - loss.value(a - 1e-6)) / 2e-6
    np.testing.assert_allclose(loss.subgradient(a), middle, atol=1e-3)
    assert set(np.round(loss.second_derivative(a) * width, 6)) <= {0.0, 0.5, 1.0}


def test_a_smoothed_hinge_is_the_smoothed_hinge():
    a = np.linspace(-3, 3, 101)
    ours, theirs = Smoothed(Hinge(), 0.3), LOSSES["smoothed_hinge"](0.3)
    for method in ("value", "subgradient"):
        np.testing.assert_allclose(getattr(ours, method)(a), getattr(theirs, method)(a), atol=1e-15)
    alpha = np.linspace(0, 1, 11)
    np.testing.assert_allclose(ours.conjugate(alpha), theirs.conjugate(alpha), atol=1e-15)
    np.testing.assert_allclose(
        ours.dual_step(0.4, a, 0.7), theirs.dual_step(0.4, a, 0.7), atol=1e-15
    )


# The optimum, by other ways.


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_it_finds_the_optimum_of_sdca(name, engine, stored):
    X, y = toy(name)
    rng = np.random.default_rng(0)
    asked = {
        "loss": name, "lam": LAM, "bias": 1.5, "sample_weight": rng.uniform(0.0, 3.0, len(y)),
        "offset": rng.normal(size=len(y)), "tol": 1e-7,
    }  # fmt: skip
    newton = batchsvm.fit(stored(X), y, method="newton", engine=engine, **asked)
    sdca = quietly(X, y, method="aggressive", batch_size=1, random_state=0, **asked)
    assert newton.status.converged
    assert newton.history.epoch[-1] < 60
    assert newton.certificate.dual <= sdca.certificate.primal_above
    assert sdca.certificate.dual <= newton.certificate.primal_above


def test_unscaled_columns_are_that_of_scikit_learn(raw):
    X, y = raw
    ours = BatchSVC(C=1.0, tol=1e-6, random_state=0).fit(X, y)
    assert ours.plan_.fallback == "newton"
    assert ours.certificate_.relative_gap <= 1e-6
    with pytest.warns(ConvergenceWarning, match="failed to converge"):
        theirs = LinearSVC(C=1.0, loss="hinge", max_iter=1000, random_state=0).fit(X, y)
    assert ours.score(X, y) > theirs.score(X, y)


def test_quantiles_are_those_of_a_linear_program():
    X, y = load_diabetes(return_X_y=True)
    ours = BatchSVR("quantile", quantile=0.9, lam=1e-10, intercept="free", tol=1e-6).fit(X, y)
    theirs = QuantileRegressor(quantile=0.9, alpha=0.0).fit(X, y)

    def pinball(model):
        left = y - model.predict(X)
        return np.maximum(0.9 * left, -0.1 * left).mean()

    assert pinball(ours) == pytest.approx(pinball(theirs), rel=1e-4)


def test_digits_that_sdca_does_not_reach():
    X, y = load_digits(return_X_y=True)
    model = BatchSVC(C=10, random_state=0, max_epochs=1000).fit(X, y)
    assert model.plan_.fallback == "newton"
    assert model.n_iter_ < 300
    bound = max(c.bound / max(c.primal, 1e-3) for c in model.certificate_)
    assert bound <= 1e-3 * 1.001
    assert model.score(X, y) > 0.98


# What a fit can be asked for.


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_more_columns_than_rows(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 70))
    y = np.where(rng.random(40) < 0.5, 1, -1)
    solution = batchsvm.fit(X, y, "hinge", 1e-4, method=Newton(solver), tol=1e-6)
    assert solution.status.converged


def test_it_goes_on_from_a_dual_point(raw):
    X, y = raw
    first = batchsvm.fit(X, y, lam=1e-3, method="newton", tol=1e-6)
    again = batchsvm.fit(X, y, lam=1e-3, method="newton", tol=1e-6, initial=first)
    assert again.status.converged
    assert again.history.iteration[-1] < first.history.iteration[-1] / 2


def test_no_dual_value_is_above_the_optimum(raw):
    X, y = raw
    best = batchsvm.fit(X, y, lam=1e-4, method="newton", tol=1e-8).certificate
    solution = batchsvm.fit(
        X, y, lam=1e-4, method="newton", tol=1e-6, checkpoints=list(range(1, 30))
    )
    assert (solution.history.dual <= best.primal_above).all()
    assert (solution.history.primal >= best.dual_below).all()


def test_few_epochs_are_left_to_sdca(raw):
    X, y = raw
    assert batchsvm.fit(X, y, max_epochs=5, warn=False).method.name != "newton"
    assert batchsvm.fit(X, y, max_epochs=500).method.name == "newton"


def far_from_zero():
    """One column near 1,000, and one row in a hundred is positive: the loss is linear around w = 0,
    where the Hessian is lam I and a Newton step far too long."""
    X = 1000 + np.random.default_rng(0).normal(size=(300, 1))
    return X, np.where(np.arange(300) < 3, 1.0, -1.0)


@pytest.mark.parametrize(
    ("loss", "target", "bias"),
    [("hinge", None, 1.0), ("smoothed_hinge", None, 1.0), ("quantile", 5.0, None),
     ("huber", 500.0, None)],
)  # fmt: skip
def test_steps_that_are_far_too_long_are_shortened_enough(loss, target, bias):
    X, y = far_from_zero()
    y = y if target is None else np.full(300, target)
    assert batchsvm.fit(X, y, loss, bias=bias).status.converged


def test_nearly_no_penalty_is_no_error():
    X, y = far_from_zero()
    assert batchsvm.fit(X, y, lam=1e-200, method="newton", max_epochs=5, warn=False).certificate


def test_auto_takes_it_for_residuals_that_are_small_beside_the_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X[:, 1] + 0.1 * rng.normal(size=200)
    for loss in ("absolute", "epsilon_insensitive"):
        solution = batchsvm.fit(X, y, loss)
        assert solution.status.converged
        assert solution.method.name == "newton"
        assert str(solution).startswith("serial SDCA, then Newton's method:")


def test_the_advice_after_too_few_steps_names_no_batch_size(raw):
    X, y = raw
    with pytest.warns(ConvergenceWarning, match="use a larger lam, or scale the columns"):
        batchsvm.fit(X, y, method="newton", max_epochs=2)
