"""Fits that fail on several threads: the first real error is raised, and nothing hangs."""

from __future__ import annotations

import faulthandler
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import make_classification

from batchsvm import BatchSVC, BatchSVCCV

LONGEST = 1200  # seconds; after that the process ends and shows where each thread was


@pytest.fixture
def no_hang():
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def broken_rows(k):
    X, y = make_classification(60, 4, n_informative=3, n_redundant=0, random_state=0)
    X[k % 60, k % 4] = np.nan
    return X, y


def wrong_scorer(model, X, y):
    raise LookupError("this scorer is broken")


FAILING = {
    "nan in X": (BatchSVCCV(lams=3, cv=3, n_jobs=2), ValueError, "X must be finite"),
    "a scorer": (
        BatchSVCCV(lams=3, cv=3, n_jobs=2, scoring=wrong_scorer), LookupError, "scorer is broken",
    ),
    "classes": (BatchSVC(n_jobs=3), ValueError, "X must be finite"),
    "free": (BatchSVC(intercept="free", n_jobs=2), ValueError, "X must be finite"),
}  # fmt: skip


def errors_of(name, times):
    estimator, kind, words = FAILING[name]
    seen = Counter()
    for k in range(times):
        X, y = broken_rows(k)
        if kind is LookupError:
            X = np.nan_to_num(X)
        if name == "classes":
            y = np.arange(60) % 3
        with pytest.raises(BaseException) as caught:
            estimator.fit(X, y)
        seen[caught.type is kind and words in str(caught.value)] += 1
    return seen


@pytest.mark.parametrize("name", FAILING)
def test_the_first_real_error_is_raised(no_hang, name):
    assert errors_of(name, 25) == {True: 25}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILING)
def test_ten_thousand_failing_fits(no_hang, name):
    assert errors_of(name, 2500) == {True: 2500}
