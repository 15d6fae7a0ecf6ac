"""Paths of many problems, and which dual points they keep."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm import Status
from batchsvm.core.solution import Solutions
from device import DeviceDataset

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
WORDS = np.array(["a", "b", "c"])[Y]
LAMS = [0.01, 1.0, 0.1]


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
def test_a_path_of_classes_is_fit_many_for_each_lam(engine, intercept):
    options = {"intercept": intercept, "scaling": 2.0, "tol": 1e-4, "random_state": 3}
    path = batchsvm.path(X, WORDS, LAMS, engine=engine, **options)
    assert path.lams.tolist() == LAMS
    assert path.coefs.shape == (3, 3, 4)
    assert path.intercepts.shape == (3, 3)
    assert bool(path.intercepts.any()) == (intercept is not None)
    for j, lam in enumerate(LAMS):
        solutions, cold = path.models[j], batchsvm.fit_many(X, WORDS, lam=lam, **options)
        assert isinstance(solutions, Solutions)
        assert solutions.classes.tolist() == ["a", "b", "c"]
        assert path.certificates[j] == solutions.certificates
        np.testing.assert_array_equal(path.coefs[j], solutions.coef)
        np.testing.assert_array_equal(path.intercepts[j], solutions.intercept)
        for ours, theirs in zip(solutions, cold, strict=True):
            assert ours.lam == lam
            assert ours.alpha.shape == (150,)
            assert ours.certificate.relative_gap <= 1e-4
            primal = theirs.certificate.primal
            assert abs(ours.certificate.primal - primal) <= 1e-4 * primal
    first = batchsvm.fit_many(X, WORDS, lam=1.0, engine=engine, **options)
    np.testing.assert_array_equal(path.coefs[1], first.coef)  # the largest starts from zero


def test_columns_of_targets_are_problems_of_a_path():
    rng = np.random.default_rng(0)
    columns, weights = rng.normal(size=(150, 2)), rng.random((150, 2))
    path = batchsvm.path(
        X, columns, [0.1, 1.0], "huber", sample_weight=weights, tol=1e-5, random_state=0
    )
    assert path.coefs.shape == (2, 2, 4)
    assert path.models[0].classes is None
    for j, lam in enumerate([0.1, 1.0]):
        for k in range(2):
            alone = batchsvm.fit(
                X, columns[:, k], "huber", lam, sample_weight=weights[:, k], tol=1e-5
            )
            primal = alone.certificate.primal
            assert path.certificates[j][k].primal == pytest.approx(primal, rel=2e-5)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_path_of_many_problems_is_warm(engine):
    lams = np.geomspace(1e-1, 1e-3, 5)
    path = batchsvm.path(X, Y, lams, random_state=0, engine=engine)
    warm = sum(s.history.epoch[-1] for solutions in path.models for s in solutions)
    cold = sum(
        s.history.epoch[-1]
        for lam in lams
        for s in batchsvm.fit_many(X, Y, lam=lam, random_state=0, engine=engine)
    )
    assert warm < 0.8 * cold


def test_problems_are_trained_together_without_a_copy_of_alpha():
    data = DeviceDataset(X)
    path = batchsvm.path(data, Y, LAMS, random_state=0)
    assert len(data.trainers) == 3
    assert data.fetches == data.starts == []
    expected = batchsvm.path(X, Y, LAMS, random_state=0, engine="reference")
    np.testing.assert_array_equal(path.coefs, expected.coefs)


def test_a_path_shows_the_worst_of_each_lam():
    path = batchsvm.path(X, Y, LAMS, random_state=0)
    lines = str(path).splitlines()
    assert len(lines) == 4
    for line, solutions in zip(lines[1:], path.models, strict=True):
        worst = solutions.worst
        assert worst.relative_gap == max(c.relative_gap for c in solutions.certificates)
        assert line.split()[1] == f"{worst.primal:.6g}"
        assert line.split()[2] == f"{worst.bound:.2g}"


@pytest.mark.parametrize("y", [Y == 1, Y], ids=["one", "many"])
def test_only_the_last_alpha_is_kept_if_that_is_asked_for(y):
    path = batchsvm.path(X, y, LAMS, alphas="last", random_state=0)
    everything = batchsvm.path(X, y, LAMS, alphas="all", random_state=0)
    np.testing.assert_array_equal(path.coefs, everything.coefs)
    for j, lam in enumerate(LAMS):
        ours, theirs = (
            [m.solution] if y is not Y else list(m) for m in (path.models[j], everything.models[j])
        )
        for one, other in zip(ours, theirs, strict=True):
            assert one.certificate == other.certificate
            if lam == 0.01:
                np.testing.assert_array_equal(one.alpha, other.alpha)
                continue
            message = rf"^alpha of lam = {lam:g} was not kept: pass alphas='all' to batchsvm.path$"
            for model in (one, pickle.loads(pickle.dumps(one))):
                with pytest.raises(ValueError, match=message):
                    _ = model.alpha


@pytest.mark.parametrize(("alphas", "kept"), [("auto", 1), ("last", 1), ("all", 3)])
def test_auto_keeps_the_last_alpha_alone_on_a_device(alphas, kept):
    data = DeviceDataset(X)
    data.keeps_all_alphas = False
    path = batchsvm.path(data, Y, LAMS, alphas=alphas, random_state=0)
    found = 0
    for solutions in path.models:
        try:
            found += all(solution.alpha.any() for solution in solutions)
        except ValueError:
            assert solutions[0].lam != 0.01
    assert found == kept


def test_bad_arguments_of_a_path():
    with pytest.raises(ValueError, match="alphas must be one of 'auto', 'all', 'last'"):
        batchsvm.path(X, Y, LAMS, alphas="first")
    with pytest.raises(ValueError, match=r"y must have shape \(150,\) or \(150, K\)"):
        batchsvm.path(X, Y[:9], LAMS)
    with pytest.raises(ValueError, match="callback must be callable or None, not 3"):
        batchsvm.path(X, Y, LAMS, callback=3)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_ctrl_c_gives_back_the_values_of_lam_that_were_begun(engine):
    starts = []

    def press(k, checkpoint):
        assert checkpoint.w.shape == (4,)
        if checkpoint.iteration == 0:
            starts.append(k)
        elif k == 2 and starts.count(0) == 2:  # of the second lam
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning) as caught:
        path = batchsvm.path(
            X, Y, [1e-5, 1.0, 1e-4], tol=1e-9, max_epochs=100, random_state=0, engine=engine,
            callback=press,
        )  # fmt: skip
    assert path.lams.tolist() == [1.0, 1e-4]
    assert path.coefs.shape == (2, 3, 4)
    statuses = [solution.status for solution in path.models[1]]
    assert Status.INTERRUPTED in statuses
    message = str(caught[-1].message)
    assert "of 3 classes stopped early" in message
    assert "Ctrl-C ended the path: it has the 2 largest of 3 values of lam." in message
    assert all(record.filename == __file__ for record in caught)


def test_ctrl_c_before_all_problems_of_a_lam_are_certified():
    begun = []

    def press(k, checkpoint):
        if checkpoint.iteration == 0:
            begun.append(k)
        if begun == [0, 1, 2, 0, 1]:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="it has the 1 largest of 2 values of lam"):
        path = batchsvm.path(X, Y, [0.1, 1.0], random_state=0, callback=press)
    assert path.lams.tolist() == [1.0]
    with pytest.raises(KeyboardInterrupt):
        batchsvm.path(
            X, Y, [0.1], callback=lambda k, seen: (_ for _ in ()).throw(KeyboardInterrupt)
        )
