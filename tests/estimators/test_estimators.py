"""What users of LinearSVC, LinearSVR and SGDClassifier expect of the estimators."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

import batchsvm
from batchsvm import BatchSVC, BatchSVR, losses, methods
from batchsvm.methods import Safe

# Older ones read polars' values, and need an interface for its names that polars has dropped.
READS_POLARS = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)
CLASSIFICATION = ["hinge", "smoothed_hinge", "squared_hinge", "logistic"]
REGRESSION = [
    "epsilon_insensitive", "squared_epsilon_insensitive", "squared_error", "absolute", "quantile",
    "huber",
]  # fmt: skip


# The same problem as scikit-learn's


def test_the_hinge_is_that_of_linear_svc(cancer):
    X, y = cancer
    theirs = LinearSVC(loss="hinge", C=0.05, tol=1e-9, max_iter=10**6, random_state=0).fit(X, y)
    ours = BatchSVC(C=0.05, tol=1e-10, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


def test_many_classes_intercept_scaling_and_weights_are_those_of_linear_svc(iris):
    X, y = iris
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    theirs = LinearSVC(C=0.1, tol=1e-10, max_iter=10**6, intercept_scaling=3.0, random_state=0)
    theirs.fit(X, y, sample_weight=weights)
    ours = BatchSVC("squared_hinge", C=0.1, tol=1e-12, intercept_scaling=3.0, random_state=0)
    ours.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_regression_is_that_of_linear_svr(diabetes):
    X, y = diabetes
    theirs = LinearSVR(epsilon=5.0, C=0.1, tol=1e-10, max_iter=10**6, random_state=0).fit(X, y)
    ours = BatchSVR(epsilon=5.0, C=0.1, tol=1e-9, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    assert ours.coef_.shape == (10,)
    assert ours.intercept_.shape == (1,)
    assert ours.dual_coef_.shape == (442,)


# An old scikit-learn with a new SciPy.
@pytest.mark.filterwarnings("ignore:.*L-BFGS-B:DeprecationWarning")
def test_logistic_is_logistic_regression(cancer):
    X, y = cancer
    theirs = LogisticRegression(C=0.01, fit_intercept=False, tol=1e-10, max_iter=10**4).fit(X, y)
    ours = BatchSVC("logistic", C=0.01, fit_intercept=False, tol=1e-12, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(
        ours.predict_log_proba(X), np.log(theirs.predict_proba(X)), atol=1e-3
    )


def test_lam_and_c_are_one_thing(cancer):
    X, y = cancer
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    by_c = BatchSVC(C=0.2, random_state=0).fit(X, y, sample_weight=weights)
    lam = 1 / (0.2 * weights.sum())
    by_lam = BatchSVC(lam=lam, random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(by_c.coef_, by_lam.coef_)
    assert by_c.lam_ == by_lam.lam_ == lam
    assert by_lam.C_ == pytest.approx(0.2)
    assert BatchSVC(random_state=0).fit(X, y).C_ == pytest.approx(1.0)


def test_a_fit_is_the_fit_of_the_core(cancer):
    X, y = cancer
    model = BatchSVC(lam=0.01, fit_intercept=False, random_state=3).fit(X, y)
    solution = batchsvm.fit(X, y, lam=0.01, random_state=3)
    np.testing.assert_array_equal(model.coef_[0], solution.w)
    np.testing.assert_array_equal(model.dual_coef_[0], solution.alpha)
    assert model.certificate_ == solution.certificate
    assert model.plan_ == solution.plan
    np.testing.assert_array_equal(model.history_.gap, solution.history.gap)


# Fitted attributes


@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_certificates_of_classes_can_be_checked_by_anyone(loss, iris):
    X, y = iris
    model = BatchSVC(loss, lam=0.02, tol=1e-4, random_state=0).fit(X, y)
    assert len(model.certificate_) == len(model.history_) == 3
    for k, label in enumerate(model.classes_):
        w = np.append(model.coef_[k], model.intercept_[k])
        target = np.where(y == label, 1, -1)
        again = batchsvm.certify(X, target, w, model.dual_coef_[k], loss, 0.02, bias=1.0)
        assert again == model.certificate_[k]
        assert again.relative_gap <= 1e-4
    worst = max(model.certificate_, key=lambda certificate: certificate.relative_gap)
    assert model.certificate_.gap == worst.gap
    assert not hasattr(model.certificate_, "nonsense")
    assert model.certificate_.worst_label == model.certificate_.index(worst)
    assert "3 classes, the worst is" in str(model.certificate_)
    assert pickle.loads(pickle.dumps(model.certificate_)).worst == worst
    with pytest.raises(AttributeError, match="nothing"):
        _ = model.certificate_.nothing


@pytest.mark.parametrize("loss", REGRESSION)
def test_certificates_of_regression_can_be_checked_by_anyone(loss, diabetes):
    X, y = diabetes
    model = BatchSVR(loss, lam=0.02, tol=1e-4, intercept_scaling=2.0, random_state=0).fit(X, y)
    w = np.append(model.coef_, model.intercept_ / 2.0)
    again = batchsvm.certify(X, y, w, model.dual_coef_, loss, 0.02, bias=2.0)
    assert again.gap == pytest.approx(model.certificate_.gap, abs=1e-9)
    assert again.relative_gap <= 1e-4
    assert model.n_iter_ >= 1


def test_shapes_for_two_and_more_classes(iris):
    X, y = iris
    many = BatchSVC(random_state=0).fit(X, y)
    assert many.coef_.shape == (3, 4)
    assert many.intercept_.shape == (3,)
    assert many.dual_coef_.shape == (3, 150)
    assert many.decision_function(X).shape == (150, 3)
    np.testing.assert_array_equal(many.predict(X), many.decision_function(X).argmax(axis=1))
    two = BatchSVC(random_state=0).fit(X[:100], y[:100])
    assert two.coef_.shape == (1, 4)
    assert two.decision_function(X).shape == (150,)
    np.testing.assert_array_equal(two.predict(X), (two.decision_function(X) > 0).astype(int))
    one_row = two.decision_function(X[:1])
    assert one_row.shape == (1,)


@pytest.mark.parametrize(
    "labels", [["b", "a", "c"], [7, -2, 5], [True, False, True], ["no", "yes", "no"], [2.0, 1.0, 3]]
)
def test_labels_of_any_kind(labels, iris):
    X, y = iris
    named = np.array(labels)[y]
    model = BatchSVC(random_state=0).fit(X, named)
    np.testing.assert_array_equal(model.classes_, np.unique(named))
    assert model.score(X, named) > 0.7
    assert set(model.predict(X)) <= set(named)


def test_a_class_is_better_than_the_rest(iris):
    X, y = iris
    model = BatchSVC(C=1.0, random_state=0).fit(X, y)
    separate = OneVsRestClassifier(BatchSVC(C=1.0, random_state=0)).fit(X, y)
    np.testing.assert_array_equal(model.coef_[0], separate.estimators_[0].coef_[0])
    assert (model.predict(X) == separate.predict(X)).mean() > 0.98


def test_probabilities_of_many_classes_sum_to_one(iris):
    X, y = iris
    model = BatchSVC("logistic", random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(proba.argmax(axis=1), model.predict(X))
    far = model.predict_proba(-1e300 * np.sign(model.coef_.sum(axis=0))[np.newaxis])
    assert np.isfinite(far).all()


def test_only_the_logistic_loss_has_probabilities():
    assert not hasattr(BatchSVC(), "predict_proba")
    assert hasattr(BatchSVC("logistic"), "predict_proba")
    assert hasattr(BatchSVC(losses.Logistic(newton_steps=6)), "predict_log_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        _ = BatchSVC().predict_proba


# Weights


def test_class_weight_moves_the_boundary(cancer):
    X, y = cancer
    plain = BatchSVC(C=0.01, random_state=0).fit(X, y)
    heavy = BatchSVC(C=0.01, class_weight={1: 100.0}, random_state=0).fit(X, y)
    assert (heavy.predict(X) == 1).sum() > (plain.predict(X) == 1).sum()


def test_class_weight_is_sample_weight(iris):
    X, y = iris
    given = {0: 2.0, 1: 0.5, 2: 1.0}
    weights = np.array([2.0, 0.5, 1.0])[y]
    by_class = BatchSVC(class_weight=given, random_state=0).fit(X, y)
    by_row = BatchSVC(random_state=0).fit(X, y, sample_weight=weights)
    both = BatchSVC(class_weight=given, random_state=0).fit(X, y, sample_weight=1 / weights)
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)
    np.testing.assert_array_equal(both.coef_, BatchSVC(random_state=0).fit(X, y).coef_)


def test_balanced_counts_weights(iris):
    X, y = iris[0][:120], iris[1][:120]  # 50, 50, 20
    balanced = BatchSVC(class_weight="balanced", random_state=0).fit(X, y)
    counts = np.bincount(y)
    by_hand = BatchSVC(random_state=0).fit(X, y, sample_weight=(120 / (3 * counts))[y])
    np.testing.assert_allclose(balanced.coef_, by_hand.coef_, rtol=1e-9)
    # Weight 2 is two copies here too.
    weights = np.where(y == 2, 2.0, 1.0)
    weighted = BatchSVC(class_weight="balanced", tol=1e-11, random_state=0)
    copied = clone(weighted).fit(np.vstack([X, X[y == 2]]), np.concatenate([y, y[y == 2]]))
    weighted.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-6)


def test_a_class_without_weight_is_no_class(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"at least two classes.* one class, 0"):
        BatchSVC().fit(X[:100], y[:100], sample_weight=(y[:100] == 0).astype(float))
    with pytest.raises(ValueError, match="among the rows of positive weight, but it has none"):
        BatchSVC(class_weight={0: 0.0, 1: 0.0}).fit(X[:100], y[:100])
    rest = BatchSVC(random_state=0).fit(X, y, sample_weight=(y != 0).astype(float))
    assert list(rest.classes_) == [0, 1, 2]
    assert not (rest.predict(X[50:]) == 0).any()


# Inputs


@pytest.mark.parametrize(
    ("asked", "off"),
    [({"method": Safe(skips=False), "batch_size": 1}, 1e-12), ({"tol": 1e-12}, 1e-4)],
    ids=["all rows visited", "auto"],
)
def test_sparse_is_dense(iris, asked, off):
    """To rounding, which may decide which rows are left out."""
    X, y = iris
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = BatchSVC(random_state=0, **asked).fit(X, y)
    for make in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array):
        sparse = BatchSVC(random_state=0, **asked).fit(make(X), y)
        np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=off)
        np.testing.assert_allclose(
            sparse.decision_function(make(X)), dense.decision_function(X), atol=10 * off
        )


def test_data_frames_and_feature_names(iris):
    X, y = iris
    names = ["a", "b", "c", "d"]
    plain = BatchSVC(random_state=0).fit(X, y)
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = BatchSVC(random_state=0).fit(frame, y)
        assert model.n_features_in_ == 4
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)  # by columns, not rows
        np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
        if isinstance(frame, pl.DataFrame) and not READS_POLARS:
            continue
        assert list(model.feature_names_in_) == names
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame.rename(dict(zip(names, "wxyz", strict=True))) if isinstance(
                frame, pl.DataFrame) else frame.rename(columns={"a": "z"}))  # fmt: skip
    series = pd.Series(np.array(["u", "v", "w"])[y])
    assert list(BatchSVC(random_state=0).fit(X, series).classes_) == ["u", "v", "w"]


def test_read_only_and_memory_mapped_data(iris, tmp_path):
    X, y = iris
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    fixed, fixed_y = X.copy(), y.copy()
    fixed.flags.writeable = fixed_y.flags.writeable = False
    plain = BatchSVC(random_state=0).fit(X, y)
    for data in (mapped, fixed):
        model = BatchSVC(random_state=0).fit(data, fixed_y)
        np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_the_same_seed_gives_the_same_model(iris):
    X, y = iris
    first, second = (BatchSVC(random_state=5).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert not np.array_equal(first.coef_, BatchSVC(random_state=6).fit(X, y).coef_)
    np.random.seed(1)  # noqa: NPY002 - random_state=None is this generator, as in scikit-learn
    third = BatchSVC().fit(X, y)
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(third.coef_, BatchSVC().fit(X, y).coef_)
    shared = BatchSVC(random_state=np.random.RandomState(0))
    assert not np.array_equal(shared.fit(X, y).coef_, shared.fit(X, y).coef_)


def test_cloning_and_pickling(cancer):
    X, y = cancer
    model = BatchSVC(losses.SmoothedHinge(0.5), method=methods.Aggressive(gamma=0.9), batch_size=8,
                     lam=0.01, random_state=0)  # fmt: skip
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    np.testing.assert_array_equal(model.fit(X, y).coef_, twin.fit(X, y).coef_)
    thawed = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(thawed.predict(X), model.predict(X))
    assert thawed.certificate_ == model.certificate_


@pytest.mark.parametrize("method", ["pegasos", "safe"])
def test_methods(method, cancer):
    X, y = cancer
    model = BatchSVC(method=method, batch_size=4, lam=0.05, tol=0.02, random_state=0).fit(X, y)
    assert model.plan_.batch_size == 4
    assert model.certificate_.relative_gap <= 0.02
    assert model.score(X, y) > 0.94


# In scikit-learn's machinery


def test_in_pipeline_search_and_calibration(cancer):
    X, y = cancer
    pipeline = make_pipeline(StandardScaler(), BatchSVC(random_state=0))
    search = GridSearchCV(pipeline, {"batchsvc__C": [1e-4, 1e-1]}, cv=3).fit(X, y)
    assert search.best_params_ == {"batchsvc__C": 1e-1}
    assert search.best_score_ > 0.95
    calibrated = CalibratedClassifierCV(BatchSVC(C=0.1, random_state=0), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(y), 2)
    assert calibrated.score(X, y) > 0.95


def test_metadata_routing(cancer):
    X, y = cancer
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BatchSVC(C=0.1, random_state=0).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
        scaled = StandardScaler().fit_transform(X)
        direct = BatchSVC(C=0.1, random_state=0).fit(scaled, y, sample_weight=weights)
        np.testing.assert_array_equal(pipeline[-1].coef_, direct.coef_)
        model.set_score_request(sample_weight=True)
        cross_validate(model, X, y, params={"sample_weight": weights}, cv=3)
        unasked = BatchSVC().set_fit_request(sample_weight=None)
        with pytest.raises(ValueError, match="sample_weight"):
            cross_validate(unasked, X, y, params={"sample_weight": weights}, error_score="raise")


def test_importing_the_package_does_not_import_scikit_learn():
    code = "import sys, batchsvm; print('sklearn' in sys.modules, 'BatchSVC' in dir(batchsvm))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]
    with pytest.raises(AttributeError, match="no attribute 'BatchSVX'"):
        _ = batchsvm.BatchSVX


def test_loss_parameters_reach_the_loss(diabetes):
    X, y = diabetes
    for model, loss in [
        (BatchSVR(epsilon=7.0), losses.EpsilonInsensitive(7.0)),
        (BatchSVR("huber", epsilon=7.0), losses.Huber(7.0)),
        (BatchSVR("quantile", quantile=0.8), losses.Quantile(0.8)),
    ]:
        by_name = model.set_params(random_state=0).fit(X, y)
        by_object = BatchSVR(loss, random_state=0).fit(X, y)
        np.testing.assert_array_equal(by_name.coef_, by_object.coef_)
    high = BatchSVR("quantile", quantile=0.9, lam=1e-4, intercept="free", random_state=0).fit(X, y)
    assert 0.87 < (y <= high.predict(X)).mean() < 0.93
