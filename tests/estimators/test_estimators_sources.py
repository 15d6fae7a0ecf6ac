"""Estimators on sources: the same models as in memory, and one sentence for what needs memory."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_requires_y_none

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR
from batchsvm.engines import placing
from batchsvm.files import write

NAMES = ["a", "b", "c", "d"]
HOW = {"C": 0.02, "tol": 1e-3, "random_state": 0}


def made_up(n=240):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, len(NAMES)))
    score = X @ [2.0, -1.0, 0.5, 0.0] + 0.5 + 0.3 * rng.normal(size=n)
    return X, score, rng.integers(1, 4, n).astype(float)


X, SCORE, WEIGHTS = made_up()
TWO = np.where(SCORE > 1.5, "yes", "no")
THREE = np.digitize(SCORE, [-1, 2]) * 2


def in_chunks(*columns):
    return [tuple(column[k : k + 70] for column in columns) for k in range(0, len(X), 70)]


@pytest.fixture(autouse=True, params=["cpu", "streamed"])
def engine(request, monkeypatch):
    """The engine that trains on a source: that of rows in memory if they fit."""
    if request.param == "streamed":
        monkeypatch.setattr(placing, "IN_MEMORY_SHARE", 0.0)
    return request.param


@pytest.fixture
def folder(tmp_path):
    """Tables in a folder: features, two kinds of labels, targets, weights."""
    for number, (x, two, three, score, weights) in enumerate(
        in_chunks(X, TWO, THREE, SCORE, WEIGHTS)
    ):
        lines = [",".join([*NAMES, "two", "three", "score", "count"])]
        lines += [
            ",".join(map(str, [*row[0], *row[1:]]))
            for row in zip(x.tolist(), two, three, score.tolist(), weights.tolist(), strict=True)
        ]
        (tmp_path / f"{number}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def assert_same_optimum(ours, theirs):
    """What is proven of the one does not contradict what is proven of the other."""
    pairs = [(ours.certificate_, theirs.certificate_)]
    if isinstance(ours.certificate_, tuple):
        pairs = zip(ours.certificate_, theirs.certificate_, strict=True)
    for one, other in pairs:
        assert one.dual_below <= other.primal_above
        assert other.dual_below <= one.primal_above
        assert one.relative_gap <= 1e-3
    assert ours.lam_ == pytest.approx(theirs.lam_)
    assert ours.C_ == pytest.approx(theirs.C_)


@pytest.mark.parametrize("y", [TWO, THREE])
@pytest.mark.parametrize("intercept", ["penalised", "free"])
def test_chunks_bring_their_labels(y, intercept):
    ours = BatchSVC(intercept=intercept, **HOW).fit(in_chunks(X, y))
    theirs = BatchSVC(intercept=intercept, **HOW).fit(X, y)
    assert_same_optimum(ours, theirs)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.classes_.dtype == theirs.classes_.dtype
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    assert ours.n_features_in_ == 4
    assert not hasattr(ours, "feature_names_in_")
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.01)


def test_a_folder_of_tables(folder):
    pytest.importorskip("pyarrow")
    for path in folder.iterdir():  # the features and the labels alone
        table = [line.split(",") for line in path.read_text().splitlines()]
        path.write_text("\n".join(",".join(row[:5]) for row in table) + "\n")
    ours = BatchSVC(**HOW).fit(folder, y="two")
    assert_same_optimum(ours, BatchSVC(**HOW).fit(X, TWO))
    assert ours.feature_names_in_.tolist() == NAMES
    ours.fit(in_chunks(X, TWO))
    assert not hasattr(ours, "feature_names_in_")


def test_placed_sources(folder):
    pytest.importorskip("pyarrow")
    how = {"y": "two", "sample_weight": "count", "columns": NAMES, "max_memory": "50MB"}
    with batchsvm.place(folder, **how) as data:
        ours = BatchSVC(**HOW).fit(data)
        assert ours.feature_names_in_.tolist() == NAMES
        other = BatchSVC(**HOW).fit(data, THREE, WEIGHTS)  # labels and weights of the caller
        heavy = BatchSVC(**HOW).fit(data, sample_weight=np.ones(len(X)))
    assert_same_optimum(ours, BatchSVC(**HOW).fit(X, TWO, WEIGHTS))
    assert_same_optimum(other, BatchSVC(**HOW).fit(X, THREE, WEIGHTS))
    assert_same_optimum(heavy, BatchSVC(**HOW).fit(X, TWO))


@pytest.mark.parametrize("weights", [(), (WEIGHTS,)])
@pytest.mark.parametrize(
    ("y", "class_weight"),
    [(TWO, "balanced"), (THREE, "balanced"), (TWO, {"yes": 5.0}), (THREE, {0: 3.0, 2: 0.5})],
)
def test_class_weights(weights, y, class_weight):
    ours = BatchSVC(class_weight=class_weight, **HOW).fit(in_chunks(X, y, *weights))
    theirs = BatchSVC(class_weight=class_weight, **HOW).fit(X, y, *weights)
    assert_same_optimum(ours, theirs)


def test_a_class_without_weight():
    weights = np.where(TWO == "yes", 0.0, 1.0)
    words = "y must have at least two classes among the rows of positive weight, but it has one"
    for arguments in ((in_chunks(X, TWO, weights),), (X, TWO, weights)):
        with pytest.raises(ValueError, match=words):
            BatchSVC().fit(*arguments)
    with pytest.raises(ValueError, match="y must have at least two classes, but it has one class"):
        BatchSVC().fit(in_chunks(X, np.ones(len(X))))


@pytest.mark.parametrize("weights", [(), (WEIGHTS,)])
@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive"])
def test_regression(weights, loss):
    ours = BatchSVR(loss, **HOW).fit(in_chunks(X, SCORE, *weights))
    theirs = BatchSVR(loss, **HOW).fit(X, SCORE, *weights)
    assert_same_optimum(ours, theirs)
    assert ours.coef_.shape == (4,)
    assert ours.dual_coef_.shape == (240,)
    with batchsvm.place(in_chunks(X, SCORE, *weights)) as data:
        assert_same_optimum(BatchSVR(loss, **HOW).fit(data), theirs)
    with pytest.raises(ValueError, match="y must hold numbers for a regression loss, not words"):
        BatchSVR(loss).fit(in_chunks(X, TWO))


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_warm_starts(class_weight):
    """A fit that starts where the last one ended is done at its first certificate."""
    model = BatchSVC(class_weight=class_weight, warm_start=True, **HOW)
    model.fit(in_chunks(X, TWO, WEIGHTS))
    first = model.n_iter_
    model.fit(in_chunks(X, TWO, WEIGHTS))
    assert model.n_iter_ < first
    model = BatchSVR("huber", warm_start=True, **HOW).fit(in_chunks(X, SCORE, WEIGHTS))
    first = model.n_iter_
    assert model.fit(in_chunks(X, SCORE, WEIGHTS)).n_iter_ < first
    model.fit(in_chunks(X, SCORE, WEIGHTS / 8))  # another box
    assert model.certificate_.relative_gap <= 1e-3


def test_predictions_for_a_source(folder, tmp_path):
    pytest.importorskip("pyarrow")
    model = BatchSVC(**HOW).fit(in_chunks(X, THREE))
    parts = list(batchsvm.predict_parts(model, in_chunks(X, THREE)))
    assert [part.name for part in parts] == ["chunk 0", "chunk 1", "chunk 2", "chunk 3"]
    for what in ("predictions", "scores", "y"):
        found = np.concatenate([getattr(part, what) for part in parts])
        method = {"predictions": model.predict, "scores": model.decision_function}
        expected = method[what](X) if what in method else THREE
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    named = batchsvm.predict_parts(model, folder, y="three", columns=NAMES)
    for part, (_, y) in zip(named, in_chunks(X, THREE), strict=True):
        np.testing.assert_array_equal(part.y, y)
    for method in (model.predict, model.decision_function, lambda s: model.score(s, None)):
        with pytest.raises(ValueError, match=r"not a source, whose rows batchsvm\.predict_parts"):
            method(in_chunks(X, THREE))


def test_a_saved_model_of_a_source(tmp_path):
    for number, (x, y) in enumerate(in_chunks(X, THREE)):
        write(tmp_path / f"{number}.svm", x, y)
    model = BatchSVC(**HOW).fit(tmp_path)
    model.save(tmp_path / "_model", THREE)
    found = batchsvm.load(tmp_path / "_model")
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    assert found.trained_on.n == 240


@pytest.mark.parametrize("estimator", [BatchSVC(), BatchSVR(), BatchSVCCV()])
def test_rows_in_memory_need_y(estimator):
    name = type(estimator).__name__
    check_requires_y_none(name, estimator)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        estimator.fit(X)
    with (
        batchsvm.place(X) as data,
        pytest.raises(ValueError, match=r"y cannot be None|y should be a 1d array"),
    ):
        estimator.fit(data)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda s: BatchSVCCV().fit(s), ValueError, "^X must be rows in memory for cross-valida"),
        (lambda s: BatchSVC().partial_fit(s, None, [1, 2]), ValueError, "partial_fit, not a sour"),
        (lambda s: BatchSVR().partial_fit(s, None), ValueError, "for partial_fit, not a source"),
        (lambda s: BatchSVC().fit(s, TWO), ValueError, "^y must be the name of a column for a s"),
        (lambda s: BatchSVC().fit(s, None, WEIGHTS), ValueError, "^sample_weight must be the nam"),
        (lambda s: BatchSVC().fit(iter(s)), TypeError, "can be read only once"),
        (
            lambda s: BatchSVC(engine="reference").fit(s),
            ValueError,
            '^engine must be "auto", "cpu"',
        ),
        (lambda s: BatchSVC(class_weight="even").fit(s), ValueError, "^class_weight must be one"),
        (lambda s: BatchSVC(class_weight=3).fit(s), ValueError, "^class_weight must be None, 'ba"),
        (lambda s: BatchSVC(lam=-1).fit(s), ValueError, "^lam must be a finite positive number"),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(in_chunks(X, TWO))


def test_placed_sources_are_no_rows_for_cross_validation():
    with batchsvm.place(in_chunks(X, TWO)) as data:
        with pytest.raises(ValueError, match=r"^X must be rows in memory for cross-validation"):
            BatchSVCCV().fit(data)
        with pytest.raises(ValueError, match=r"^engine must be 'auto' for placed data"):
            BatchSVC(engine="streamed").fit(data)


def test_engine_and_threads_of_a_source():
    model = BatchSVC(engine="streamed", n_jobs=2, **HOW).fit(in_chunks(X, TWO))
    assert_same_optimum(model, BatchSVC(**HOW).fit(X, TWO))
