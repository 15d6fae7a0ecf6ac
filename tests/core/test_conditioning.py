"""Warnings before training, of columns and of targets."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import batchsvm
from batchsvm import BatchSVC, BatchSVR
from batchsvm.core.conditioning import column_ratio
from batchsvm.engines import place_on
from benchmarks.shapes import raw_columns

WORDS = "the columns of X differ in size by a factor of"


@pytest.fixture(scope="module")
def raw():
    return raw_columns(n=2000)


def warned(call):
    """The words of the warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in found if WORDS in str(warning.message)]


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_columns_of_different_size_are_warned_of_before_training(raw, stored):
    X, y = raw
    X = stored(X)
    seen = []

    def stop(checkpoint):
        seen.append(checkpoint)
        return True

    with pytest.warns(ConvergenceWarning, match=WORDS) as found:
        batchsvm.fit(X, y, max_epochs=1, random_state=0, callback=stop)
    [first] = [str(warning.message) for warning in found if WORDS in str(warning.message)]
    assert "make_pipeline(StandardScaler(), BatchSVC())" in first
    assert found[0].filename == __file__


def test_all_entrances_warn_once(raw):
    X, y = raw
    short = {"max_epochs": 1, "random_state": 0}
    calls = [
        lambda: batchsvm.fit(X, y, **short),
        lambda: batchsvm.fit_many(X, y, **short),
        lambda: batchsvm.path(X, y, [1e-2, 1e-3], **short),
        lambda: BatchSVC(**short).fit(X, y),
        lambda: BatchSVC(intercept="free", **short).fit(X, y),
    ]
    assert [len(warned(call)) for call in calls] == [1] * len(calls)
    quiet = [
        lambda: batchsvm.fit(X, y, warn=False, **short),
        lambda: batchsvm.fit_many(X, y, warn=False, **short),
        lambda: batchsvm.path(X, y, [1e-2], warn=False, **short),
    ]
    assert [len(warned(call)) for call in quiet] == [0] * len(quiet)


def test_newton_does_not_mind(raw):
    X, y = raw
    assert warned(lambda: BatchSVC("logistic", random_state=0).fit(X, y)) == []
    assert warned(lambda: BatchSVC("logistic", method="newton").fit(X, y)) == []
    assert len(warned(lambda: BatchSVC("logistic", method="aggressive", max_epochs=1).fit(X, y)))


def test_a_late_trial_of_newtons_method_does_not_silence_the_warning():
    """SDCA is likely to be faster, and columns are of different size all the same."""
    rng = np.random.default_rng(0)
    X = 0.01 * rng.normal(size=(3000, 3)) * [1.0, 1.0, 1000.0]
    y = np.where(X[:, 2] + rng.normal(size=3000) > 0, 1.0, -1.0)
    plan = batchsvm.plan(X, y, lam=1.0)
    assert (plan.fallback, plan.is_trial) == ("newton", False)
    assert len(warned(lambda: batchsvm.fit(X, y, lam=1.0, random_state=0))) == 1


def test_what_is_not_warned_of():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(300, 5))
    text = sp.random(300, 2000, 0.02, "csr", random_state=0)
    ones = np.ones((10, 1)) * 1e6
    for X in (dense, text, ones, np.zeros((10, 3)), 1000.0 * dense):
        with place_on("cpu", X, 1) as data:
            assert column_ratio(data) < 50


def test_the_ratio_of_columns(engine_of_columns):
    X = np.ones((400, 20))
    X[:, 3] = 1000.0
    X[:, 7] = 0.0
    with place_on(engine_of_columns, X, 1) as data:
        assert column_ratio(data) == pytest.approx(1000.0)


@pytest.fixture(params=["cpu", "reference", "gpu", "streamed"])
def engine_of_columns(request):
    return request.param


def test_a_pipeline_with_a_scaler_solves_it(raw):
    X, y = raw
    model = make_pipeline(StandardScaler(), BatchSVC(random_state=0))
    assert warned(lambda: model.fit(X, y)) == []
    assert model.score(X, y) > 0.9
    assert model[-1].certificate_.relative_gap <= 1e-3


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber", "quantile"])
def test_targets_far_from_zero_are_warned_of(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, 2.0, 3.0] + 1000.0
    short = {"max_epochs": 1, "random_state": 0, "tol": 0.9, "engine": "reference"}
    with pytest.warns(UserWarning, match=r'^the mean of y is 1e\+03, .* Use intercept="free"'):
        BatchSVR(loss, **short).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        BatchSVR(loss, intercept="free", **short).fit(X, y)
        BatchSVR(loss, fit_intercept=False, **short).fit(X, y)
        BatchSVR(loss, **short).fit(X, y - 1000.0)
