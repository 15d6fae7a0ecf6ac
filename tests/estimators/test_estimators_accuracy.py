"""As accurate as LinearSVC and SGDClassifier at the same lam, in cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
    make_hastie_10_2,
)
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from batchsvm import BatchSVC


def diabetes_above_median():
    X, y = load_diabetes(return_X_y=True)
    return X, y > np.median(y)


SETS = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "diabetes": diabetes_above_median,
    "blobs": lambda: make_blobs(400, 5, centers=5, cluster_std=3.0, random_state=0),
    "classification": lambda: make_classification(800, 30, flip_y=0.1, random_state=0),
    "unbalanced": lambda: make_classification(800, 20, weights=[0.9], random_state=0),
    "hastie": lambda: make_hastie_10_2(1000, random_state=0),
}
LAM = 1e-2


@pytest.mark.parametrize("name", SETS)
def test_accuracy_is_that_of_the_others(name):
    X, y = SETS[name]()
    X = StandardScaler().fit_transform(X)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    C = 1 / (LAM * 0.8 * len(y))
    svc = LinearSVC(loss="hinge", C=C, tol=1e-3, max_iter=10**5, random_state=0)
    sgd = SGDClassifier(alpha=LAM, average=True, max_iter=100, tol=None, random_state=0)
    ours = cross_val_score(BatchSVC(lam=LAM, random_state=0), X, y, cv=folds)
    for other in (svc, sgd):
        theirs = cross_val_score(other, X, y, cv=folds)
        # Folds are the same, so that the noise is that of the differences.
        noise = 2 * (ours - theirs).std(ddof=1) / np.sqrt(5)
        assert ours.mean() >= theirs.mean() - max(noise, 0.02), (ours.mean(), theirs.mean())
