"""Data to which nothing need be done: taken as it is, and refused in scikit-learn's own words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from pandas import DataFrame
from sklearn.svm import LinearSVC

from batchsvm import BatchSVC, BatchSVR
from batchsvm.estimators import training

X = np.random.default_rng(0).normal(size=(60, 4))
Y = np.where(X[:, 0] > 0, 1, -1)


@pytest.fixture
def checked(monkeypatch):
    """How often scikit-learn was asked."""
    calls, validate = [], training.validate_data

    def counted(*args, **options):
        calls.append(options)
        return validate(*args, **options)

    monkeypatch.setattr(training, "validate_data", counted)
    return calls


@pytest.mark.parametrize("make", [np.asarray, np.float32, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("labels", [Y, Y.astype(float), Y > 0])
def test_plain_data_is_checked_once(make, labels, checked):
    model = BatchSVC(lam=0.1, random_state=0).fit(make(X), labels)
    assert not checked
    assert model.n_features_in_ == 4
    around = BatchSVC(lam=0.1, random_state=0).fit(make(X), labels.tolist())
    assert len(checked) == 1
    np.testing.assert_array_equal(model.coef_, around.coef_)
    BatchSVR(lam=0.1, random_state=0).fit(make(X), labels)
    assert len(checked) == 1


def test_names_of_an_earlier_fit_are_forgotten():
    model = BatchSVC(lam=0.1, random_state=0).fit(DataFrame(X, columns=list("abcd")), Y)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert not hasattr(model.fit(X, Y), "feature_names_in_")
    assert model.predict(X).shape == (60,)


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (X, Y[:-1]),
        (X, np.where(Y > 0, np.nan, 0.0)),
        (X, np.where(Y > 0, np.inf, 0.0)),
        (X[:0], Y[:0]),
        (X[:, :0], Y),
        (X[0], Y),
        (X[np.newaxis], Y),
        (X + 1j, Y),
        (X, np.array([Y, Y]).T),
        (sp.csr_array(X), Y[:-1]),
        (sp.csr_array((0, 4)), Y[:0]),
    ],
)
def test_bad_data_is_refused_in_the_words_of_scikit_learn(rows, labels):
    with pytest.raises(ValueError) as theirs:
        LinearSVC().fit(rows, labels)
    with pytest.raises(ValueError) as ours:
        BatchSVC().fit(rows, labels)
    assert str(ours.value) == str(theirs.value).replace("LinearSVC", "BatchSVC")


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_by_the_core(make, value):
    bad = X.copy()
    bad[7, 2] = value
    with pytest.raises(ValueError, match=f"row 7 holds {value}"):
        BatchSVC().fit(make(bad), Y)


def test_nobody_is_told_when_nobody_listens(monkeypatch):
    def told(*args, **options):
        raise AssertionError

    monkeypatch.setattr(BatchSVC, "_init_callback_context", told, raising=False)
    BatchSVC(lam=0.1, random_state=0).fit(X, Y)
