"""train with weights of classes, intercepts, cross-validation, checkpoints and standard input, and
what predict, certify and info make of these models."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import batchsvm
from batchsvm import BatchSVC
from helpers import refused

COLUMNS = ("--columns", "a,b", "--lam", 0.05)


@pytest.fixture
def table(tmp_path):
    """A table with labels, weights, numbers, and a column that is none of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    kind = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0.6, "yes", "no")
    weight = rng.integers(1, 4, 120)
    price = X @ [3.0, -1.0] + 2 + 0.1 * rng.normal(size=120)
    lines = [
        f"{float(X[k, 0])!r},{float(X[k, 1])!r},{kind[k]},{weight[k]},{price[k]:.2f},{k % 25},x{k}"
        for k in range(120)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,kind,weight,price,grade,town", *lines, ""]))
    return X, kind, weight


def train(run, *arguments):
    status, out, err = run("train", "t.csv", "m", *COLUMNS, *arguments, "--json")
    assert status == 0, err
    return json.loads(out)


def certificates(run, *arguments):
    status, out, err = run("certify", "m", "t.csv", "--columns", "a,b", "--json", *arguments)
    assert status == 0, err
    return json.loads(out)["certificates"]


@pytest.mark.parametrize("intercept", ["0", "1.5", "free"])
@pytest.mark.parametrize("class_weight", ["balanced", "yes=3,no=0.5"])
def test_a_weighted_model_is_that_of_the_estimator_and_can_be_certified(
    run, table, intercept, class_weight
):
    X, kind, weight = table
    found = train(
        run, "--label", "kind", "--weights", "weight", "--class-weight", class_weight,
        "--intercept", intercept,
    )  # fmt: skip
    given = "balanced" if class_weight == "balanced" else {"yes": 3.0, "no": 0.5}
    model = BatchSVC(
        lam=0.05, class_weight=given, fit_intercept=intercept != "0",
        intercept="free" if intercept == "free" else "penalised",
        intercept_scaling=1.5, random_state=0,
    ).fit(X, kind, weight)  # fmt: skip
    saved = batchsvm.load("m")
    np.testing.assert_array_equal(saved.coef, model.coef_)
    np.testing.assert_array_equal(saved.class_weights, model.class_weight_)
    assert (saved.label, saved.weights) == ("kind", "weight")
    # The columns of labels and weights are known from training.
    [again], known = certificates(run), found["fits"][0]["certificate"]
    assert again["primal"] == pytest.approx(known["primal"], rel=1e-14)
    assert again["dual"] == pytest.approx(known["dual"], rel=1e-13)
    status, out, _ = run("info", "m")
    assert status == 0
    assert "--label kind, --weights weight" in out
    assert "class weights  no=" in out
    assert ("(free)" in out) == (intercept == "free")
    starts = {line.index(line.split("  ")[-1].strip()) for line in out.splitlines()[1:6]}
    assert len(starts) == 1  # what is said of each is in one column


def test_predict_knows_the_label_column_of_training(run, table):
    train(run, "--label", "kind")
    status, out, err = run("predict", "m", "t.csv", "--columns", "a,b")
    assert status == 0, err
    assert set(out.split()) == {"yes", "no"}
    assert err.startswith("accuracy 0.")
    said = refused(run("predict", "m", "t.csv"))
    assert said.endswith("to leave it out, name the features by --columns")
    np.savetxt("bare.csv", table[0], delimiter=",", header="a,b", comments="")
    status, out, err = run("predict", "m", "bare.csv")  # no labels, no accuracy
    assert (status, err) == (0, "")
    assert len(out.split()) == 120


def test_weights_of_other_formats_are_a_file(run, tmp_path):
    (tmp_path / "x").write_text("1 1:1 2:0.5\n-1 1:-1\n1 2:2\n-1 2:-1\n")
    (tmp_path / "w").write_text("1\n2\n3\n1\n")
    assert run("train", "x", "m", "--weights", "w", "--lam", 10)[0] == 0
    assert run("certify", "m", "x", "--weights", "w")[0] == 0
    said = refused(run("certify", "m", "x"))
    assert said.endswith("if m was trained with weights, give them by --weights")
    (tmp_path / "w").write_text("1\n2\n")
    assert "w: has 2 weights for 4 rows" in refused(run("train", "x", "m", "--weights", "w"))
    (tmp_path / "w").write_text("a\nb\nc\nd\n")
    assert "w: must hold numbers" in refused(run("train", "x", "m", "--weights", "w"))


def test_class_weights_that_name_nothing_are_refused(run, table):
    arguments = ("train", "t.csv", "m", *COLUMNS, "--label")
    said = refused(run(*arguments, "kind", "--class-weight", "maybe=2"))
    assert "--class-weight must name labels of DATA, which are no, yes, not 'maybe'" in said
    said = refused(run(*arguments, "price", "--loss", "huber", "--class-weight", "balanced"))
    assert "--class-weight must be left out for a regression loss" in said
    assert "must be 'balanced', or look like" in refused(
        run("train", "x", "m", "--class-weight", "3")
    )


def test_cross_validation_shows_every_lam_and_trains_with_the_best(run, table):
    X, kind, _ = table
    lams = "10,0.1,0.001"
    found = train(run, "--label", "kind", "--cv", 3, "--lams", lams)
    rows = found["cv"]["table"]
    assert [row["lam"] for row in rows] == [10.0, 0.1, 0.001]
    best = max(rows, key=lambda row: row["accuracy"])
    assert found["lam"] == found["cv"]["lam"] == best["lam"] != 0.05
    ours = batchsvm.BatchSVCCV([10, 0.1, 0.001], cv=3, fit_intercept=False, random_state=0)
    ours.fit(X, kind)
    np.testing.assert_allclose([row["accuracy"] for row in rows], ours.scores_.mean(axis=0))
    status, out, _ = run(
        "train", "t.csv", "m", *COLUMNS, "--label", "kind", "--cv", 3, "--lams", lams
    )
    assert status == 0
    assert out.splitlines()[1].split() == ["lam", "accuracy", "spread", "relative_gap"]
    assert sum("chosen" in line for line in out.splitlines()) == 1
    assert "--lams must come with --cv" in refused(run("train", "t.csv", "m", "--lams", "1,2"))
    said = refused(run("train", "t.csv", "m", "--loss", "huber", "--label", "price",
                       "--columns", "a,b", "--cv", 3))  # fmt: skip
    assert "--cv must be left out for a regression loss" in said


def test_numbers_as_classes_are_said_and_many_classes_are_summed_up(run, table):
    status, out, err = run("train", "t.csv", "m", *COLUMNS, "--label", "grade")
    assert status == 0
    assert err.startswith("batchsvm: the labels are numbers, which were taken as 25 classes")
    assert "use a regression loss" in err
    assert "25 classes (numbers): 0, 1, 2" in out
    assert out.count("\n") < 8
    assert "25 classes, each against the rest; the worst is class " in out
    assert "25 of 25 classes are within --tol" in out
    for command in (("certify", "m", "t.csv", "--columns", "a,b"), ("info", "m")):
        status, out, _ = run(*command)
        assert status == 0
        assert out.count("\n") < 16
        assert "np." not in out
        assert "25 classes, each against the rest; the worst is class " in out


def test_a_regression_has_no_classes(run, table):
    found = train(run, "--label", "price", "--loss", "squared_error", "--intercept", "free")
    assert found["data"]["labels"] is None
    assert len(certificates(run)) == 1
    status, out, err = run("predict", "m", "t.csv", "out", "--columns", "a,b")
    assert status == 0, err
    assert "mean absolute error 0." in out


def test_text_and_json_have_the_same_names(run, table):
    found = train(run, "--label", "kind")
    assert found["method"] == "serial SDCA"
    assert found["fits"][0]["status"] == "converged"
    known = json.loads(run("info", "m", "--json")[1])
    text = run("info", "m")[1]
    assert known["method"] == "serial SDCA"
    assert known["statuses"] == ["converged"]
    for name in ("loss", "lam", "method", "classes", "nonzeros", "intercept"):
        assert name in known
        assert f"\n  {name} " in text


@pytest.fixture
def typed(monkeypatch):
    def typed(data):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    return typed


def test_standard_input(run, table, tmp_path, typed):
    data = (tmp_path / "t.csv").read_bytes()
    expected = train(run, "--label", "kind")
    typed(data)
    status, out, err = run("train", "-", "n", *COLUMNS, "--label", "kind", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["data"]["file"] == "-"
    assert found["fits"][0]["certificate"] == expected["fits"][0]["certificate"]
    typed(data)
    status, out, err = run("predict", "n", "-", "--columns", "a,b")
    assert (status, len(out.split())) == (0, 120)
    typed(b"1 1:2\n-1 1:x\n")
    said = refused(run("train", "-", "n"))
    assert said.startswith("-:2: ")
    typed(b"PK\x03\x04")
    assert "LIBSVM text or CSV on standard input" in refused(run("train", "-", "n"))


@pytest.mark.filterwarnings("default")
def test_a_checkpoint_is_gone_on_from(run, tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f"{1 if x[0] > 0.2 else -1} 1:{x[0]:.4f} 2:{x[1]:.4f}\n" for x in rng.normal(size=(300, 2))
    ]
    (tmp_path / "x").write_text("".join(lines))
    how = ("train", "x", "m", "--lam", 0.01, "--checkpoint", "saved", "--tol", 1e-9, "--json")
    status, out, err = run(*how, "--max-epochs", 3)
    assert status == 1, err
    first = json.loads(out)["fits"][0]
    assert (tmp_path / "saved").exists()
    status, out, err = run(*how, "--max-epochs", 400)
    second = json.loads(out)["fits"][0]
    assert second["epochs"] > first["epochs"]
    assert second["certificate"]["gap"] <= first["certificate"]["gap"]
    said = refused(run("train", "x", "m", "--lam", 0.02, "--checkpoint", "saved", "--tol", 1e-9))
    assert said.startswith("--checkpoint must be a file of the same training")
    assert "must be another file than" in refused(run("train", "x", "m", "--checkpoint", "x"))
    said = refused(run("train", "x", "m", "--checkpoint", "saved", "--engine", "cpu"))
    assert said.startswith("--engine must be auto, streamed or ray for DATA")


def test_a_report_has_a_curve_unless_newtons_method_is_likely(run, tmp_path):
    """Many certificates of SDCA; Newton's iterations are few."""
    pytest.importorskip("matplotlib")
    X = np.random.default_rng(0).normal(size=(2000, 10))
    y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
    for kind, factor in (("sdca", 1.0), ("newton", 1e4)):
        np.savez(tmp_path / f"{kind}.npz", X=factor * X, y=y)
        report = ("--lam", 0.1, "--report", f"{kind}.html")
        status, _, err = run("train", f"{kind}.npz", kind, *report)
        assert status in (0, 1), err
        model = batchsvm.load(kind)
        plan = batchsvm.plan(factor * X, y, lam=0.1)
        assert "newton" in (plan.method, plan.fallback)
        assert (plan.method == "newton" or plan.is_trial) == (kind == "newton")
        quarters = model.history[0]["epoch"][1:4].tolist() == [0.25, 0.5, 0.75]
        assert quarters == (kind == "sdca")
