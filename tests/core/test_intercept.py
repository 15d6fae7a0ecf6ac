"""Intercepts: penalised as a column without storage, and free with a certificate of its own."""

from __future__ import annotations

from math import fsum

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, QuantileRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import batchsvm
from batchsvm import BatchSVC, BatchSVR, Status
from batchsvm.core.best_constant import best_constant
from batchsvm.core.problem import make_problem
from batchsvm.core.spectral import SpectralQuery, measure_sigma2
from batchsvm.engines.balance import balanced as balance
from batchsvm.engines.cpu.rows import CSR, Biased, Dense
from batchsvm.losses import LOSSES
from helpers import FORMATS, csr, one_problem, toy

# The virtual column


@pytest.mark.parametrize(
    ("method", "b", "name"),
    [
        ("auto", 1, "csr-float32-int64"),
        ("pegasos", 8, "dense-float64"),
        pytest.param("auto", 1, "dense-float32", marks=pytest.mark.slow),
        pytest.param("aggressive", 8, "csr-float64-int32", marks=pytest.mark.slow),
    ],
)
def test_a_virtual_column_is_a_column(method, b, name):
    X, y = toy("hinge")
    stored = np.column_stack([X, np.full(len(y), 1.5)])
    options = {"lam": 0.05, "method": method, "batch_size": b, "tol": 1e-2, "random_state": 0}
    virtual = batchsvm.fit(FORMATS[name](X), y, bias=1.5, **options)
    real = batchsvm.fit(FORMATS[name](stored), y, **options)
    np.testing.assert_allclose(virtual.w, real.w, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(virtual.alpha, real.alpha, rtol=1e-6, atol=1e-9)
    assert virtual.certificate.gap == pytest.approx(real.certificate.gap, rel=1e-6)
    assert virtual.plan.sigma2 == pytest.approx(real.plan.sigma2, rel=1e-6)
    again = batchsvm.certify(FORMATS[name](X), y, virtual.w, virtual.alpha, lam=0.05, bias=1.5)
    assert again == virtual.certificate


def test_the_reference_engine_knows_virtual_columns():
    X, y = toy("hinge")
    options = {"lam": 0.05, "method": "safe", "batch_size": 4, "bias": 2.0, "tol": 1e-9,
               "random_state": 0, "max_epochs": 2, "warn": False}  # fmt: skip
    for data in (X, sp.csr_array(X)):
        compiled = batchsvm.fit(data, y, **options)
        reference = batchsvm.fit(data, y, engine="reference", **options)
        np.testing.assert_allclose(compiled.w, reference.w, rtol=1e-9)


@pytest.mark.parametrize("shape", [(30, 5), (5, 30)])
@pytest.mark.parametrize("how", ["exact", "lanczos", "sample", "crude", "estimate"])
def test_sigma2_of_virtual_columns(shape, how):
    X = np.random.default_rng(0).normal(size=shape)
    wide = np.column_stack([X, np.full(shape[0], 2.0)])
    sparse = csr(X, np.float64, np.int32)
    rows = CSR(sparse.data, sparse.indices.view("u4"), sparse.indptr.view("u4"), shape[1])
    for base in (Dense(X), rows):
        virtual = Biased(base, shape[1], 2.0)
        assert virtual.shape == wide.shape
        assert virtual.nonzeros == wide.size
        assert virtual.longest == shape[1] + 1
    stored = measure_sigma2(batchsvm.place(wide), SpectralQuery(how, sampled_rows=4, seed=1))
    for form in (X, sparse):
        question = SpectralQuery(how, bias=2.0, sampled_rows=4, seed=1)
        assert measure_sigma2(batchsvm.place(form), question) == pytest.approx(stored, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_best_constant_minimises_the_loss_of_a_constant(loss):
    X, y = toy(loss)
    with batchsvm.place(X) as data:
        problem = one_problem(data, y, loss)
        found = best_constant(data, problem)
        tried = [data.constant_sums(problem, np.array([b])).losses[0]
                 for b in (found, *np.linspace(-3, 3, 601))]  # fmt: skip
    assert tried[0] <= min(tried) * (1 + 1e-3)


def test_the_best_constant_beside_offsets_far_away():
    X, y = np.zeros((4, 1)), np.array([1.0, 1.0, -1.0, -1.0])
    with batchsvm.place(X) as data:
        for offset in (np.full(4, 500.0), np.array([900.0, 800.0, 700.0, 850.0]), np.full(4, -3e4)):
            problem = make_problem(data.targets(y, None, offset), LOSSES["logistic"](), 1.0)
            found = best_constant(data, problem)
            tried = [data.constant_sums(problem, np.array([b])).losses[0]
                     for b in (found, *(-offset), *(-offset + 40), 0.0)]  # fmt: skip
            assert tried[0] <= min(tried) * (1 + 1e-3)


def fit_linear(X, y, *, lam, **options):
    """One model of a path of one lam."""
    [model] = batchsvm.path(X, y, [lam], **options).models
    return model


def test_a_larger_scaling_is_penalised_less(cancer):
    X, y = cancer
    X = X + 1.0
    free = BatchSVC(C=0.01, intercept="free", tol=1e-7, random_state=0).fit(X, y)
    distances = []
    for scaling in (0.1, 1.0, 10.0, 30.0):
        model = BatchSVC(C=0.01, intercept_scaling=scaling, tol=1e-5, random_state=0).fit(X, y)
        distances.append(abs(model.intercept_ - free.intercept_)[0])
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.05 * distances[0]


def test_no_intercept(cancer):
    X, y = cancer
    model = BatchSVC(C=0.01, fit_intercept=False, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.intercept_, [0.0])
    np.testing.assert_array_equal(model.decision_function(np.zeros((2, 30))), [0.0, 0.0])


@pytest.mark.parametrize("bias", [0.0, -1.0, np.inf, "1"])
def test_bad_bias(bias):
    with pytest.raises(ValueError, match="bias must be a finite positive number, or None"):
        batchsvm.fit([[1.0], [2.0]], [0, 1], bias=bias)


# Offsets


@pytest.mark.parametrize(
    "loss",
    [
        name if name in ("hinge", "huber") else pytest.param(name, marks=pytest.mark.slow)
        for name in LOSSES
    ],
)
def test_an_offset_is_a_feature_with_a_fixed_coefficient(loss):
    X, y = toy(loss)
    offset = np.random.default_rng(1).normal(size=len(y))
    found = batchsvm.fit(X, y, loss, 0.1, offset=offset, tol=1e-6, random_state=0)
    kind = LOSSES[loss]()
    response = X @ found.w + offset
    response = y * response if kind.task == "classification" else response - y
    primal = kind.value(response).mean() + 0.05 * found.w @ found.w
    assert found.certificate.primal == pytest.approx(primal, rel=1e-12)
    assert found.status is Status.CONVERGED
    if kind.task == "regression":  # there it is a shift of y
        shifted = batchsvm.fit(X, y - offset, loss, 0.1, tol=1e-6, random_state=0)
        np.testing.assert_allclose(found.w, shifted.w, rtol=1e-9, atol=1e-12)


def test_one_offset_for_all_rows():
    X, y = toy("hinge")
    one = batchsvm.fit(X, y, lam=0.1, offset=0.5, random_state=0)
    many = batchsvm.fit(X, y, lam=0.1, offset=np.full(len(y), 0.5), random_state=0)
    np.testing.assert_array_equal(one.w, many.w)
    for bad in (np.zeros(3), np.full(len(y), np.nan), "x"):
        with pytest.raises(ValueError, match="offset must"):
            batchsvm.fit(X, y, offset=bad)


# The free intercept


@given(
    st.lists(
        st.tuples(st.sampled_from([-1.0, 1.0]), st.floats(-1e6, 1e6, allow_subnormal=False)),
        min_size=1,
        max_size=40,
    )
)
def test_balance_is_exact_and_stays_in_the_box(pairs):
    signs, alpha = np.array(pairs).T
    balanced = balance(signs, alpha)
    assert fsum(signs * balanced) == 0.0
    assert (np.abs(balanced) <= np.abs(alpha)).all()
    assert (balanced * alpha >= 0).all()


def test_balance_moves_little():
    rng = np.random.default_rng(0)
    signs, alpha = rng.choice([-1.0, 1.0], 10_000), rng.random(10_000)
    excess = abs(signs @ alpha)
    assert np.abs(balance(signs, alpha) - alpha).sum() <= excess * (1 + 1e-8)


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_free_is_svc(cancer, shift):
    X, y = cancer
    X = X + shift
    theirs = SVC(kernel="linear", C=0.02, tol=1e-8).fit(X, y)
    ours = BatchSVC(C=0.02, intercept="free", tol=1e-9, max_epochs=10**5, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)


def test_free_is_svr():
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    theirs = SVR(kernel="linear", C=0.1, epsilon=5.0, tol=1e-8).fit(X, y)
    ours = BatchSVR(C=0.1, epsilon=5.0, intercept="free", tol=1e-9, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=1e-2)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-2)


# An old scikit-learn with a new SciPy.
@pytest.mark.filterwarnings("ignore:.*L-BFGS-B:DeprecationWarning")
def test_free_is_logistic_regression(cancer):
    X, y = cancer
    theirs = LogisticRegression(C=0.05, tol=1e-10, max_iter=10**4).fit(X, y)
    ours = BatchSVC("logistic", C=0.05, intercept="free", tol=1e-10, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_free_certificate_is_one_of_the_joint_problem(loss, weighted):
    X, y = toy(loss, n=80)
    X = X + 1.0
    weights = np.random.default_rng(2).uniform(0.0, 3.0, len(y)) if weighted else None
    lam, kind = 0.05, LOSSES[loss]()
    options = {"loss": loss, "lam": lam, "intercept": "free", "sample_weight": weights,
               "random_state": 0, "max_epochs": 10**4}  # fmt: skip
    rough = fit_linear(X, y, tol=0.05, **options)
    sharp = fit_linear(X, y, tol=1e-8, **options)
    for model, tol in ((rough, 0.05), (sharp, 1e-8)):
        c = np.ones(len(y)) if weights is None else weights
        signs = y if kind.task == "classification" else np.ones(len(y))
        offsets = np.zeros(len(y)) if kind.task == "classification" else y
        alpha, certificate = model.solution.alpha, model.solution.certificate
        # Feasible: in the box, and orthogonal to the signs.
        relative = np.divide(alpha, c, out=np.zeros(len(y)), where=c > 0)
        assert (relative >= kind.lower - 1e-12).all()
        assert (relative <= kind.upper + 1e-12).all()
        assert abs(fsum(signs * alpha)) <= 1e-15 * np.abs(alpha).sum()
        # P and D as in the docs, by hand.
        response = signs * (X @ model.coef + model.intercept) - offsets
        primal = c @ kind.value(response) / c.sum() + lam / 2 * model.coef @ model.coef
        w = (alpha * signs) @ X / (lam * c.sum())
        dual = (alpha @ offsets - c @ kind.conjugate(relative)) / c.sum() - lam / 2 * w @ w
        assert certificate.primal == pytest.approx(primal, rel=1e-9)
        assert certificate.dual == pytest.approx(dual, rel=1e-7, abs=1e-9)
        assert certificate.relative_gap == pytest.approx((primal - dual) / primal, abs=1e-9)
        at_zero = c @ kind.value(-offsets) / c.sum()
        assert certificate.bound <= tol * max(primal, tol * at_zero)
        assert model.solution.status is Status.CONVERGED
    # A lower bound on what the best of all can reach.
    best = sharp.solution.certificate
    assert rough.solution.certificate.dual <= best.primal + 1e-12
    assert best.dual <= rough.solution.certificate.primal + 1e-12


def test_without_balancing_the_bound_would_be_false(cancer):
    """The penalised problem's alpha is no lower bound for the free one."""
    X, y = cancer
    X = X + 5.0
    free = fit_linear(X, y, lam=0.1, intercept="free", tol=1e-6, random_state=0).solution
    fixed = batchsvm.fit(X, y, lam=0.1, offset=-3.0, tol=1e-6, random_state=0)
    assert fixed.certificate.dual > free.certificate.primal + 0.01


def test_free_quantile_splits_the_rows():
    """At w = 0 (a huge lam) the intercept is the quantile of y, which only a free one can be."""
    X, y = load_diabetes(return_X_y=True)
    model = BatchSVR("quantile", quantile=0.3, lam=1e6, intercept="free", tol=1e-9, random_state=0)
    model.fit(X, y)
    theirs = QuantileRegressor(quantile=0.3, alpha=1e6).fit(np.zeros_like(X), y)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-2)
    assert np.abs(model.coef_).max() < 1e-3


@pytest.mark.parametrize("name", ["dense-float32", "csr-float32-int64"])
def test_free_in_other_formats(name):
    X, y = toy("hinge")
    reference = BatchSVC(lam=0.05, intercept="free", tol=1e-8, random_state=0).fit(X, y)
    model = BatchSVC(lam=0.05, intercept="free", tol=1e-8, random_state=0).fit(FORMATS[name](X), y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=1e-3)


def test_free_with_many_classes_and_other_methods():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X) + 2.0
    sharp = BatchSVC(lam=0.05, intercept="free", tol=1e-7, random_state=0).fit(X, y)
    for method, b in (("safe", 4), ("pegasos", 4)):
        model = BatchSVC(
            lam=0.05, intercept="free", method=method, batch_size=b, tol=0.02, max_epochs=10**4,
            random_state=0,
        ).fit(X, y)  # fmt: skip
        assert len(model.certificate_) == 3
        assert model.certificate_.relative_gap <= 0.02
        for rough, best in zip(model.certificate_, sharp.certificate_, strict=True):
            assert rough.dual <= best.primal
            assert best.dual <= rough.primal


def test_a_free_fit_that_falls_short_says_so(cancer):
    X, y = cancer
    model = BatchSVC(lam=1e-4, intercept="free", tol=1e-9, max_epochs=3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="at most .* above its optimum"):
        model.fit(X + 5.0, y)
    assert model.certificate_.relative_gap > 1e-9
    assert model.history_.epoch[-1] == pytest.approx(3, abs=0.1)


def test_free_goes_on_from_where_it_was(cancer):
    X, y = cancer
    model = BatchSVC(lam=1e-3, intercept="free", tol=1e-4, warm_start=True, random_state=0)
    first = model.fit(X, y).history_.epoch[-1]
    assert model.set_params(lam=0.9e-3).fit(X, y).history_.epoch[-1] < first
    assert model.certificate_.relative_gap <= 1e-4


def test_targets_that_are_fit_by_zero():
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = BatchSVR(epsilon=1.0, intercept="free", random_state=0).fit(X, np.full(20, 0.5))
    assert model.certificate_.primal == pytest.approx(0.0, abs=1e-9)
    constant = BatchSVR("absolute", intercept="free", random_state=0).fit(X, np.full(20, 1e6))
    np.testing.assert_allclose(constant.predict(X), 1e6, rtol=1e-3)
