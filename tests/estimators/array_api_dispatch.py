"""Estimators with scikit-learn's array API support switched on.

SciPy reads SCIPY_ARRAY_API once, when it is imported, so that `test_array_api.py` runs this file
in a process of its own.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import (
    check_array_api_input,
    check_array_api_input_and_values,
)

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR
from batchsvm.core import arrays
from batchsvm.core.arrays import namespace_of, to_host

# A check of values compares two fits, one of them on the same numbers in another library, and the
# float32 ones are compared to four digits; tol=1e-10 makes the two models agree to that.
ESTIMATORS = [
    BatchSVC(tol=1e-10),
    BatchSVC("logistic", tol=1e-10),
    BatchSVR(tol=1e-10),
    BatchSVCCV(tol=1e-10, lams=3, cv=3, max_epochs=300),
]
PLACES = [
    ("torch", "cpu", "float64"),
    ("torch", "cpu", "float32"),
    ("array_api_strict", "CPU_DEVICE", "float64"),
    ("array_api_strict", "device1", "float32"),
    ("torch", "cuda", "float64"),
    ("torch", "cuda", "float32"),
    ("cupy", None, "float64"),
    ("cupy", None, "float32"),
]
X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
LAMS = [0.1, 0.01]


@pytest.fixture(autouse=True)
def dispatching():
    with config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=["torch", "array_api_strict"])
def xp(request):
    return pytest.importorskip(request.param)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def name_of(estimator):
    return type(estimator).__name__


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(map(str, place)))
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_numpy(estimator, place, weighted, monkeypatch):
    library, device, dtype = place
    pytest.importorskip(library)
    if library == "cupy" or device == "cuda":
        # Another engine than that of NumPy's arrays comes to another point of the same gap, and a
        # gap of 1e-10 leaves predictions two or three digits.
        monkeypatch.setattr(estimator_checks, "_atol_for_type", lambda _: 5e-3)
    for check in (check_array_api_input, check_array_api_input_and_values):
        check(
            name_of(estimator), estimator, library, device_name=device, dtype_name=dtype,
            check_sample_weight=weighted,
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_all_checks_of_scikit_learn(estimator):
    """Mixed libraries and the refusal of others than those of fit included, where this
    scikit-learn has these checks."""
    from unittest import SkipTest

    passed = 0
    for check in estimator_checks._yield_array_api_checks(estimator):
        try:
            check(name_of(estimator), estimator)
        except SkipTest:  # a library or a device that is not here
            continue
        passed += 1
    assert passed >= 1


@pytest.mark.parametrize("Kind", [BatchSVC, BatchSVCCV])
def test_labels_follow_y_and_predictions_follow_x(Kind, torch):
    model = Kind(**({"lams": LAMS} if Kind is BatchSVCCV else {}), random_state=0)
    tensor = torch.tensor(X, dtype=torch.float32)
    model.fit(tensor, torch.tensor(Y))
    assert type(model.classes_) is torch.Tensor
    assert type(model.predict(tensor)) is torch.Tensor
    model.fit(tensor, Y)
    assert type(model.classes_) is np.ndarray
    assert type(model.predict(tensor)) is torch.Tensor
    words = np.array(["a", "b", "c"])[Y]
    model.fit(tensor, words)
    assert type(model.classes_) is np.ndarray
    assert set(model.predict(tensor)) == set("abc")
    assert isinstance(model.score(tensor, words), float)
    model.fit(X, torch.tensor(Y))
    assert type(model.classes_) is torch.Tensor
    assert type(model.coef_) is type(model.predict(X)) is np.ndarray


def test_numpy_stays_numpy_bit_for_bit():
    for model in (BatchSVC("logistic", random_state=0), BatchSVCCV(lams=LAMS, random_state=0)):
        inside = clone(model).fit(X, Y)
        with config_context(array_api_dispatch=False):
            outside = clone(model).fit(X, Y)
        for name, value in vars(outside).items():
            if isinstance(value, np.ndarray):
                assert type(getattr(inside, name)) is np.ndarray
                np.testing.assert_array_equal(getattr(inside, name), value)
        np.testing.assert_array_equal(inside.decision_function(X), outside.decision_function(X))


def test_other_arrays_than_those_of_fit_are_refused_and_taken_without_dispatch(xp):
    there = xp.asarray(X)
    model = BatchSVC(random_state=0).fit(there, xp.asarray(Y))
    for wrong in (X, X.tolist(), np.float32(X)):
        with pytest.raises(ValueError, match=r"BatchSVC\.predict\(\) must use the same namespace"):
            model.predict(wrong)
    host = BatchSVC(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=rf"arrays of NumPy, not arrays of {xp.__name__} on"):
        host.decision_function(there)
    with config_context(array_api_dispatch=False):
        found = model.decision_function(X)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, host.decision_function(X))
        np.testing.assert_array_equal(model.predict(X), host.predict(X))


def test_a_model_of_tensors_goes_everywhere(xp, tmp_path):
    there, y = xp.asarray(X), xp.asarray(Y)
    model = BatchSVC("logistic", C=0.1, random_state=0).fit(there, y)
    batchsvm.save(model, tmp_path / "model", y)
    saved = batchsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(saved.coef, to_host(model.coef_))
    np.testing.assert_array_equal(saved.predict(X), to_host(model.predict(there)))
    assert saved.trained_on.labels == batchsvm.models.fingerprint.labels_digest(Y)
    assert clone(model).get_params() == model.get_params()
    if xp.__name__ == "torch":  # array_api_strict does not pickle its types
        back = pickle.loads(pickle.dumps(model))
        assert type(back.coef_) is type(model.coef_)
        assert to_host(back.predict(there)).tolist() == to_host(model.predict(there)).tolist()


def test_warm_starts_and_streams_go_on_from_tensors(xp):
    there, y = xp.asarray(X), xp.asarray(Y)
    model = BatchSVC(C=0.1, warm_start=True, random_state=0).fit(there, y)
    assert model.fit(there, y).n_iter_ <= 1
    stream = BatchSVC(lam=0.1, random_state=0)
    stream.partial_fit(there, y, classes=xp.asarray([0, 1, 2]))
    stream.partial_fit(there, y, sample_weight=xp.asarray(np.ones(150)))
    assert namespace_of(stream.coef_) is xp
    assert stream.stream_.rows == 300
    model.set_params(C=None, lam=0.01).partial_fit(there, y)
    assert model.stream_.rows == 300
    assert namespace_of(model.coef_) is namespace_of(model.predict(there)) is xp
    values, targets = load_diabetes(return_X_y=True)
    there, y = xp.asarray(values), xp.asarray(targets)
    line = BatchSVR(lam=0.1, warm_start=True, random_state=0).fit(there, y)
    assert line.fit(there, y).n_iter_ <= 1
    line.partial_fit(there, y)
    assert line.coef_.shape == (10,)
    assert namespace_of(line.coef_) is namespace_of(line.predict(there)) is xp


def test_class_weights_and_balance(xp):
    there, y = xp.asarray(X), xp.asarray(Y)
    for weight in ("balanced", {0: 2.0, 1: 1.0, 2: 0.5}):
        model = BatchSVC(class_weight=weight, random_state=0)
        ours = clone(model).fit(X, Y).coef_
        np.testing.assert_array_equal(to_host(model.fit(there, y).coef_), ours)


def test_choosing_lam_by_any_scorer(torch):
    """Scorers that read NumPy arrays alone work: they are given them."""
    there, y = torch.tensor(X), torch.tensor(Y == 2)
    for scoring in (None, "roc_auc", "average_precision", lambda model, X, y: model.score(X, y)):
        options = {"lams": LAMS, "scoring": scoring, "random_state": 0}
        ours = BatchSVCCV(**options).fit(X, Y == 2)
        model = BatchSVCCV(**options).fit(there, y)
        assert model.lam_ == ours.lam_
        assert type(model.scores_) is type(model.gaps_) is type(model.lams_) is torch.Tensor
        np.testing.assert_array_equal(to_host(model.scores_), ours.scores_)
        weights = np.linspace(1, 2, 150)
        expected = ours.score(X, Y == 2)
        assert model.score(there, y) == expected
        assert isinstance(model.score(there, y, torch.tensor(weights)), float)


def test_models_cross_between_a_device_and_the_host(torch, monkeypatch):
    """The exception to scikit-learn's rule; tensors in host memory stand for those on a GPU."""
    host = BatchSVC(lam=0.1, random_state=0).fit(X, Y)
    model = BatchSVC(lam=0.1, random_state=0).fit(torch.tensor(X), torch.tensor(Y))
    monkeypatch.setattr(arrays, "CUDA_DEVICES", (1, 2, 13))
    assert type(model.predict(X)) is np.ndarray
    np.testing.assert_array_equal(model.predict(X), host.predict(X))
    assert type(host.predict(torch.tensor(X))) is torch.Tensor


def test_pipelines_and_searches(torch):
    there, y = torch.tensor(X), torch.tensor(Y)
    pipeline = make_pipeline(StandardScaler(), BatchSVC(random_state=0)).fit(there, y)
    assert type(pipeline.predict(there)) is torch.Tensor
    assert pipeline.score(there, y) > 0.9
    search = GridSearchCV(BatchSVC(random_state=0), {"C": [0.1, 1.0]}, cv=3).fit(there, y)
    assert search.best_score_ > 0.8
