"""What the gpu engine does where the memory of its device is short, and what it keeps."""

from __future__ import annotations

import copy
import pickle
import weakref

import numpy as np
import pytest

import batchsvm
from batchsvm.core.device_layout import DeviceWork, memory_of
from batchsvm.core.options import FitOptions
from batchsvm.core.problem import make_problem
from batchsvm.core.training import Start, train
from batchsvm.engines import place_on
from batchsvm.engines.gpu import gram
from batchsvm.losses import LOSSES
from batchsvm.methods import Gram
from helpers import toy
from simulated import SimulatedKernels, place_simulated

X, _ = toy("hinge", n=90, d=5)
LABELS = np.random.default_rng(0).integers(0, 6, 90)
FIT = {"lam": 0.05, "tol": 1e-4, "random_state": 0}


def test_problems_are_trained_in_groups_where_not_all_fit(monkeypatch):
    seen = []
    make = gram.GramTrainer.__init__

    def note(self, data, problem, facts):
        seen.append(problem.k)
        make(self, data, problem, facts)

    monkeypatch.setattr(gram.GramTrainer, "__init__", note)
    with place_simulated(X) as data:
        monkeypatch.setattr(type(data), "problems_at_once", lambda self, method=None: 4)
        numbers = []
        found = batchsvm.fit_many(
            data, LABELS, callback=lambda k, checkpoint: numbers.append(k), **FIT
        )
        assert seen == [4, 2]
        assert set(numbers) == set(range(6))
        assert found.worst.relative_gap <= 1e-4
    alone = batchsvm.fit_many(X, LABELS, engine="reference", **FIT)
    np.testing.assert_allclose(found.coef, alone.coef, atol=0.02)


def test_gram_matrices_computed_in_each_round_give_the_same_run(monkeypatch):
    found = []
    for free in (2**33, None):
        with place_simulated(X) as data:
            if free is None:
                work = DeviceWork(90, 5, data.nonzeros, 6, data.device_size, "float64")
                total = memory_of(work, 32, 2, keeps_gram=False).total
                data.device.memory = data.device.memory._replace(free=int(total / 0.9) + 100)
            problem = make_problem(data.targets(LABELS, None, None, 6), LOSSES["hinge"](), 0.05)
            options = FitOptions(Gram(batches=2), 32, tol=1e-4, max_epochs=40, precision="float64")
            solutions = train(data, problem, options, Start(0))
            found.append(np.array([solution.w for solution in solutions]))
            reason = solutions[0].plan.reason
            assert ("for want of room" in reason) == (free is None)
    np.testing.assert_allclose(*found, atol=1e-12)


def test_alpha_outlives_data_that_fit_has_placed_and_goes_with_data_of_the_caller():
    y = np.where(LABELS > 2, 1, -1)
    own = batchsvm.fit(X, y, engine="gpu", **FIT)
    assert own.alpha.shape == (90,)
    with place_on("gpu", X, 1) as data:
        kept, lost = (batchsvm.fit(data, y, **FIT) for _ in range(2))
        alpha = kept.alpha
    np.testing.assert_array_equal(kept.alpha, alpha)
    with pytest.raises(ValueError, match=r"^alpha is gone with its data set, which is closed"):
        lost.alpha  # noqa: B018
    assert lost.certificate.relative_gap <= 1e-4


def test_solutions_and_estimators_are_pickled_with_their_alpha():
    y = np.where(LABELS > 2, 1, -1)
    solution = batchsvm.fit(X, y, engine="gpu", **FIT)
    for other in (pickle.loads(pickle.dumps(solution)), copy.deepcopy(solution)):
        np.testing.assert_array_equal(other.alpha, solution.alpha)
    model = batchsvm.BatchSVC(engine="gpu", lam=0.05, random_state=0).fit(X, LABELS)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
    assert model.dual_coef_.shape == (6, 90)


def test_folds_are_trained_side_by_side():
    labels = np.argmax(X[:, :3], axis=1)  # which can be learnt: scores of noise depend on roundings
    found = {
        engine: batchsvm.BatchSVCCV(
            engine=engine, lams=[0.1, 0.03], cv=3, random_state=0, tol=1e-4
        ).fit(X, labels)
        for engine in ("gpu", "cpu")
    }
    np.testing.assert_allclose(found["gpu"].scores_, found["cpu"].scores_, atol=0.1)
    assert found["gpu"].gaps_.max() <= 1e-4


def test_passes_keep_no_work_space(monkeypatch):
    spaces = []
    gather = SimulatedKernels.gather

    def noted(self, rows, cut, out, state=None):
        spaces.append(weakref.ref(out if out.base is None else out.base))
        gather(self, rows, cut, out, state)

    monkeypatch.setattr(SimulatedKernels, "gather", noted)
    with place_simulated(X) as data:
        data.scores(np.ones((5, 9)))
        data.gram_times(np.ones((5, 9)))
        assert len(spaces) >= 2
        assert not any(space() is not None for space in spaces)


def test_data_larger_than_the_device_are_refused_before_anything_is_uploaded():
    with pytest.raises(ValueError, match=r"X of shape \(90, 5\) takes .* has .* GiB free"):
        place_simulated(X, free=100)
