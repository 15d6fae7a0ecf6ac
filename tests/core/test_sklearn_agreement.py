"""The optimum is scikit-learn's, to 1e-6 relative, on data that ships with it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

import batchsvm
import oracle

LAM = 0.02


def scaled(X):
    return StandardScaler().fit_transform(X)


def classification_sets():
    iris, wine = datasets.load_iris(), datasets.load_wine()
    cancer, digits = datasets.load_breast_cancer(), datasets.load_digits()
    yield "iris", scaled(iris.data), iris.target == 1
    yield "wine", scaled(wine.data), wine.target == 0
    yield "breast_cancer", scaled(cancer.data), cancer.target == 1
    yield "digits", digits.data[:600] / 16, digits.target[:600] % 2 == 0
    yield "make_classification", *datasets.make_classification(400, 30, random_state=0)
    yield "make_moons", *datasets.make_moons(200, noise=0.3, random_state=0)
    yield "make_blobs", *datasets.make_blobs(300, 8, centers=2, cluster_std=6.0, random_state=0)


def regression_sets():
    diabetes, linnerud = datasets.load_diabetes(), datasets.load_linnerud()
    yield "diabetes", scaled(diabetes.data), diabetes.target / 100
    yield "linnerud", scaled(linnerud.data), linnerud.target[:, 0] / 50
    iris = datasets.load_iris()
    yield "iris", scaled(iris.data[:, :3]), iris.data[:, 3]
    yield "make_regression", *datasets.make_regression(300, 10, noise=3.0, random_state=0)
    yield "make_friedman1", *datasets.make_friedman1(300, random_state=0)
    yield "make_sparse_uncorrelated", *datasets.make_sparse_uncorrelated(200, 12, random_state=0)


CLASSIFICATION = [
    pytest.param(X, np.where(y, 1.0, -1.0), id=k) for k, X, y in classification_sets()
]
REGRESSION = [pytest.param(X, y, id=name) for name, X, y in regression_sets()]


def assert_same_optimum(X, y, loss, w):
    theirs = oracle.primal(X, y, w, loss, LAM)
    ours = batchsvm.fit(X, y, loss, LAM, tol=1e-8, max_epochs=100_000, random_state=0)
    assert ours.certificate.primal == pytest.approx(theirs, rel=1e-6)
    # The certificate tells the same without them: no w is better than the dual value.
    assert theirs >= ours.certificate.dual - ours.certificate.rounding


@pytest.mark.parametrize(("X", "y"), CLASSIFICATION)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_linear_svc(X, y, loss):
    svc = LinearSVC(
        loss=loss, C=1 / (LAM * len(y)), fit_intercept=False, dual=True, tol=1e-9,
        max_iter=1_000_000, random_state=0,
    )  # fmt: skip
    assert_same_optimum(X, y, loss, svc.fit(X, y).coef_[0])


@pytest.mark.parametrize(("X", "y"), CLASSIFICATION)
def test_logistic_regression(X, y):
    model = LogisticRegression(
        C=1 / (LAM * len(y)), fit_intercept=False, solver="newton-cholesky", tol=1e-10
    )
    assert_same_optimum(X, y, "logistic", model.fit(X, y).coef_[0])


@pytest.mark.parametrize(("X", "y"), REGRESSION)
def test_linear_svr(X, y):
    model = LinearSVR(
        epsilon=0.1, C=1 / (LAM * len(y)), fit_intercept=False, tol=1e-9, max_iter=1_000_000,
        dual=True, random_state=0,
    )  # fmt: skip
    assert_same_optimum(X, y, "epsilon_insensitive", model.fit(X, y).coef_)
