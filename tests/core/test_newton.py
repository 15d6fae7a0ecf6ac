"""Newton's method as a user meets it, and when "auto" takes it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import batchsvm
from batchsvm import BatchSVC, BatchSVR
from batchsvm.core.layout import Workload
from batchsvm.core.newton_choice import largest_second_derivative, newton_alternative
from batchsvm.core.problem import Facts, make_problem
from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines.newton_equation import (
    MAX_OWN_COLUMNS,
    conjugate_gradients,
    solve_positive,
)
from batchsvm.engines.targets import make_targets
from batchsvm.losses import LOSSES, Huber, Logistic, SmoothedHinge, SquaredHinge
from batchsvm.methods import Newton
from helpers import quietly

LAM = 1e-3


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(y == 1, 1, -1)


# The same optimum as scikit-learn's.


def test_logistic_regression_is_that_of_scikit_learn(cancer):
    X, y = cancer
    ours = BatchSVC("logistic", lam=LAM, intercept="free", method="newton", tol=1e-9).fit(X, y)
    theirs = LogisticRegression(
        C=1 / (LAM * len(y)), solver="newton-cholesky", tol=1e-10, max_iter=1000
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-3, atol=1e-4)
    assert ours.certificate_.relative_gap <= 1e-9


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_squared_hinge_is_that_of_scikit_learn(cancer, stored):
    X, y = cancer
    ours = BatchSVC("squared_hinge", lam=LAM, method="newton", class_weight="balanced", tol=1e-9)
    ours.fit(stored(X), y)
    theirs = LinearSVC(
        C=1 / (LAM * len(y)), dual=False, tol=1e-10, max_iter=10_000, class_weight="balanced"
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-3, atol=1e-5)


def test_it_agrees_with_sdca(cancer):
    X, y = cancer
    primals = [
        batchsvm.fit(X, y, SmoothedHinge(0.5), LAM, method=method, tol=1e-7).certificate.primal
        for method in ("newton", "aggressive")
    ]
    assert primals[0] == pytest.approx(primals[1], rel=1e-6)


# Everything that a fit can be asked for.


def test_all_classes_of_an_estimator(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = BatchSVC("logistic", C=1.0, method=Newton(), tol=1e-8).fit(X, y)
    assert all(certificate.relative_gap <= 1e-8 for certificate in model.certificate_)
    assert model.score(X, y) > 0.9
    model.save(tmp_path / "model")
    assert batchsvm.load(tmp_path / "model").predict(X).tolist() == model.predict(X).tolist()


def test_a_path_goes_on_from_one_lam_to_the_next(cancer):
    X, y = cancer
    lams = [1e-1, 1e-2, 1e-3, 1e-4]
    found = batchsvm.path(X, y, lams, "logistic", method="newton", tol=1e-6, random_state=0)
    cold = [
        batchsvm.fit(X, y, "logistic", lam, method="newton", tol=1e-6).certificate.primal
        for lam in lams
    ]
    warm = [certificate.primal for certificate in found.certificates]
    np.testing.assert_allclose(sorted(warm), sorted(cold), rtol=1e-6)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_free_intercept(engine):
    X, y = load_diabetes(return_X_y=True)
    y = y + 1000.0
    model = BatchSVR(
        "huber", epsilon=20.0, lam=1e-4, intercept="free", method="newton", engine=engine, tol=1e-8
    ).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-8
    assert abs(model.intercept_[0] - y.mean()) < 20
    residuals = model.predict(X) - y
    slopes = np.clip(residuals, -20.0, 20.0)
    assert abs(slopes.mean()) < 1e-2  # the derivative of P by the intercept


def test_checkpoints_and_callbacks(cancer):
    X, y = cancer
    seen = []
    solution = quietly(
        X, y, "logistic", LAM, method="newton", tol=0.0, checkpoints=[1, 2, 3],
        callback=lambda checkpoint: seen.append(checkpoint) or len(seen) == 4,
    )  # fmt: skip
    assert [checkpoint.iteration for checkpoint in seen] == [0, 1, 2, 3]
    assert solution.status is batchsvm.Status.STOPPED
    primals = [checkpoint.certificate.primal for checkpoint in seen]
    assert primals == sorted(primals, reverse=True)
    assert solution.history.epoch.tolist() == [0, 1, 2, 3]


def test_a_fit_ends_where_float64_ends(cancer):
    X, y = cancer
    for loss in ("logistic", "squared_hinge", "smoothed_hinge"):
        solution = quietly(X, y, loss, LAM, method="newton", tol=0.0, max_epochs=60)
        assert solution.status is batchsvm.Status.PRECISION, loss


def test_steps_are_shortened_where_p_would_rise():
    # Residuals far outside of the parabola: the Hessian is zero at first.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = 50.0 + 0.01 * rng.normal(size=200)
    solution = batchsvm.fit(X, y, Huber(0.1), 1e-6, bias=1.0, method="newton", tol=1e-6)
    assert solution.status.converged
    assert solution.history.refused[-1] > 0


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_more_columns_than_rows(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, MAX_OWN_COLUMNS + 20))
    y = np.where(rng.random(30) < 0.5, 1, -1)
    solution = batchsvm.fit(X, y, "logistic", 1e-3, method=Newton(solver), tol=1e-8)
    assert solution.status.converged


# What is refused.


def test_losses_with_kinks_are_refused_where_rows_are_elsewhere(cancer):
    X, y = cancer
    words = (
        'loss must have a continuous slope for method "newton" on engine="streamed", such as'
        ' "smoothed_hinge", "squared_hinge", "logistic", "squared_epsilon_insensitive",'
        ' "squared_error", "huber", not Hinge(margin=1.0); engine="cpu" takes every loss'
    )
    with pytest.raises(ValueError, match="continuous slope") as found:
        batchsvm.fit(X, y, "hinge", method="newton", engine="streamed")
    assert str(found.value) == words


def test_other_options_are_refused(cancer):
    X, y = cancer
    with pytest.raises(ValueError, match='batch_size must be "auto" for method "newton"'):
        batchsvm.fit(X, y, "logistic", method="newton", batch_size=5)
    with pytest.raises(ValueError, match="solver must be one of"):
        batchsvm.fit(X, y, "logistic", method=Newton("lu"))
    with pytest.raises(ValueError, match="averaging must be None for newton"):
        batchsvm.fit(X, y, "logistic", method="newton", averaging="tail")


# The Newton equation.


@pytest.mark.parametrize("p", [1, 3, 4, 5, 7, 8, 13, MAX_OWN_COLUMNS, MAX_OWN_COLUMNS + 1])
def test_the_newton_equation_is_solved(p):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(p, p + 3)) * 10.0 ** rng.integers(-4, 4, size=(p, 1))
    matrix, right = A @ A.T, rng.normal(size=p)
    matrix[np.diag_indices(p)] *= 1.1
    expected = np.linalg.solve(matrix, right)
    found = solve_positive(matrix.copy(), right)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("p", [2, MAX_OWN_COLUMNS + 1])
def test_an_indefinite_matrix_is_noticed(p):
    matrix = np.eye(p)
    matrix[0, 1] = matrix[1, 0] = 2.0
    assert solve_positive(matrix.copy(), np.ones(p)) is None
    assert solve_positive(-np.eye(p), np.ones(p)) is None


@pytest.mark.parametrize("place", range(1, 9))
def test_an_indefinite_matrix_is_noticed_in_each_row(place):
    matrix = np.eye(9)
    matrix[place, place - 1] = matrix[place - 1, place] = 1.5
    assert solve_positive(matrix, np.ones(9)) is None


def test_conjugate_gradients_stop_at_their_goal():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 40))
    matrix, right = A @ A.T, rng.normal(size=20)
    for goal in (1e-1, 1e-6):
        found = conjugate_gradients(lambda v: matrix @ v, right, goal)
        assert np.linalg.norm(matrix @ found - right) <= 1.001 * goal


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan])
def test_conjugate_gradients_end_where_there_is_no_curvature(factor):
    right = np.ones(5)
    assert not conjugate_gradients(lambda v: factor * v, right, 1e-9).any()


def test_products_that_underflow_are_no_error():
    """The Hessian has no factor, and its products are 0."""
    rng = np.random.default_rng(0)
    X = 1e-100 * rng.normal(size=(60, 8))
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    for loss in ("absolute", "squared_hinge", "logistic"):
        solution = quietly(X, y, loss, lam=1e-214, method=Newton("cg"), tol=1e-8, max_epochs=40)
        assert np.isfinite(solution.certificate.bound)


# When "auto" takes it.


def reason(loss, n=100_000, d=30, lam=1e-4, weight=1.0, norm2=30.0, nonzeros=None, k=1, mean=None):
    targets = make_targets(2, np.ones(2))
    problem = make_problem(targets, loss, np.full(k, lam))
    one = np.ones(k)
    facts = Facts(n, d, 1.0, n * one, n * one, weight * one, norm2 * one)
    work = Workload(n, d, nonzeros or n * d, True, 1, DEFAULT_TUNING)
    mean = norm2 if mean is None else mean
    found = newton_alternative(work, problem, facts, 1e-3, lambda: mean)
    return found.reason if found is not None and found.is_likely else None


def test_auto_takes_newton_where_sdca_is_slow():
    assert reason(Logistic(), weight=500.0) is not None
    assert reason(SquaredHinge(), weight=500.0) is not None
    assert reason(Logistic(), norm2=1e7) is not None  # raw columns
    assert "kinks" in reason(LOSSES["hinge"](), norm2=1e7)
    words = reason(Logistic(), norm2=1e7)
    assert "so few columns (30)" in words
    assert "epochs" in words


def test_auto_takes_newton_on_dense_rows_that_depend_on_each_other():
    """Where it was 2 to 20 times as fast; rows have norms of 22 and 57."""
    many, wide = {"n": 50_000, "d": 100, "norm2": 500.0}, {"n": 20_000, "d": 300, "norm2": 3300.0}
    assert reason(SquaredHinge(), lam=1e-3, **many) is not None
    assert reason(Logistic(), lam=1e-3, **many) is not None
    assert reason(SquaredHinge(), lam=1e-2, **wide) is not None
    assert reason(LOSSES["hinge"](), lam=1e-4, **wide) is not None
    assert reason(SquaredHinge(), lam=0.1, **many) is None
    assert reason(LOSSES["hinge"](), lam=1e-2, **many) is None


def test_auto_leaves_the_rest_to_sdca():
    assert reason(LOSSES["hinge"](), norm2=30.0) is None  # kinks take more iterations
    assert reason(LOSSES["hinge"](), norm2=1e7, mean=30.0) is None  # one row is long
    assert reason(LOSSES["hinge"](), n=100, lam=1.0, norm2=1e3) is None  # hardly any rows
    assert reason(Logistic(), d=50_000, nonzeros=7_400_000, norm2=1.0) is None  # text
    assert reason(Logistic(), d=2000, norm2=1.0, lam=1e-2) is None  # an expensive Hessian
    assert reason(SmoothedHinge(1e-4), norm2=1e7) is None  # nearly a corner
    assert reason(Logistic(), norm2=1e7, k=2) is None


def test_auto_knows_that_short_logistic_steps_are_fast():
    """Rows and columns as many as covertype has; a step has the curvature ||x||^2 / (lam N)."""
    lam_n = 5.22911
    shape = {"n": 522_911, "d": 54, "lam": 1e-5, "nonzeros": 6_246_325}
    assert reason(Logistic(), norm2=0.99 * lam_n, **shape) is None
    assert reason(Logistic(), norm2=1.5 * lam_n, **shape) is not None


def test_the_largest_second_derivatives():
    assert largest_second_derivative(Logistic()) == 0.25
    assert largest_second_derivative(SquaredHinge()) == 2.0
    assert largest_second_derivative(SmoothedHinge(0.5)) == 2.0
    assert largest_second_derivative(Huber(3.0)) == 1.0


def test_auto_says_why(cancer):
    X, y = load_breast_cancer(return_X_y=True)  # columns in thousands beside others below 0.1
    solution = batchsvm.fit(X, y, "logistic", 1e-4, random_state=0)
    assert isinstance(solution.method, Newton)
    assert solution.plan.reason.startswith("so few columns (30) make Newton's method cheap")
    assert solution.plan.batch_size == len(y)
    assert solution.status.converged


def test_auto_keeps_to_sdca_for_what_newton_does_not_offer(cancer):
    X, y = load_breast_cancer(return_X_y=True)
    for asked in ({"averaging": "decay"}, {"checkpoints": [5, 10]}, {"batch_size": 4}):
        solution = quietly(X, y, "logistic", 1e-4, max_epochs=3, random_state=0, **asked)
        assert not isinstance(solution.method, Newton), asked


@pytest.mark.parametrize("scale", [1e20, 1e40])
def test_auto_is_sdca_where_one_row_leaves_the_hessian_no_digits(scale):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 4)), np.where(rng.random(60) < 0.5, -1, 1)
    X[0] *= scale
    solution = batchsvm.fit(X, y, loss="logistic", lam=1e-3, random_state=0)
    assert not isinstance(solution.method, Newton)
    assert solution.status.converged


def test_conjugate_gradients_say_nothing_of_numbers_that_overflow(recwarn):
    conjugate_gradients(lambda v: 1e300 * v * 1e10, np.full(3, 1e200), 0.0)
    assert not recwarn.list
