"""What users of other trainers have asked for, one test or more for each.

The numbers are those of the threads on scikit-learn, unless another project is named.
"""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm import BatchSVC, BatchSVR
from batchsvm.core import intercept
from helpers import csr


def objective(model, X, y):
    signs = np.where(y == model.classes_[1], 1, -1)
    w = np.append(model.coef_[0], model.intercept_[0])
    margins = signs * (X @ w[:-1] + w[-1])
    return np.maximum(0, 1 - margins).mean() + model.lam_ / 2 * w @ w


class TestDidItConverge:
    """#11536, tpot#830: "Liblinear failed to converge": is my model wrong?"""

    def test_the_warning_says_how_far_from_the_optimum(self, cancer):
        model = BatchSVC(lam=1e-5, tol=1e-6, max_epochs=2, random_state=0)
        with pytest.warns(ConvergenceWarning) as caught:
            model.fit(*cancer)
        assert len(caught) == 1
        sentence = str(caught[0].message)
        assert f"at most {model.certificate_.bound:.3g} above its optimum" in sentence
        assert "raise max_epochs (now 2)" in sentence
        assert caught[0].filename == __file__

    def test_one_warning_for_all_classes_names_the_worst(self):
        X, y = load_iris(return_X_y=True)
        model = BatchSVC(lam=1e-4, tol=1e-9, max_epochs=3, random_state=0)
        with pytest.warns(ConvergenceWarning) as caught:
            model.fit(X, np.array(["setosa", "versicolor", "virginica"])[y])
        assert len(caught) == 1
        sentence = str(caught[0].message)
        assert "3 of 3 classes stopped early" in sentence
        assert f"The worst is {model.certificate_.worst_label!r}" in sentence
        assert f"{model.certificate_.worst.relative_gap:.3g} of it" in sentence

    def test_no_warning_means_converged(self, cancer):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = BatchSVC(tol=1e-6, random_state=0).fit(*cancer)
        assert model.certificate_.relative_gap <= 1e-6


class TestHowFarAboveTheOptimum:
    """#22283: the solver stops above the optimum, and nothing shows it."""

    @pytest.mark.parametrize("epochs", [1, 3, 10])
    def test_the_gap_shows_it(self, cancer, epochs):
        X, y = cancer
        best = BatchSVC(lam=1e-3, tol=1e-8, max_epochs=10**5, random_state=0).fit(X, y)
        early = BatchSVC(lam=1e-3, tol=1e-12, max_epochs=epochs, random_state=0)
        with pytest.warns(ConvergenceWarning):
            early.fit(X, y)
        above = objective(early, X, y) - objective(best, X, y)
        assert 0 <= above + 1e-8 <= early.certificate_.gap + 1e-7
        assert early.history_.gap[-1] >= early.certificate_.gap


class TestAllCores:
    """#6245, #18113: all cores in one fit."""

    def test_threads_do_not_change_the_classes(self):
        X, y = load_iris(return_X_y=True)
        one = BatchSVC(random_state=0, n_jobs=1).fit(X, y)
        four = BatchSVC(random_state=0, n_jobs=4).fit(X, y)
        np.testing.assert_array_equal(one.coef_, four.coef_)
        np.testing.assert_array_equal(one.dual_coef_, four.dual_coef_)

    def test_the_speed_up_to_expect_is_known_beforehand(self, cancer):
        X, y = cancer
        before = batchsvm.plan(X, y, lam=1e-2)
        model = BatchSVC(lam=1e-2, fit_intercept=False, n_jobs=2, random_state=0).fit(X, y)
        assert model.plan_.sigma2 == pytest.approx(before.sigma2)
        known = {row.b: row.speedup for row in before.table}
        for row in model.plan_.table:
            assert row.b not in known or row.speedup == pytest.approx(known[row.b])
        assert known[len(y)] > known[2] > known[1] == 1.0


def rows_trained_on(monkeypatch):
    """The rows of each fit of the core, as they come."""
    seen, train = [], intercept.train

    def observed(data, *arguments):
        seen.append(data.rows)
        return train(data, *arguments)

    monkeypatch.setattr(intercept, "train", observed)
    return seen


class TestNoCopies:
    """#18825, #17262: float64 copies, MemoryError."""

    @pytest.mark.parametrize("make", [np.ascontiguousarray, sp.csr_array])
    @pytest.mark.parametrize("how", ["penalised", "free"])
    def test_float32_is_used_in_place(self, make, how, monkeypatch):
        seen = rows_trained_on(monkeypatch)
        X, y = make_classification(60, 8, n_informative=4, n_classes=3, random_state=0)
        X = make(X.astype(np.float32))
        BatchSVC(intercept=how, lam=0.1, random_state=0).fit(X, y)
        assert len(seen) >= 3
        for used in seen:
            assert used.values.dtype == np.float32
            if sp.issparse(X):
                assert np.shares_memory(used.values, X.data)
                assert np.shares_memory(used.indices, X.indices)
            else:
                assert np.shares_memory(used.values, X)

    def test_memory_of_a_fit_with_an_intercept_and_many_classes(self):
        X, y = make_classification(4000, 600, n_informative=10, n_classes=4, random_state=0)
        X = X.astype(np.float32)
        model = BatchSVC(lam=0.1, tol=0.05, random_state=0)
        model.fit(X, y)  # compiled before it is measured
        tracemalloc.start()
        model.fit(X, y)
        model.predict(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < X.nbytes / 4


class TestLongIndices:
    """#31073, #9545, #18027: int64 indices."""

    def test_they_are_used_in_place(self, monkeypatch):
        seen = rows_trained_on(monkeypatch)
        X, y = make_classification(60, 8, random_state=0)
        short, long = csr(X, np.float64, np.int32), csr(X, np.float64, np.int64)
        expected = BatchSVC(lam=0.1, random_state=0).fit(short, y)
        model = BatchSVC(lam=0.1, random_state=0).fit(long, y)
        assert seen[-1].indices.dtype == np.uint64  # seen as unsigned
        assert np.shares_memory(seen[-1].indices, long.indices)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(model.predict(long), expected.predict(short))


class TestWhichDual:
    """#24651, #17339: which `dual`, which solver?"""

    @pytest.mark.parametrize("shape", [(300, 10), (30, 100)])
    def test_always_both_and_auto_says_why(self, shape):
        X, y = make_classification(*shape, random_state=0)
        model = BatchSVC(lam=0.1, random_state=0).fit(X, y)
        assert model.certificate_.dual <= model.certificate_.primal
        assert model.coef_.shape == (1, shape[1])
        assert model.dual_coef_.shape == (1, shape[0])
        assert len(model.plan_.reason.split()) > 5
        assert "dual" not in model.get_params()


class TestWarmStart:
    """#15422, #6524: warm start and resume."""

    def test_resuming(self, cancer):
        X, y = cancer
        model = BatchSVC(lam=1e-3, tol=1e-5, max_epochs=5, warm_start=True, random_state=0)
        with pytest.warns(ConvergenceWarning):
            model.fit(X, y)
        gaps = [model.certificate_.relative_gap]
        while gaps[-1] > 1e-5 and len(gaps) < 80:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                gaps.append(model.fit(X, y).certificate_.relative_gap)
        assert gaps == sorted(gaps, reverse=True)
        assert model.certificate_.relative_gap <= 1e-5
        # There is nothing left to do.
        assert model.fit(X, y).n_iter_ == 0

    def test_another_lam_loss_and_weights(self, cancer):
        X, y = cancer
        model = BatchSVC(lam=1e-2, warm_start=True, random_state=0).fit(X, y)
        cold = BatchSVC(lam=0.8e-2, tol=1e-4, random_state=0).fit(X, y)
        warm = model.set_params(lam=0.8e-2, tol=1e-4).fit(X, y)
        assert warm.history_.epoch[-1] < cold.history_.epoch[-1]
        model.set_params(loss="squared_hinge").fit(X, y)
        assert model.certificate_.relative_gap <= 1e-4
        model.set_params(loss="logistic").fit(X, y, sample_weight=np.arange(len(y)) % 3)
        assert model.certificate_.relative_gap <= 1e-4

    def test_rows_appended_and_rows_dropped(self, cancer):
        X, y = cancer
        model = BatchSVC(lam=1e-3, tol=1e-4, warm_start=True, random_state=0).fit(X[:550], y[:550])
        cold = BatchSVC(lam=1e-3, tol=1e-4, random_state=0).fit(X, y)
        model.fit(X, y)
        assert model.history_.epoch[-1] < cold.history_.epoch[-1]
        assert model.certificate_.relative_gap <= 1e-4
        model.fit(X[:100], y[:100])
        assert model.dual_coef_.shape == (1, 100)

    def test_other_classes_start_anew(self):
        X, y = load_iris(return_X_y=True)
        model = BatchSVC(warm_start=True, random_state=0).fit(X, y)
        model.fit(X[:100], y[:100])
        assert model.coef_.shape == (1, 4)
        fresh = BatchSVC(random_state=0).fit(X[:100], y[:100])
        np.testing.assert_array_equal(model.coef_, fresh.coef_)

    def test_regression(self, cancer):
        X, y = cancer
        model = BatchSVR(lam=1e-2, warm_start=True, random_state=0).fit(X, y.astype(float))
        assert model.fit(X, y.astype(float)).n_iter_ == 0

    def test_without_it_a_fit_forgets(self, cancer):
        X, y = cancer
        model = BatchSVC(lam=1e-3, random_state=0).fit(X, y)
        assert model.fit(X, y).n_iter_ > 0


class TestFreeIntercept:
    """#26812, #11715: the intercept is penalised.  (#7574, #24524, progress and callbacks, are in
    test_estimators_watch.py.)"""

    def test_moving_all_rows_moves_nothing_but_the_intercept(self, cancer):
        X, y = cancer
        here = BatchSVC(lam=0.01, intercept="free", tol=1e-8, max_epochs=10**4, random_state=0)
        there = BatchSVC(lam=0.01, intercept="free", tol=1e-8, max_epochs=10**4, random_state=0)
        here.fit(X, y)
        there.fit(X + 3.0, y)
        np.testing.assert_allclose(there.coef_, here.coef_, atol=2e-3)
        assert there.certificate_.primal == pytest.approx(here.certificate_.primal, abs=1e-7)
        penalised = BatchSVC(lam=0.01, tol=1e-5, max_epochs=10**4, random_state=0)
        moved = penalised.fit(X + 3.0, y).certificate_.primal
        assert moved > here.certificate_.primal + 1e-3

    def test_moving_all_targets_moves_nothing_but_the_intercept(self, cancer):
        X, _ = cancer
        y = X[:, 0] - X[:, 1]
        here, there = (
            BatchSVR(
                "absolute", lam=0.1, intercept="free", tol=tol, max_epochs=10**4, random_state=0
            ).fit(X, y + by)
            for by, tol in ((0.0, 1e-6), (1000.0, 1e-6))
        )
        np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-2)
        assert there.intercept_[0] - here.intercept_[0] == pytest.approx(1000.0, abs=1e-2)


class TestSampleWeight:
    """#10873, #30056, #16298: sample_weight is wrong.  (The equivalence checks of scikit-learn
    are in test_estimators_checks.py.)"""

    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
    @pytest.mark.parametrize("how", ["penalised", "free"])
    def test_weights_are_copies(self, cancer, loss, how):
        X, y = cancer[0][:120], cancer[1][:120]
        weights = np.random.default_rng(0).integers(0, 4, 120)
        model = BatchSVC(loss, C=0.1, intercept=how, tol=1e-9, max_epochs=10**4, random_state=0)
        model.fit(X, y, sample_weight=weights)
        weighted, bound = model.coef_.copy(), model.certificate_
        model.fit(X.repeat(weights, axis=0), y.repeat(weights))
        np.testing.assert_allclose(model.coef_, weighted, atol=2e-4)
        # Both are the same problem: the two intervals [dual, primal] must meet.
        assert bound.dual <= model.certificate_.primal + 1e-12
        assert model.certificate_.dual <= bound.primal + 1e-12

    def test_the_scale_of_weights_matters_to_c_and_not_to_lam(self, cancer):
        X, y = cancer
        twos = np.full(len(y), 2.0)
        by_lam = BatchSVC(lam=0.01, tol=1e-8, random_state=0)
        np.testing.assert_allclose(
            by_lam.fit(X, y, sample_weight=twos).coef_.copy(), by_lam.fit(X, y).coef_, atol=1e-4
        )
        by_c = BatchSVC(C=0.01, tol=1e-8, random_state=0).fit(X, y, sample_weight=twos)
        double = BatchSVC(C=0.02, tol=1e-8, random_state=0).fit(X, y)
        np.testing.assert_allclose(by_c.coef_, double.coef_, atol=1e-4)


class TestProbabilities:
    """#4820, #18032: probabilities of a linear SVM."""

    def test_they_are_calibrated(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 3))
        y = rng.random(4000) < 1 / (1 + np.exp(-(X @ [1.0, -2.0, 0.5] + 0.3)))
        model = BatchSVC("logistic", lam=1e-4, intercept="free", random_state=0)
        proba = model.fit(X[:2000], y[:2000]).predict_proba(X[2000:])[:, 1]
        true, predicted = calibration_curve(y[2000:], proba, n_bins=5, strategy="quantile")
        np.testing.assert_allclose(true, predicted, atol=0.06)


class TestStoppingRule:
    """#30027, cuml#6759: the stopping rule is not the objective."""

    @pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3, 1e-4])
    def test_tol_bounds_the_distance_to_the_optimum(self, cancer, tol):
        X, y = cancer
        best = BatchSVC(lam=1e-2, tol=1e-9, max_epochs=10**4, random_state=0).fit(X, y)
        optimum = objective(best, X, y)
        for seed in range(3):
            model = BatchSVC(lam=1e-2, tol=tol, random_state=seed).fit(X, y)
            assert model.certificate_.relative_gap <= tol
            assert objective(model, X, y) - optimum <= tol  # P(0) is 1 for the hinge
            assert model.certificate_.primal == pytest.approx(objective(model, X, y), abs=1e-12)
