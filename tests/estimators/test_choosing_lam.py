"""Choosing lam: the path and cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV


def test_cv_chooses_the_lam_with_the_best_score(cancer):
    X, y = cancer
    lams = [1e-4, 10.0, 1e-2, 1.0]
    model = BatchSVCCV(lams, cv=3, random_state=0).fit(X, y)
    assert list(model.lams_) == [10.0, 1.0, 1e-2, 1e-4]
    assert model.scores_.shape == model.gaps_.shape == (3, 4)
    assert (model.gaps_ <= model.tol).all()
    assert model.lam_ == model.lams_[model.scores_.mean(axis=0).argmax()]
    by_hand = GridSearchCV(BatchSVC(random_state=0), {"lam": lams}, cv=3).fit(X, y)
    means = dict(zip(lams, by_hand.cv_results_["mean_test_score"], strict=True))
    for lam, mean in zip(model.lams_, model.scores_.mean(axis=0), strict=True):
        assert mean == pytest.approx(means[lam], abs=0.02)
    refit = BatchSVC(lam=model.lam_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, refit.coef_)


def test_cv_grid_scoring_groups_and_threads(iris):
    X, y = iris
    groups = np.arange(150) % 4
    options = {"lams": 4, "cv": GroupKFold(4), "scoring": "neg_log_loss", "loss": "logistic"}
    one = BatchSVCCV(**options, random_state=0).fit(X, y, groups=groups)
    two = BatchSVCCV(**options, random_state=0, n_jobs=2).fit(X, y, groups=groups)
    np.testing.assert_array_equal(one.scores_, two.scores_)
    np.testing.assert_allclose(1 / (one.lams_ * 150), np.geomspace(1e-3, 1e2, 4))
    assert (one.scores_ < 0).all()
    calls = []
    weights = np.ones(150)
    BatchSVCCV([0.1], cv=3, scoring=lambda model, X, y: calls.append(len(y)) or 1.0).fit(
        X, y, sample_weight=weights
    )
    assert calls == [50, 50, 50]


def test_cv_weights_count_in_scores_too(iris):
    X, y = iris
    wrong = np.where(np.arange(150) % 10 == 0, (y + 1) % 3, y)
    weights = np.where(np.arange(150) % 10 == 0, 0.0, 1.0)
    model = BatchSVCCV([0.01], cv=3, random_state=0).fit(X, wrong, sample_weight=weights)
    unweighted = BatchSVCCV([0.01], cv=3, random_state=0).fit(X, wrong)
    assert model.scores_.mean() > unweighted.scores_.mean() + 0.05


def test_cv_scores_as_it_chooses(iris):
    X, y = iris
    options = {"lams": [0.1, 0.01], "cv": 3, "loss": "logistic", "random_state": 0}
    model = BatchSVCCV(**options, scoring="neg_log_loss").fit(X, y)
    weights = np.arange(150.0)
    assert model.score(X, y) == -log_loss(y, model.predict_proba(X))
    by_weight = -log_loss(y, model.predict_proba(X), sample_weight=weights)
    assert model.score(X, y, weights) == by_weight
    plain = BatchSVCCV(**options).fit(X, y)
    assert plain.score(X, y) == (plain.predict(X) == y).mean()
    # A scorer may ask for the score itself, and need not take weights.
    odd = BatchSVCCV(**options, scoring=lambda model, X, y: -model.score(X, y)).fit(X, y)
    assert odd.score(X, y, weights) == -(odd.predict(X) == y).mean()


# Paths


@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
def test_path_is_certified_at_every_point_and_in_the_order_asked(intercept, cancer):
    X, y = cancer
    lams = [0.01, 1.0, 0.1]
    path = batchsvm.path(X, y, lams, intercept=intercept, tol=1e-4, random_state=0)
    assert list(path.lams) == lams
    assert path.coefs.shape == (3, 30)
    assert path.intercepts.shape == (3,)
    assert bool(path.intercepts.any()) == (intercept is not None)
    for lam, model, certificate in zip(lams, path.models, path.certificates, strict=True):
        assert certificate.relative_gap <= 1e-4
        cold = batchsvm.fit(X, y, lam=lam, tol=1e-4, random_state=0)
        if intercept is None:
            assert batchsvm.certify(X, y, model.coef, model.solution.alpha, lam=lam) == certificate
            assert abs(cold.certificate.primal - certificate.primal) <= 2e-4
    assert len(str(path).splitlines()) == 4


def test_path_is_warm(cancer):
    X, y = cancer
    lams = np.geomspace(1e-1, 1e-4, 6)
    path = batchsvm.path(X, y, lams, random_state=0)
    warm = sum(model.solution.history.epoch[-1] for model in path.models)
    cold = sum(batchsvm.fit(X, y, lam=lam, random_state=0).history.epoch[-1] for lam in lams)
    assert warm < 0.7 * cold


@pytest.mark.parametrize("lams", [[], [0.1, -1.0], [0.0], "x", [np.nan]])
def test_path_refuses_bad_lams(lams):
    with pytest.raises(ValueError, match="lams must"):
        batchsvm.path([[1.0], [2.0]], [0, 1], lams)


def test_cv_warns_of_its_folds_and_of_the_last_fit(cancer):
    with pytest.warns(ConvergenceWarning) as caught:
        BatchSVCCV([1e-5], cv=3, max_epochs=1, random_state=0).fit(*cancer)
    assert "3 of 3 points of the cross-validation stopped above tol" in str(caught[0].message)
    assert "max_epochs was reached" in str(caught[-1].message)
    assert all(record.filename == __file__ for record in caught)
