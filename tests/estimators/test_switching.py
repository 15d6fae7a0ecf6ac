"""What people who come from LinearSVC, SGDClassifier and LogisticRegressionCV expect to find."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVR

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR, Status
from batchsvm.models.fitting import certify_model


def single(X):
    return np.asarray(X, dtype=np.float32)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"intercept": "free"},
        {"fit_intercept": False},
        {"class_weight": "balanced", "intercept_scaling": 3.0},
        {"method": batchsvm.methods.Pegasos(radius=1.0), "tol": 0.3},
        {"engine": "reference"},
    ],
    ids=str,
)
@pytest.mark.parametrize("make", [np.ascontiguousarray, sp.csr_array])
def test_models_of_float32_are_float32_and_certified_as_they_are(tmp_path, iris, how, make):
    X, y = make(single(iris[0])), iris[1]
    model = BatchSVC(**{"lam": 0.1} | how, random_state=0).fit(X, y)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    assert model.decision_function(X).dtype == np.float32
    assert model.decision_function(X.astype(np.float64)).dtype == np.float64
    assert model.dual_coef_.dtype == np.float64
    model.save(tmp_path / "model", y)
    kept = batchsvm.load(tmp_path / "model")
    if "method" in how:  # the file of an estimator does not hold the radius
        return
    for again, known in zip(certify_model(kept, X, y), model.certificate_, strict=True):
        assert again.primal == pytest.approx(known.primal, rel=1e-14)
        assert again.dual == pytest.approx(known.dual, rel=1e-13)


def test_a_bound_that_float32_cannot_hold_is_said(iris):
    X, y = single(iris[0]), iris[1] == 1
    sentence = "until the model was rounded to float32.*give X in float64"
    with pytest.warns(ConvergenceWarning, match=sentence):
        model = BatchSVC(lam=0.1, tol=1e-10, max_epochs=10**5, random_state=0).fit(X, y)
    assert model.certificate_.relative_gap > 1e-10
    assert Status.ROUNDED.name == "ROUNDED"
    BatchSVC(lam=0.1, tol=1e-10, max_epochs=10**5, random_state=0).fit(X.astype(float), y)


def test_what_float32_cannot_hold_stays_float64():
    X = np.full((4, 1), 1e-30, np.float32) * np.array([[1], [2], [-1], [-2]], np.float32)
    y = np.array([1e30, 2e30, -1e30, -2e30])
    model = BatchSVR("squared_error", lam=1e-70, fit_intercept=False, tol=0.1).fit(X, y)
    assert model.coef_.dtype == np.float64
    assert model.coef_[0] > 1e39


def test_regressors_and_streams_keep_float32(diabetes):
    X, y = single(diabetes[0]), diabetes[1]
    model = BatchSVR(lam=0.1, random_state=0).fit(X, y)
    assert model.coef_.dtype == model.predict(X).dtype == np.float32
    stream = BatchSVC(lam=0.1).partial_fit(X, y > 100, classes=[False, True])
    assert stream.coef_.dtype == stream.decision_function(X).dtype == np.float32
    assert stream.n_iter_ == 1


@pytest.mark.parametrize(
    "model", [BatchSVC(), BatchSVR(), BatchSVCCV(lams=[0.1, 0.01], cv=3)], ids=repr
)
def test_sparsify_and_densify(tmp_path, iris, model):
    X, y = iris
    model.set_params(random_state=0).fit(X, y)
    dense, predicted, alpha = model.coef_.copy(), model.predict(X), model.dual_coef_.shape
    assert model.sparsify() is model
    assert sp.issparse(model.coef_)
    for form in (X, sp.csr_array(X), X.astype(np.float32)):
        found = model.predict(form)
        assert found.shape == predicted.shape
        np.testing.assert_allclose(found, predicted, atol=1e-5)
    with batchsvm.place(X) as placed:
        np.testing.assert_allclose(np.ravel(model.predict(placed)), predicted, rtol=1e-10)
    assert model.score(X, y) > 0.7
    model.save(tmp_path / "model", y)
    np.testing.assert_array_equal(batchsvm.load(tmp_path / "model").coef, np.atleast_2d(dense))
    assert model.densify() is model
    np.testing.assert_array_equal(model.coef_, dense)
    assert model.densify().dual_coef_.shape == alpha


def test_a_stream_goes_on_from_a_sparse_model(iris):
    X, y = iris
    model = BatchSVC(lam=0.1, random_state=0).fit(X, y).sparsify()
    assert model.partial_fit(X, y).stream_.rows == 300


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_values_of_c_in_the_place_of_lam(iris):
    X, y = iris
    model = BatchSVCCV(Cs=[0.01, 1.0], cv=3, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.lams_, [1 / 1.5, 1 / 150])
    np.testing.assert_allclose(model.Cs_, [0.01, 1.0])
    assert model.C_ in model.Cs_
    assert BatchSVCCV(Cs=3, cv=3, max_epochs=5).fit(X, y).lams_.size == 3
    assert BatchSVCCV(cv=3, max_epochs=5).fit(X, y).lams_.size == 10
    with pytest.raises(ValueError, match="lams and Cs must not both be given, but lams is 3 and"):
        BatchSVCCV(lams=3, Cs=3).fit(X, y)
    with pytest.raises(ValueError, match="Cs must hold at least one number, and positive"):
        BatchSVCCV(Cs=[0.0]).fit(X, y)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_batch_larger_than_a_fold_is_cut_and_the_plan_says_so(iris, n_jobs):
    how = {"lams": [0.1], "cv": 3, "method": "safe", "random_state": 0, "n_jobs": n_jobs}
    model = BatchSVCCV(batch_size=140, **how).fit(*iris)
    assert model.plan_.reason.endswith("the folds have fewer rows, and batches of up to 100")
    assert model.plan_.batch_size == 140
    assert "folds" not in BatchSVCCV(batch_size=100, **how).fit(*iris).plan_.reason
    with pytest.raises(ValueError, match="batch_size must be 'auto' or an integer from 1 to n"):
        BatchSVCCV(batch_size=151, **how).fit(*iris)


def test_the_squared_losses_are_those_of_others(diabetes):
    X, y = diabetes
    how = {"tol": 1e-10, "max_epochs": 10**5, "random_state": 0}
    ridge = Ridge(alpha=2.0).fit(X, y)
    ours = BatchSVR("squared_error", C=1 / 2.0, intercept="free", **how).fit(X, y)
    np.testing.assert_allclose(ours.coef_, ridge.coef_, rtol=1e-3)
    liblinear = LinearSVR(
        loss="squared_epsilon_insensitive", epsilon=5.0, dual=False, tol=1e-12, max_iter=10**5
    ).fit(X, y)
    ours = BatchSVR("squared_epsilon_insensitive", epsilon=5.0, C=1.0, **how).fit(X, y)
    np.testing.assert_allclose(ours.coef_, liblinear.coef_, rtol=1e-3)
    warm = ours.set_params(warm_start=True).fit(X, y, sample_weight=np.arange(442) % 2)
    assert warm.certificate_.relative_gap <= 1e-10
