"""Plots show what they say, the report page holds it all, ONNX agrees."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from types import SimpleNamespace

import matplotlib
import numpy as np
import onnxruntime
import pytest
from scipy.special import expit
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import batchsvm
from batchsvm import BatchSVC, BatchSVR
from batchsvm.displays import ConvergenceDisplay, ScheduleDisplay, SpeedupDisplay
from batchsvm.displays.panels import apart
from batchsvm.displays.report import in_words, make_report, write_report
from batchsvm.engines.screening import make_screening
from batchsvm.models.fitting import fit_model
from batchsvm.models.onnx import to_onnx
from helpers import toy

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def solution():
    X, y = toy("hinge", n=200)
    return batchsvm.fit(X, y, lam=1e-3, method="aggressive", batch_size=16, random_state=0)


def test_convergence(solution):
    display = ConvergenceDisplay.from_solution(solution)
    primal, dual, gap = display.lines_
    np.testing.assert_array_equal(primal.get_ydata(), solution.history.primal)
    np.testing.assert_array_equal(dual.get_ydata(), solution.history.dual)
    np.testing.assert_array_equal(gap.get_ydata(), solution.history.gap)
    np.testing.assert_array_equal(gap.get_xdata(), solution.history.epoch)
    assert display.axes_[1].get_yscale() == "log"
    seconds = ConvergenceDisplay.from_solution(solution, x="seconds")
    np.testing.assert_array_equal(seconds.lines_[2].get_xdata(), solution.history.seconds)
    again = ConvergenceDisplay.from_solution(solution, axes=display.axes_)
    assert again.figure_ is display.figure_
    with pytest.raises(ValueError, match="x must be 'epochs' or 'seconds', not 'time'"):
        display.plot(x="time")
    with pytest.raises(ValueError, match=r"axes must be two axes, .* not 1"):
        display.plot(axes=display.axes_[0])


@pytest.mark.parametrize("intercept", ["penalised", "free"])
def test_estimates_of_epochs_are_hollow_and_apart_from_certificates(cancer, intercept):
    serial = {"method": "aggressive", "batch_size": 1}
    model = BatchSVC(lam=1e-3, intercept=intercept, random_state=0, **serial).fit(*cancer)
    history = model.history_
    assert len(history) < 10 < len(history.estimates)
    assert (np.diff(history.estimates[:, 0]) > 0).all()
    display = ConvergenceDisplay.from_estimator(model)
    points = display.estimated_
    assert points.get_markerfacecolor() == "none"
    assert points.get_xdata().max() < history.epoch[-1]
    assert "proves nothing" in points.get_label()
    np.testing.assert_array_equal(display.lines_[2].get_xdata(), history.epoch)
    seconds = ConvergenceDisplay.from_estimator(model, x="seconds").estimated_.get_xdata()
    assert seconds.max() <= history.seconds[-1]
    certificate = model.certificate_
    assert f"{certificate.primal:.4g}"[:5] in display.axes_[0].get_title(loc="left")


def test_an_estimate_is_near_the_gap_where_no_row_is_left_out(cancer):
    X, y = cancer
    solution = batchsvm.fit(
        X, y, "logistic", 1e-2, tol=1e-6, checkpoints=list(range(569, 5690, 569)), random_state=0
    )
    history = solution.history
    for epoch, estimate in history.estimates[3:8]:
        gap = np.interp(epoch, history.epoch, history.gap)
        assert gap / 2 < estimate < 3 * gap


def test_of_very_many_epochs_some_estimates_are_kept():
    screening = make_screening(10, True, 1.0)
    for epoch in range(1, 2001):
        screening.store(0, 10.0, 1.0 / epoch, 0.0, 10.0)
        screening.end_epoch(0.0, 0.0)
    visits, gaps = screening.estimates.T
    assert 128 <= visits.size <= 256
    np.testing.assert_allclose(gaps, 10.0 / visits)
    assert np.unique(np.diff(visits)).size == 1
    assert visits[-1] > 19_000


def test_gaps_within_rounding_are_drawn_at_rounding():
    history = SimpleNamespace(
        epoch=np.arange(5), seconds=np.arange(5), primal=np.ones(5),
        dual=np.array([0.0, 0.5, 1.0, 1.0 + 1e-16, 1.0]), gap=np.array([1, 0.5, 0, -1e-16, 1e-17]),
    )  # fmt: skip
    display = ConvergenceDisplay.from_history(history, rounding=1e-15)
    assert display.lines_[2].get_ydata().tolist() == [1.0, 0.5, 1e-15, 1e-15, 1e-15]
    assert "rounding" in [text.get_text() for text in display.axes_[1].texts]
    unknown = ConvergenceDisplay.from_history(history).lines_[2].get_ydata()
    assert unknown.size == 5
    assert (unknown > 0).all()


def test_the_report_draws_every_gap(monkeypatch):
    """One row fits exactly: its gap is zero from the first step on."""
    model, _ = fit_model(np.eye(1), np.ones(1), "squared_hinge", lam=1.0, tol=0.0, warn=False)
    assert (model.history[0]["gap"] <= model.certificates[0].rounding).any()
    drawn = []
    plot = ConvergenceDisplay.plot
    monkeypatch.setattr(ConvergenceDisplay, "plot", lambda self: drawn.append(plot(self)) or self)
    make_report(model, {"rows": 1, "columns": 1})
    assert drawn[0].lines_[2].get_ydata().size == model.history[0]["gap"].size
    assert drawn[0].rounding == model.certificates[0].rounding


@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_tol_is_drawn_where_it_is(diabetes, intercept):
    X, y = diabetes
    model = BatchSVR("absolute", lam=0.1, intercept=intercept, tol=1e-2, random_state=0).fit(X, y)
    expected = 1e-2 * model.certificate_.primal
    assert ConvergenceDisplay.from_estimator(model).tol == pytest.approx(expected)


def test_tol_after_a_warm_start_is_drawn_where_it_is(solution):
    X, y = toy("hinge", n=200)
    again = batchsvm.fit(X, y, lam=1e-3, tol=1e-5, initial=solution, random_state=0)
    assert ConvergenceDisplay.from_solution(again).tol == 1e-5 * again.certificate.primal


def test_from_estimators(solution):
    one = SimpleNamespace(history_=solution.history, tol=1e-3)
    many = SimpleNamespace(history_=[solution.history, solution.history])
    assert ConvergenceDisplay.from_estimator(one).tol == 1e-3 * solution.history.primal.min()
    assert ScheduleDisplay.from_estimator(many, index=1).beta.size == len(solution.history)
    with pytest.raises(ValueError, match="index must be from 0 to 1, not 2"):
        ConvergenceDisplay.from_estimator(many, index=2)
    with pytest.raises(ValueError, match="have history_, but LinearSVC has none"):
        ConvergenceDisplay.from_estimator(LinearSVC())


def test_speedup_is_b_over_beta():
    X, _ = toy("hinge", n=100)
    plan = batchsvm.plan(X, lam=0.1)
    display = SpeedupDisplay.from_data(X, lam=0.1)
    for row in plan.table:
        where = np.flatnonzero(display.b == row.b)
        if where.size:
            assert display.speedup[where[0]] == pytest.approx(row.speedup)
    assert display.b[0] == 1
    assert display.b[-1] == 100
    marked = [line.get_xdata()[0] for line in display.axes_[1].lines if len(line.get_xdata()) == 2]
    assert marked == [pytest.approx(1 / plan.sigma2)]


def test_schedule(solution):
    display = ScheduleDisplay.from_solution(solution)
    np.testing.assert_array_equal(display.axes_[0].lines[0].get_ydata(), solution.history.beta)
    np.testing.assert_array_equal(display.axes_[1].lines[0].get_ydata(), solution.history.refused)
    X, y = toy("hinge")
    pegasos = batchsvm.fit(X, y, lam=0.1, method="pegasos", tol=0.5, random_state=0)
    assert "Pegasos" in ScheduleDisplay.from_solution(pegasos).axes_[0].texts[0].get_text()


def test_importing_the_package_imports_no_matplotlib():
    script = "import sys, batchsvm, batchsvm.displays; print('matplotlib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize("classes", [2, 3])
def test_the_report_is_one_page_that_needs_nothing(tmp_path, classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), np.array(["<a>", "b & c", "d"])[rng.integers(0, classes, 90)]
    model, _ = fit_model(X, y, lam=0.01, method="aggressive", batch_size=8, random_state=0)
    facts = {"file": "<data>.svm", "rows": 90, "columns": 4, "labels": ["<a>", "b & c", "d"]}
    write_report(tmp_path / "r.html", model, facts, ["u", "v<", "w", "x"])
    page = (tmp_path / "r.html").read_text()
    assert page == make_report(model, facts, ["u", "v<", "w", "x"])  # the same each time
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "&lt;a&gt;" in page
    assert "<a>" not in page
    assert "b &amp; c" in page
    worst = max(model.certificates, key=lambda c: c.relative_gap)
    low, high = apart(worst.dual, worst.primal)
    assert f"is {high}." in page
    assert f"below {low}," in page
    assert "computed exactly" in page
    assert "exactly exactly" not in page.replace("(exact)", "exactly")
    pictures = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)
    assert len(pictures) == 3
    for picture in pictures:
        ElementTree.fromstring(base64.b64decode(picture))
    assert page.count("<table") == page.count("</table>")


def test_the_certificate_in_words():
    certificate = batchsvm.Certificate(0.25, 0.24, 0.0, 1e-15, 3)
    assert "at most 0.01 above the best possible one" in in_words(certificate, 0.1)
    assert "4 % of its objective" in in_words(certificate, 0.1)
    assert "within the tolerance of 10 %" in in_words(certificate, 0.1)
    assert "more than the tolerance of 0.1 %" in in_words(certificate, 0.001)
    overflown = batchsvm.Certificate(np.inf, 0.0, np.inf, np.inf, 3)
    assert "nothing is known" in in_words(overflown, 0.1)


@pytest.mark.parametrize(
    "labels", [[-1.0, 1.0], [3, 5], ["no", "yes"], ["a", "b", "c"], [0, 1, 2, 3], None]
)
def test_onnx_predicts_the_same(tmp_path, labels):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 5)).astype(np.float32)
    if labels is None:
        y, loss = X @ np.arange(5.0) + 1, "huber"
    else:
        y, loss = np.array(labels)[rng.integers(0, len(labels), 200)], "logistic"
    model, _ = fit_model(X, y, loss, lam=0.01, random_state=0, intercept_scaling=1.0)
    content = to_onnx(model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == content
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options)
    outputs = session.run(None, {"X": X})
    scores = model.decision_function(X)
    if labels is None:
        np.testing.assert_allclose(outputs[0].ravel(), scores, rtol=1e-4, atol=1e-5)
        return
    clear = np.abs(scores if scores.ndim == 1 else np.diff(np.sort(scores), axis=1)[:, -1]) > 1e-5
    np.testing.assert_array_equal(np.asarray(outputs[0])[clear], model.predict(X)[clear])
    assert [output.name for output in session.get_outputs()] == ["label", "probabilities"]
    found = expit(np.column_stack([-scores, scores]) if scores.ndim == 1 else scores)
    np.testing.assert_allclose(outputs[1], found / found.sum(axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_onnx_of_a_pipeline(classes, loss):
    """Probabilities are called so where there are any."""
    rng = np.random.default_rng(2)
    X = (10.0 * rng.normal(size=(150, 4)) + 3).astype(np.float32)
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :classes], axis=1)]
    steps = [("scale", StandardScaler()), ("nothing", "passthrough"), ("few", PCA(3))]
    model = Pipeline([*steps, ("svm", BatchSVC(loss, lam=0.01, random_state=0))]).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(model))
    labels, found = session.run(None, {"X": X})
    if loss == "logistic":
        name, expected = "probabilities", model.predict_proba(X)
    else:
        name, expected = "scores", model.decision_function(X)
        expected = np.column_stack([-expected, expected]) if expected.ndim == 1 else expected
    assert [output.name for output in session.get_outputs()] == ["label", name]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert (np.asarray(labels) == model.predict(X)).mean() > 0.98


def test_onnx_of_a_pipeline_for_regression(diabetes):
    X, y = diabetes
    model = make_pipeline(StandardScaler(), BatchSVR(lam=0.1, random_state=0)).fit(X, y)
    found = onnxruntime.InferenceSession(to_onnx(model)).run(None, {"X": X.astype(np.float32)})
    np.testing.assert_allclose(found[0].ravel(), model.predict(X), rtol=1e-3)
    with pytest.raises(TypeError, match="a pipeline that ends in one, not StandardScaler"):
        to_onnx(make_pipeline(StandardScaler()).fit(X))


def test_onnx_of_estimators_and_solutions():
    X, y = toy("hinge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = LinearSVC().fit(X, y)
    solution = batchsvm.fit(X, y, lam=0.1, random_state=0)
    for model, expected in [
        (estimator, estimator.predict(X)),
        (solution, solution.classes[(X @ solution.w > 0).astype(int)]),
    ]:
        session = onnxruntime.InferenceSession(to_onnx(model))
        labels = session.run(["label"], {"X": X.astype(np.float32)})[0]
        assert (labels == expected).mean() > 0.98  # a row of zeros may go either way
    with pytest.raises(TypeError, match="must be a Model, a Solution, a fitted"):
        to_onnx(3)


def test_a_verdict_is_green_only_where_the_bound_is_small_beside_the_objective(diabetes):
    X, y = diabetes
    facts = {"rows": 442, "columns": 10, "labels": ["1", "2"]}
    close, _ = fit_model(X, y, "huber", lam=1e-3, tol=1e-3, random_state=0)
    rough = replace(
        close, certificates=(batchsvm.Certificate(1.0, 0.9, 0.0, 0.0, 3),),
        plan=replace(close.plan, tol=0.5),
    )  # fmt: skip
    assert 'class="verdict"' in make_report(rough, facts)
    page = make_report(close, facts)
    assert 'class="verdict good"' in page
    assert "classes" not in page  # the targets are numbers
    few = {"max_epochs": 1, "method": "safe"}
    short, _ = fit_model(X, y, "huber", lam=1e-6, tol=1e-6, warn=False, **few)
    assert 'class="verdict short"' in make_report(short, facts)
