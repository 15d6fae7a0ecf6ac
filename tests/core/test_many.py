"""Placed data and many problems on them."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR, Status
from batchsvm.engines import ENGINES
from device import DeviceDataset
from helpers import LAM, csr, toy

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)


def same(one, other):
    np.testing.assert_array_equal(one.w, other.w)
    np.testing.assert_array_equal(one.alpha, other.alpha)
    assert one.certificate == other.certificate


@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_labels_are_taken_one_against_the_rest(intercept, jobs):
    labels = np.array(["a", "b", "c"])[Y]
    solutions = batchsvm.fit_many(
        X, labels, lam=LAM, intercept=intercept, scaling=2.0, random_state=7, n_jobs=jobs
    )
    assert len(solutions) == 3
    assert solutions.coef.shape == (3, 4)
    assert solutions.classes.tolist() == ["a", "b", "c"]
    for k, label in enumerate("abc"):
        path = batchsvm.path(
            X, labels == label, [LAM], intercept=intercept, scaling=2.0, random_state=7 + k
        )
        same(solutions[k], path.models[0].solution)
        np.testing.assert_array_equal(solutions.coef[k], path.coefs[0])
        assert solutions.intercept[k] == path.intercepts[0]
    assert solutions.worst == max(solutions.certificates, key=lambda c: c.relative_gap)
    assert "3 problems, 3 within tol" in str(solutions)


def test_two_classes_are_one_problem_and_one_class_is_one():
    binary = batchsvm.fit_many(X, Y == 1, lam=LAM, random_state=0)
    assert len(binary) == 1
    same(binary[0], batchsvm.fit(X, Y == 1, lam=LAM, random_state=0))
    assert binary[0].classes.tolist() == [False, True]
    single = batchsvm.fit_many(X, np.full(150, -3), lam=LAM, random_state=0)
    same(single[0], batchsvm.fit(X, np.full(150, -3), lam=LAM, random_state=0))


def test_columns_and_values_of_lam_are_problems():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(150, 3))
    weights = rng.random((150, 3))
    found = batchsvm.fit_many(
        X, columns, "absolute", [0.1, 0.2, 0.3], sample_weight=weights, random_state=1
    )
    for k in range(3):
        same(found[k], batchsvm.fit(
            X, columns[:, k], "absolute", 0.1 * (k + 1) if k != 2 else 0.3,
            sample_weight=weights[:, k], random_state=1 + k,
        ))  # fmt: skip
    lams = batchsvm.fit_many(X, Y == 1, lam=[0.1, 0.01], random_state=0)
    assert [solution.lam for solution in lams] == [0.1, 0.01]
    assert [solution.plan.lam for solution in lams] == [0.1, 0.01]
    numbers = batchsvm.fit_many(X, columns[:, 0], "huber", 0.1, random_state=0)
    same(numbers[0], batchsvm.fit(X, columns[:, 0], "huber", 0.1, random_state=0))


def test_weights_of_each_class():
    weights = np.random.default_rng(0).random((150, 3))
    found = batchsvm.fit_many(X, Y, lam=LAM, sample_weight=weights, random_state=0)
    for k in range(3):
        one = batchsvm.fit(X, Y == k, lam=LAM, sample_weight=weights[:, k], random_state=k)
        same(found[k], one)


def test_many_go_on_from_where_they_were():
    rough = batchsvm.fit_many(X, Y, lam=1e-3, tol=1e-1, intercept="free", random_state=0)
    fine = batchsvm.fit_many(
        X, Y, lam=1e-3, tol=1e-6, intercept="free", initial=rough, random_state=0
    )
    afresh, again = (
        batchsvm.fit_many(
            X, Y, lam=1e-3, tol=1e-5, intercept="free", initial=initial, random_state=0
        )
        for initial in (None, fine)
    )
    assert all(solution.status is Status.CONVERGED for solution in fine)
    for one, other in zip(again, afresh, strict=True):
        assert one.history.epoch[-1] <= other.history.epoch[-1] / 4


def test_one_warning_for_all_problems():
    with pytest.warns(ConvergenceWarning, match="3 of 3 classes stopped early") as w:
        batchsvm.fit_many(X, Y, lam=1e-6, max_epochs=1, random_state=0)
    assert len(w) == 1
    assert w[0].filename == __file__


def test_a_callback_stops_its_own_problem():
    calls = []

    def callback(k, seen):
        calls.append(k)
        return k == 1

    found = batchsvm.fit_many(X, Y, lam=LAM, random_state=0, callback=callback)
    assert {0, 1, 2} == set(calls)
    expected = [Status.CONVERGED, Status.STOPPED, Status.CONVERGED]
    assert [solution.status for solution in found] == expected


def test_points_of_many_problems_are_kept_by_one_call():
    rows, y = toy("hinge")
    data, seen, at = DeviceDataset(rows), [], list(range(60, 600, 60))
    columns, lams = np.column_stack([y, -y, y[::-1]]), [1e-2, 1e-3, 1e-4]
    found = batchsvm.fit_many(
        data, columns, lam=lams, method="pegasos", batch_size=1, tol=0, max_epochs=10,
        checkpoints=at, random_state=0, warn=False, callback=lambda k, c: seen.append(k),
    )  # fmt: skip
    [trainer] = data.trainers
    assert trainer.kept["primal"] <= 11
    assert trainer.kept["dual"] <= 11
    assert seen == [0, 1, 2] * 11
    for k, solution in enumerate(found):
        history = solution.history
        assert history.iteration.tolist() == [0, *at, 600]
        again = batchsvm.certify(
            rows, columns[:, k], solution.w, solution.alpha, lam=lams[k], engine="reference"
        )
        assert again == solution.certificate
        better_w = np.diff(np.minimum.accumulate(history.primal)) < 0
        better_alpha = np.diff(np.maximum.accumulate(history.dual)) > 0
        assert (better_w != better_alpha).any()  # one of the two is kept without the other


def test_ctrl_c_in_a_callback_leaves_the_points_of_all_problems_kept():
    def press(k, checkpoint):
        if checkpoint.iteration > 0:
            raise KeyboardInterrupt

    rows, y = toy("hinge")
    columns, lams = np.column_stack([y, y[::-1]]), [1e-2, 1e-3]
    found = batchsvm.fit_many(
        rows, columns, lam=lams, tol=0, checkpoints=[300], random_state=0, warn=False,
        callback=press, engine="reference",
    )  # fmt: skip
    for k, solution in enumerate(found):
        assert solution.status is Status.INTERRUPTED
        assert solution.history.iteration[:2].tolist() == [0, 300]
        again = batchsvm.certify(rows, columns[:, k], solution.w, solution.alpha, lam=lams[k])
        assert again.gap == pytest.approx(solution.certificate.gap)
        assert again.gap < 0.9  # and not where training began, at 1


BAD = [
    ({"targets": Y[:5]}, r"targets must have shape \(150,\) or \(150, K\)"),
    ({"targets": np.zeros((150, 0))}, "targets must have shape"),
    (
        {"targets": Y, "lam": [0.1, 0.2]},
        "lam must be a number or 3 numbers, one per problem",
    ),
    ({"targets": Y, "lam": [0.1, -0.2, 1]}, "lam must hold at least one number, and positive"),
    ({"targets": Y, "lam": -1.0}, "lam must be a finite positive number, not -1.0"),
    ({"targets": Y, "intercept": "fre"}, "intercept must be one of .* did you mean 'free'"),
    ({"targets": Y, "scaling": 0.0}, "scaling must be a finite positive number"),
    ({"targets": Y, "initial": 3}, "initial must be Solutions of 3 problems, not int"),
    ({"targets": Y, "callback": 3}, "callback must be callable or None"),
    ({"targets": Y, "sample_weight": np.ones((150, 2))}, "sample_weight must have shape"),
    ({"targets": np.where(Y == 1, np.nan, 1.0)}, "^targets must be finite, but it holds nan"),
    ({"targets": Y, "verbose": -1}, "verbose must be 0 for silence"),
    ({"targets": list("abc" * 50), "loss": "huber"}, "^targets must hold numbers"),
]


def columns(place, value, start=1.0):
    """Three columns, of which one holds a value at row 7, or everywhere."""
    found = np.full((150, 3), start)
    found[7 if place == "entry" else slice(None), 1] = value
    return found


SIGNS = np.where(Y == 1, 1.0, -1.0)
# Which of several columns is wrong.
BAD_COLUMNS = [
    ({"targets": np.c_[SIGNS, Y]}, "column 1 of targets must have two classes .* not 3"),
    ({"targets": np.c_[SIGNS, SIGNS * np.inf]}, "column 1 of targets must be finite, but it holds"),
    (
        {"targets": np.array([[1, "a"], [2, 3.0]] * 75, object)},
        "column 1 of targets must hold labels of one kind",
    ),
    (
        {"targets": columns("entry", np.nan), "loss": "absolute"},
        "column 1 of targets must be finite, but entry 7 is nan$",
    ),
    (
        {"targets": columns("all", 1e308), "loss": "absolute"},
        "column 1 of targets must have a finite mean loss",
    ),
    (
        {"targets": Y, "sample_weight": columns("entry", np.nan)},
        "column 1 of sample_weight must be finite and not negative, but entry 7 is nan$",
    ),
    (
        {"targets": Y, "sample_weight": columns("entry", -2.0)},
        r"column 1 of sample_weight must be finite and not negative, but entry 7 is -2\.0$",
    ),
    (
        {"targets": Y, "sample_weight": columns("all", 0.0)},
        "column 1 of sample_weight must not be zero everywhere",
    ),
    (
        {"targets": Y, "sample_weight": columns("entry", 1e-200)},
        r"column 1 of sample_weight must be 0 or between .* reaches from 1e-200 to 1\.0$",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "message"), BAD_COLUMNS, ids=[m[12:50] for _, m in BAD_COLUMNS]
)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_column_that_is_wrong_is_named(arguments, message, engine):
    with pytest.raises(ValueError, match=f"^{message}"):
        batchsvm.fit_many(X, engine=engine, **arguments)


def test_a_path_names_the_column_of_y():
    with pytest.raises(ValueError, match=r"^column 1 of y must have two classes"):
        batchsvm.path(X, np.c_[SIGNS, Y], [0.1])


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[m[:30] for _, m in BAD])
def test_bad_arguments_of_many(arguments, message):
    with pytest.raises(ValueError, match=message):
        batchsvm.fit_many(X, **arguments)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_every_function_takes_placed_data(form):
    data, y = toy("hinge")
    data = data if form == "dense" else csr(data, np.float64, np.int32)
    with batchsvm.place(data) as placed:
        one, other = (batchsvm.fit(d, y, lam=LAM, random_state=0) for d in (data, placed))
        same(one, other)
        again = batchsvm.certify(placed, y, one.w, one.alpha, lam=LAM)
        assert again == one.certificate
        assert batchsvm.sigma2(placed) == batchsvm.sigma2(data)
        assert str(batchsvm.plan(placed, lam=LAM)) == str(batchsvm.plan(data, lam=LAM))
        paths = [batchsvm.path(d, y, [0.1, 0.01], random_state=0) for d in (data, placed)]
        np.testing.assert_array_equal(paths[0].coefs, paths[1].coefs)
        for make in (
            lambda: BatchSVC(lam=LAM, random_state=0),
            lambda: BatchSVR(lam=LAM, random_state=0),
            lambda: BatchSVCCV([0.1, 0.01], cv=3, random_state=0),
        ):
            models = [make().fit(d, y) for d in (data, placed)]
            np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
            predicted = [models[0].predict(data), models[1].predict(placed)]
            np.testing.assert_allclose(*predicted, rtol=1e-12)


def test_what_placed_data_refuse():
    data, y = toy("hinge")
    placed = batchsvm.place(data)
    with pytest.raises(ValueError, match=r"engine must be 'auto' for placed data, .* not 'cpu'"):
        batchsvm.fit(placed, y, engine="cpu")
    with pytest.raises(ValueError, match=r"n_jobs must be None for placed data, .* not 2"):
        batchsvm.sigma2(placed, n_jobs=2)
    with pytest.raises(ValueError, match="n_jobs must be None for placed data"):
        BatchSVC(n_jobs=2).fit(placed, y)
    with pytest.raises(ValueError, match="y must have 60 entries, one per row of X, not 5"):
        BatchSVC().fit(placed, y[:5])
    with pytest.raises(ValueError, match="for partial_fit, not placed data"):
        BatchSVC().partial_fit(placed, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="engine must be one of 'auto', 'cpu', 'reference'"):
        batchsvm.place(data, engine="cuda")
    model = BatchSVC(lam=LAM).fit(placed, y)
    with pytest.raises(ValueError, match="X must have 6 columns, as in fit, not 3"):
        model.predict(batchsvm.place(data[:, :3]))
    placed.close()
    closed = "^this data set is closed: place X again to use it$"
    for use in (
        lambda: batchsvm.fit(placed, y), lambda: batchsvm.plan(placed),
        lambda: batchsvm.sigma2(placed), lambda: model.predict(placed),
        lambda: batchsvm.fit_many(placed, y), lambda: placed.share(2),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=closed):
            use()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_placed_data_are_not_pickled(engine, copied):
    sentence = r"^placed data cannot be pickled or copied: .* by batchsvm\.place\(X\)$"
    with batchsvm.place(X, engine=engine) as data:
        with pytest.raises(TypeError, match=sentence):
            copied(data)
        assert batchsvm.fit(data, Y == 1, lam=0.1).status.converged  # they go on as they were


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_threads_may_share_placed_data(jobs):
    data, y = toy("hinge", n=300)
    lams = [0.1, 0.05, 0.02, 0.01, 0.005, 0.002]
    with batchsvm.place(data, n_jobs=jobs) as placed:
        alone = [batchsvm.fit(placed, y, lam=lam, random_state=0) for lam in lams]
        together = [None] * len(lams)

        def work(k):
            together[k] = batchsvm.fit(placed, y, lam=lams[k], random_state=0)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(len(lams))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for one, other in zip(alone, together, strict=True):
        same(one, other)


def test_sigma2_is_measured_once_for_placed_data(monkeypatch):
    from batchsvm.core import spectral

    measured, measure = [], spectral._measure
    monkeypatch.setattr(spectral, "_measure", lambda *a: measured.append(a) or measure(*a))
    batchsvm.fit_many(X, Y, lam=LAM, random_state=0)
    batchsvm.path(X, Y == 1, [0.1, 0.05, 0.01], random_state=0)
    assert len(measured) == 2
