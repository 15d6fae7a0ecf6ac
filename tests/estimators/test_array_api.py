"""Estimators on arrays of other libraries; arrays on a GPU without a GPU."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from pandas import DataFrame
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GroupKFold

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR
from batchsvm.core import arrays
from batchsvm.core.arrays import to_host
from batchsvm.engines import cpu, placing
from batchsvm.models import scores as predictions
from device_arrays import FakeDeviceArray, fake_cupy_sparse

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
LAMS = [0.1, 0.01]
HERE = Path(__file__).parent


def test_everything_with_dispatch():
    """scikit-learn's array API checks among it; SciPy must be imported with this setting."""
    pytest.importorskip("array_api_strict")
    pytest.importorskip("sklearn", "1.9")  # the checks of older versions have other parameters
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
         str(HERE / "array_api_dispatch.py")],
        env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-5000:]
    assert " passed" in found.stdout


# Without dispatch, arrays in host memory are used like NumPy's.


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_host_arrays_without_dispatch_give_numpy(library):
    xp = pytest.importorskip(library)
    for dtype in ("float64", "float32"):
        values = X.astype(dtype)
        model = BatchSVC("logistic", random_state=0)
        ours = clone(model).fit(values, Y, np.linspace(1, 2, 150))
        model.fit(xp.asarray(values), xp.asarray(Y), xp.asarray(np.linspace(1, 2, 150)))
        assert type(model.coef_) is type(model.classes_) is np.ndarray
        assert model.n_features_in_ == 4
        for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
            found = getattr(model, method)(xp.asarray(values))
            assert type(found) is np.ndarray
            np.testing.assert_array_equal(found, getattr(ours, method)(values))
        assert model.score(xp.asarray(values), xp.asarray(Y)) == ours.score(values, Y)


def test_half_precision_of_another_library_is_float32():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float16, torch.bfloat16):
        there = torch.tensor(X, dtype=dtype)
        same = there.float().numpy()
        ours = BatchSVC(random_state=0).fit(same, Y)
        model = BatchSVC(random_state=0).fit(there, Y)
        np.testing.assert_array_equal(model.coef_, ours.coef_)
        np.testing.assert_array_equal(model.decision_function(there), ours.decision_function(same))


def test_whole_numbers_of_another_library_are_taken():
    torch = pytest.importorskip("torch")
    whole = np.rint(10 * X).astype(np.int32)
    ours = BatchSVC(lam=1.0, random_state=0).fit(whole, Y)
    model = BatchSVC(lam=1.0, random_state=0).fit(torch.tensor(whole), Y)
    np.testing.assert_array_equal(model.coef_, ours.coef_)
    assert model.score(torch.tensor(whole), Y) == ours.score(whole, Y)


def test_groups_come_from_a_device():
    groups = FakeDeviceArray(np.arange(150) % 7)
    model = BatchSVCCV(LAMS, cv=GroupKFold(3), random_state=0).fit(X, Y, groups=groups)
    assert model.scores_.shape == (3, 2)


# Refusals.


@pytest.mark.parametrize("Kind", [BatchSVC, BatchSVR, BatchSVCCV])
def test_an_engine_of_the_host_refuses_a_device_array(Kind):
    for there in (FakeDeviceArray(X), fake_cupy_sparse(sp.csr_array(X))):
        with pytest.raises(ValueError, match=r'^X is on a GPU: use engine="gpu" or copy it'):
            Kind(engine="cpu").fit(there, FakeDeviceArray(Y))


def test_streams_refuse_a_device_array():
    words = "for partial_fit, not one on a GPU: copy it to the host$"
    with pytest.raises(ValueError, match=words):
        BatchSVC().partial_fit(FakeDeviceArray(X), Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=words):
        BatchSVR().partial_fit(FakeDeviceArray(X), Y)


@pytest.mark.parametrize("Kind", [BatchSVC, BatchSVR, BatchSVCCV])
def test_bad_shapes_on_a_device_are_refused(Kind):
    for shape in ((4,), (2, 2, 2), (0, 3), (3, 0)):
        with pytest.raises(ValueError, match=r"^X must have two dimensions, at least one row"):
            Kind().fit(FakeDeviceArray(np.zeros(shape)), Y)
    with pytest.raises(ValueError, match="y must have 150 entries, one per row of X, not 149"):
        Kind().fit(FakeDeviceArray(X), Y[1:])


def test_a_library_that_cannot_compute_cannot_predict():
    model = BatchSVC(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="a library that computes on a GPU, such as CuPy or torch"):
        model.predict(FakeDeviceArray(X))


# The engine.


def easy(Kind):
    """Regularisation that converges soon."""
    return {"lams": LAMS} if Kind is BatchSVCCV else {"lam": 0.1}


@pytest.mark.parametrize("Kind", [BatchSVC, BatchSVR, BatchSVCCV])
def test_the_engine_is_a_parameter(Kind, monkeypatch):
    assert Kind().engine == "auto"
    assert clone(Kind(engine="reference")).get_params()["engine"] == "reference"
    with pytest.raises(ValueError, match=r"engine must be one of 'auto', 'cpu', .*not 'tpu'"):
        Kind(engine="tpu").fit(X, Y)
    used, place_on = [], placing.place_on

    def told(engine, *args, **options):
        used.append(engine)
        return place_on(engine, *args, **options)

    monkeypatch.setattr(placing, "place_on", told)
    Kind(engine="reference", random_state=0, **easy(Kind)).fit(X, Y)
    assert set(used) == {"reference"}


@pytest.mark.parametrize("Kind", [BatchSVC, BatchSVR, BatchSVCCV])
def test_placed_data_keep_their_engine(Kind):
    with batchsvm.place(X) as data:
        assert Kind(random_state=0, **easy(Kind)).fit(data, Y).n_features_in_ == 4
        with pytest.raises(ValueError, match="engine must be 'auto' for placed data"):
            Kind(engine="cpu").fit(data, Y)


# Arrays on a GPU.  Here, other libraries compute on the host, and the package takes this for a GPU;
# in the place of the gpu engine, the cpu engine trains.


@pytest.fixture(params=["torch", "jax.numpy", "array_api_strict"])
def xp(request, monkeypatch):
    found = pytest.importorskip(request.param)
    monkeypatch.setattr(arrays, "CUDA_DEVICES", (1, 2, 13))

    def place_on(engine, X, jobs, tuning=placing.DEFAULT_TUNING, keeps_norms=True, **_):
        assert engine == "auto"
        return cpu.place(to_host(X), jobs, tuning, keeps_norms)

    def unreadable(*args, **options):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    monkeypatch.setattr(placing, "place_on", place_on)
    if request.param == "torch":  # NumPy cannot read a tensor on a GPU
        monkeypatch.setattr(found.Tensor, "__array__", unreadable)
    return found


def kinds(xp):
    """The type of an array of this library."""
    return type(xp.asarray(np.zeros(1, np.float32)))


METHODS = ("decision_function", "predict", "predict_proba", "predict_log_proba")


@pytest.mark.parametrize("labels", [Y, np.where(Y == 1, 5, -3), Y == 1])
def test_a_classifier_on_a_device(xp, labels):
    values = X.astype(np.float32)
    there, y = xp.asarray(values), xp.asarray(labels)
    ours = BatchSVC("logistic", random_state=0).fit(values, labels)
    model = BatchSVC("logistic", random_state=0).fit(there, y, xp.asarray(np.ones(150)))
    Array = kinds(xp)
    for name in ("coef_", "intercept_", "dual_coef_", "classes_"):
        assert isinstance(getattr(model, name), Array), name
    np.testing.assert_array_equal(to_host(model.classes_), ours.classes_)
    np.testing.assert_allclose(to_host(model.coef_), ours.coef_, rtol=1e-6)
    for method in METHODS:
        found, expected = getattr(model, method)(there), getattr(ours, method)(values)
        assert isinstance(found, Array), method
        assert found.shape == expected.shape
        np.testing.assert_allclose(to_host(found), expected, rtol=2e-4, atol=2e-5)
        on_host = getattr(model, method)(values)  # the model, on the host
        assert type(on_host) is np.ndarray
        np.testing.assert_allclose(on_host, expected, rtol=2e-4, atol=2e-5)
        crossed = getattr(ours, method)(there)  # the model of the host, on the device
        assert isinstance(crossed, Array)
        np.testing.assert_allclose(to_host(crossed), expected, rtol=2e-4, atol=2e-5)
    score = ours.score(values, labels)
    assert model.score(there, y) == model.score(values, labels) == score
    assert isinstance(model.score(there, y, xp.asarray(np.ones(150))), float)
    if xp.__name__ != "array_api_strict":  # which does not pickle its types
        back = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(back.predict(values), model.predict(values))
    assert clone(model).get_params() == model.get_params()


def test_words_as_labels_of_a_device(xp):
    words = np.array(["a", "b", "c"])[Y]
    there = xp.asarray(X.astype(np.float32))
    for labels in (words, words == "a", np.where(words == "a", "x", "y")):
        model = BatchSVC(random_state=0).fit(there, labels)
        assert type(model.classes_) is np.ndarray
        ours = BatchSVC(random_state=0).fit(X.astype(np.float32), labels)
        np.testing.assert_array_equal(to_host(model.predict(there)), ours.predict(X))
        assert model.score(there, labels) > 0.9


def test_a_regressor_on_a_device(xp):
    values, targets = load_diabetes(return_X_y=True)
    values = values.astype(np.float32)
    there, y = xp.asarray(values), xp.asarray(targets.astype(np.float32))
    ours = BatchSVR(lam=1e-3, random_state=0).fit(values, targets)
    model = BatchSVR(lam=1e-3, random_state=0).fit(there, y)
    assert isinstance(model.coef_, kinds(xp))
    assert model.coef_.shape == (10,)
    found = model.predict(there)
    assert isinstance(found, kinds(xp))
    np.testing.assert_allclose(to_host(found), ours.predict(values), rtol=1e-4)
    np.testing.assert_allclose(model.predict(values), ours.predict(values), rtol=1e-4)
    assert model.score(there, y) == pytest.approx(ours.score(values, targets), abs=1e-5)
    model.set_params(warm_start=True).fit(there, y)
    assert model.fit(there, y).n_iter_ <= 1
    model.partial_fit(values, targets)  # a stream in host memory goes on from there
    assert type(model.coef_) is np.ndarray
    assert model.stream_.rows == 2 * len(values)


def test_lam_is_chosen_on_a_device(xp):
    values = X.astype(np.float32)
    there, y = xp.asarray(values), xp.asarray(Y == 2)
    for scoring in (None, "roc_auc"):
        ours = BatchSVCCV(lams=LAMS, scoring=scoring, random_state=0).fit(values, Y == 2)
        model = BatchSVCCV(lams=LAMS, scoring=scoring, random_state=0).fit(there, y)
        assert model.lam_ == ours.lam_
        assert isinstance(model.scores_, kinds(xp))
        np.testing.assert_allclose(to_host(model.scores_), ours.scores_, rtol=1e-6)
        assert model.score(there, y) == pytest.approx(ours.score(values, Y == 2), abs=1e-6)


def test_types_that_are_not_computed_in_are_converted_in_blocks(xp, monkeypatch):
    monkeypatch.setattr(predictions, "MAX_CONVERTED_ENTRIES", 4 * 64)
    types = ("float16", "bfloat16", "int32")
    for dtype in [getattr(xp, name) for name in types if hasattr(xp, name)]:
        there = arrays.cast(xp.asarray(X.astype(np.float32)), dtype)
        model = BatchSVC(random_state=0).fit(X, Y)
        expected = model.decision_function(np.float32(to_host(there)))
        found = model.decision_function(there)
        assert isinstance(found, kinds(xp))
        np.testing.assert_allclose(to_host(found), expected, rtol=1e-4, atol=1e-5)


def test_predictions_on_a_device_check_x(xp):
    values = X.astype(np.float32)
    model = BatchSVC(random_state=0).fit(values, Y)
    with pytest.raises(ValueError, match="X has 3 features, but BatchSVC is expecting 4"):
        model.predict(xp.asarray(values[:, :3]))
    with pytest.raises(ValueError, match="X must have two dimensions"):
        model.predict(xp.asarray(values[0]))
    for bad in (np.nan, np.inf):
        broken = values.copy()
        broken[7, 2] = bad
        with pytest.raises(ValueError, match="X must be finite"):
            model.predict(xp.asarray(broken))
    model.fit(DataFrame(values, columns=list("abcd")), Y)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(xp.asarray(values))


def test_a_model_file_of_a_device(xp, tmp_path):
    values = X.astype(np.float32)
    there, y = xp.asarray(values), xp.asarray(Y)
    model = BatchSVC(C=0.1, random_state=0).fit(there, y)
    model.save(tmp_path / "model", y)
    saved = batchsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(saved.coef, to_host(model.coef_))
    np.testing.assert_array_equal(saved.predict(X), model.predict(X))
    found = saved.predict(there)
    assert isinstance(found, kinds(xp))
    np.testing.assert_array_equal(to_host(found), saved.predict(X))
