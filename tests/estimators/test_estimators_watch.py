"""Who watches a fit: the progress bar, and scikit-learn's callbacks where they exist."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

from batchsvm import BatchSVC, BatchSVCCV, BatchSVR
from batchsvm.core.certificate import Certificate
from batchsvm.core.progress import GapMeter
from batchsvm.core.solution import Checkpoint

try:
    from sklearn import callback
except ImportError:
    callback = None
needs_callbacks = pytest.mark.skipif(callback is None, reason="needs scikit-learn 1.9")


class Recorder:
    """A callback that keeps what it was told, and asks to stop at the end of some task."""

    def __init__(self, stop_at=None):
        self.seen, self.stop_at = [], stop_at

    def setup(self, estimator, context):
        self.seen.append(("setup", None, None))

    def teardown(self, estimator, context):
        self.seen.append(("teardown", None, None))

    def on_fit_task_begin(self, estimator, context):
        self.seen.append(("begin", context.task_name, None))

    def on_fit_task_end(self, estimator, context, *, X, y, metadata, fitted_estimator):
        score = fitted_estimator.score(X, y)
        self.seen.append(("end", context.task_name, score))
        return context.task_name == self.stop_at

    def count(self, what, task=None):
        return sum(1 for w, t, _ in self.seen if w == what and task in (None, t))


@needs_callbacks
def test_a_task_for_every_certificate(cancer):
    X, y = cancer
    recorder = Recorder()
    model = BatchSVC(lam=1e-3, random_state=0).set_callbacks(recorder).fit(X, y)
    assert recorder.seen[0][0] == "setup"
    assert recorder.seen[-1][0] == "teardown"
    assert recorder.count("end", "certificate") == len(model.history_)
    assert recorder.count("begin") == recorder.count("end") == len(model.history_) + 1
    last = [score for what, task, score in recorder.seen if what == "end"][-1]
    assert last == model.score(X, y)
    plain = BatchSVC(lam=1e-3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(plain.coef_, model.coef_)


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_task_for_every_class(n_jobs):
    X, y = load_iris(return_X_y=True)
    recorder = Recorder()
    model = BatchSVC(random_state=0, n_jobs=n_jobs).set_callbacks(recorder).fit(X, y)
    for label in range(3):
        assert recorder.count("begin", f"class {label}") == 1
        assert recorder.count("end", f"class {label}") == 1
    assert recorder.count("end", "certificate") == sum(len(h) for h in model.history_)


@needs_callbacks
@pytest.mark.parametrize("intercept", ["penalised", "free"])
def test_a_callback_stops_the_fit_by_its_result(cancer, intercept):
    X, y = cancer
    recorder = Recorder(stop_at="certificate")
    # A larger tol is reached by the first certificate of a free intercept.
    model = BatchSVC(lam=1e-5, tol=1e-10, intercept=intercept, random_state=0)
    model.set_callbacks(recorder).fit(X, y)  # without a warning: somebody wanted it so
    assert recorder.count("end", "certificate") == 1
    assert model.certificate_.relative_gap > 1e-10
    assert model.predict(X).shape == y.shape


@needs_callbacks
def test_scoring_monitor_and_progress_bar(cancer, capsys):
    X, y = cancer
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = BatchSVC(lam=1e-3, intercept="free", tol=1e-6, random_state=0)
    model.set_callbacks(monitor, callback.ProgressBar()).fit(X, y)
    log = monitor.get_logs()
    rows = [row for row in log.data if row["task_name"] == "certificate"]
    assert len(rows) == len(model.history_)
    assert rows[-1]["accuracy"] == pytest.approx(model.score(X, y), abs=0.01)
    regression = BatchSVR(lam=1e-2, random_state=0)
    regression.set_callbacks(callback.ScoringMonitor(scoring="r2")).fit(X, y.astype(float))


@needs_callbacks
def test_callbacks_reach_us_through_a_search(cancer):
    X, y = cancer
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = BatchSVC(random_state=0).set_callbacks(monitor)
    GridSearchCV(model, {"C": [0.01, 0.1]}, cv=2).fit(X, y)
    choosing = BatchSVCCV([0.1, 0.01], cv=2, random_state=0).set_callbacks(Recorder())
    choosing.fit(X, y)


@needs_callbacks
def test_a_failing_callback_is_torn_down(cancer):
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise RuntimeError("on purpose")

    failing = Failing()
    model = BatchSVC(lam=0.1).set_callbacks(failing)
    with pytest.raises(RuntimeError, match="on purpose"):
        model.fit(*cancer)
    assert failing.seen[-1][0] == "teardown"


def test_without_callbacks_there_is_none_to_set():
    assert hasattr(BatchSVC(), "set_callbacks") == (callback is not None)


@pytest.mark.parametrize("intercept", ["penalised", "free"])
def test_verbose_shows_the_gap(cancer, capsys, intercept):
    X, y = cancer
    BatchSVC(lam=1e-2, intercept=intercept, random_state=0, verbose=1).fit(X, y)
    shown = capsys.readouterr().err
    assert "gap" in shown
    assert "tol 0.001" in shown
    assert "epoch" in shown
    BatchSVC(lam=1e-2, random_state=0).fit(X, y)
    assert capsys.readouterr().err == ""


def test_verbose_shows_one_bar_for_all_classes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    X, y = load_iris(return_X_y=True)
    BatchSVC(random_state=0, verbose=True).fit(X, np.array(["u", "[v]", "w"])[y])
    shown = capsys.readouterr().err.strip().splitlines()
    assert "3 of 3 done, class '" in shown[-1]
    assert len(shown) == 1


def seen(gap):
    return Checkpoint(1, 1.0, 0.0, Certificate(1.0, 1.0 - gap, 0.0, 0.0, 1), None, None)


def test_the_meter_measures_the_gap():
    meter, shares = GapMeter(["fit"], tol=1e-4), []
    for gap in (1.0, 1e-2, 1.0, 1e-4, 1e-9, 2.0):
        meter.see(0, seen(gap))
        shares.append(meter.share)
    np.testing.assert_allclose(shares, [0.0, 0.5, 0.5, 1.0, 1.0, 1.0])  # it does not go back
    exact = GapMeter(["fit"], tol=0.0)
    exact.see(0, seen(1.0))
    assert exact.share == 0.0
    lost = GapMeter(["fit"], tol=1e-4)
    lost.see(0, seen(np.inf))
    assert lost.share == 0.0


def test_the_meter_of_several_problems_names_the_worst():
    meter = GapMeter(["class 'a'", "class 'b'"], tol=1e-2)
    assert meter.words == "0 of 2 done, class 'a': gap 1, tol 0.01, epoch 0"
    for k, gap in ((0, 1.0), (1, 1.0), (1, 1e-3), (0, 0.1)):
        meter.see(k, seen(gap))
    assert meter.share == pytest.approx(0.75)
    assert meter.words == "1 of 2 done, class 'a': gap 0.1, tol 0.01, epoch 1"
