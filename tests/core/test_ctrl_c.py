"""Ctrl-C ends several fits as it ends one: promptly, with what is certified, and one warning."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV
from batchsvm.core import intercept
from batchsvm.core.parallel import StopFlag, in_parallel
from batchsvm.core.solution import Status
from batchsvm.models.fitting import fit_model

# Newton's method would end at rounding.
ENDLESS = {"tol": 0.0, "max_epochs": 1e9, "method": "aggressive", "batch_size": 1}


@pytest.fixture
def begun(monkeypatch):
    """The fits that were begun.  In number `begun.press` of them, Ctrl-C comes after its second
    certificate, when as many as `begun.side_by_side` have one."""

    class Begun(list):
        press, side_by_side = 0, 1

    begun, certified, train = Begun(), set(), intercept.train

    def pressed(data, problem, options, start, stop):
        k = len(begun)
        begun.append(k)

        def callback(_, checkpoint):
            certified.add(k)
            if k == begun.press and checkpoint.iteration > 0:
                while len(certified) < begun.side_by_side:
                    time.sleep(0.001)
                raise KeyboardInterrupt

        return train(data, problem, replace(options, callback=callback), start, stop)

    monkeypatch.setattr(intercept, "train", pressed)
    return begun


def test_a_model_of_several_classes_ends_as_a_whole(iris):
    begun = set()

    def callback(k, checkpoint):
        begun.add(k)
        if checkpoint.iteration > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="2 of 3 fits had no certified point yet"):
        fit_model(*iris, lam=1e-3, callback=callback, **ENDLESS)
    assert begun == {0}


def test_classes_not_begun_are_not_trained(iris, begun):
    begun.press = 1
    model = BatchSVC(lam=1e-3, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="1 of 3 fits had no certified point yet"):
        model.fit(*iris)
    assert len(begun) == 2
    assert not hasattr(model, "coef_")


def test_the_last_class_gives_back_its_best_point(iris, begun):
    begun.press = 2
    with pytest.warns(ConvergenceWarning) as caught:
        model = BatchSVC(lam=1e-4, tol=1e-9, random_state=0, max_epochs=1e5).fit(*iris)
    (sentence,) = (str(record.message) for record in caught)
    assert "interrupted from the keyboard" in sentence
    assert "set warm_start=True and fit again" in sentence
    assert model.coef_.shape == (3, 4)
    assert model.certificate_.worst_label == 2
    assert model.predict(iris[0]).shape == (150,)


@pytest.mark.parametrize("jobs", [2, 3])
def test_one_thread_ends_the_others(iris, begun, jobs):
    begun.side_by_side = jobs
    lam = 1e-9  # with more, a fit may come to the end of its digits before Ctrl-C
    model = BatchSVC(lam=lam, n_jobs=jobs, random_state=0, **ENDLESS)
    if jobs == 2:  # the third class has not begun
        with pytest.raises(KeyboardInterrupt, match="1 of 3"):
            model.fit(*iris)
        assert len(begun) == 2
        return
    X, y = iris
    with pytest.warns(ConvergenceWarning, match="3 of 3 classes stopped early") as caught:
        model.fit(X, y)
    assert len(caught) == 1
    for k in range(3):
        again = batchsvm.certify(
            X, y == k, np.append(model.coef_[k], model.intercept_[k]), model.dual_coef_[k],
            lam=lam, bias=1.0,
        )  # fmt: skip
        assert again == model.certificate_[k]


@pytest.mark.parametrize("jobs", [1, 2])
def test_cross_validation_ends(iris, begun, jobs):
    begun.side_by_side = jobs
    model = BatchSVCCV([1e-6, 1e-7], cv=3, n_jobs=jobs, random_state=0, **ENDLESS)
    X, y = iris
    with pytest.raises(KeyboardInterrupt, match="lam was not chosen yet"):
        model.fit(X, (y + 2) % 3)  # the class that is hard to tell from the others comes first
    assert len(begun) == jobs
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("how", [None, "penalised", "free"])
def test_a_path_has_the_points_that_were_begun(cancer, begun, how):
    begun.press = 1
    lams = [1e-4, 1e-2, 1e-1, 1e-3]
    tol = 1e-9 if how != "free" else 1e-1  # whose first problem is then its last
    with pytest.warns(ConvergenceWarning) as caught:
        path = batchsvm.path(*cancer, lams, intercept=how, tol=tol, max_epochs=1e5, random_state=0)
    (sentence,) = (str(record.message) for record in caught)
    assert "interrupted from the keyboard" in sentence
    assert "it has the 2 largest of 4 values of lam" in sentence
    assert caught[0].filename == __file__
    assert path.lams.tolist() == [1e-2, 1e-1]
    assert [model.solution.lam for model in path.models] == [1e-2, 1e-1]
    assert path.models[0].solution.status is Status.INTERRUPTED
    assert path.coefs.shape == (2, 30)


def test_a_path_keeps_its_points_when_the_next_has_none(cancer, monkeypatch):
    train, calls = intercept.train, []

    def pressed(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return train(*arguments)

    monkeypatch.setattr(intercept, "train", pressed)
    with pytest.warns(ConvergenceWarning, match="^Ctrl-C ended the path") as caught:
        path = batchsvm.path(*cancer, [1.0, 0.1, 0.01, 0.001], random_state=0)
    assert len(caught) == 1
    assert path.lams.tolist() == [1.0, 0.1]
    calls[:] = [None] * 2
    with pytest.raises(KeyboardInterrupt):
        batchsvm.path(*cancer, [1.0, 0.1], random_state=0)


def test_a_free_intercept_keeps_its_best_point(cancer):
    def press(checkpoint):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="pass this solution as initial"):
        path = batchsvm.path(
            *cancer, [1e-4], tol=1e-9, intercept="free", callback=press, random_state=0
        )
    [model] = path.models
    assert model.solution.status is Status.INTERRUPTED
    assert model.solution.certificate.gap < 1.0


def test_an_error_in_one_call_ends_the_others():
    ended, stop = [], StopFlag()

    def call(k):
        if k == 1:
            raise ValueError("on purpose")
        while not stop.is_set:
            time.sleep(0.01)
        ended.append(k)

    before = threading.active_count()
    with pytest.raises(ValueError, match="on purpose"):
        in_parallel(call, 5, 2, stop)
    assert ended == [0]
    assert threading.active_count() == before


SCRIPT = textwrap.dedent(
    """
    import warnings
    from sklearn.datasets import make_classification
    from dataclasses import replace
    from batchsvm import BatchSVC
    from batchsvm.core import intercept

    jobs, certified, train = {jobs}, set(), intercept.train

    def observed(data, problem, options, start, stop):
        def callback(_, checkpoint):
            if checkpoint.iteration > 0 and start.seed not in certified:
                certified.add(start.seed)
                if len(certified) == jobs:
                    print("all under way", flush=True)

        return train(data, problem, replace(options, callback=callback), start, stop)

    intercept.train = observed
    X, y = make_classification(5000, 50, n_informative=20, n_classes=3, random_state=0)
    model = BatchSVC(lam=1e-9, tol=0.0, max_epochs=1e9, n_jobs=jobs, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    print(len(caught), caught[0].message)
    """
)


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal on POSIX")
@pytest.mark.parametrize("jobs", [2, 3])
def test_a_real_ctrl_c(jobs):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(jobs=jobs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "all under way\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    if jobs == 2:  # the third class has not begun
        assert "KeyboardInterrupt: 1 of 3 fits had no certified point yet" in errors
        assert out == ""
    else:
        assert out.startswith("1 3 of 3 classes stopped early")
        assert "interrupted from the keyboard" in out
        assert "Traceback" not in errors
