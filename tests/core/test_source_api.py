"""The public functions on sources: the same optimum as in memory."""

from __future__ import annotations

import numpy as np
import pytest

import batchsvm
from batchsvm.engines import placing
from batchsvm.files import open_source, write
from helpers import quietly

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LAM = 1e-2
NAMES = [f"f{j}" for j in range(5)]


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(NAMES)))
    score = X @ rng.normal(size=len(NAMES)) + 0.4 * rng.normal(size=n)
    return X, score, rng.integers(1, 4, n).astype(float)


X, SCORE, WEIGHTS = rows()
TWO = np.where(SCORE > 0, "yes", "no")
THREE = np.digitize(SCORE, [-1, 1])


def in_chunks(*columns):
    return [tuple(column[k : k + 170] for column in columns) for k in range(0, len(X), 170)]


@pytest.fixture(autouse=True, params=["cpu", "streamed"])
def engine(request, monkeypatch):
    """The engine that trains on a source: that of rows in memory if they fit."""
    if request.param == "streamed":
        monkeypatch.setattr(placing, "IN_MEMORY_SHARE", 0.0)
    return request.param


@pytest.fixture
def folder(tmp_path):
    """Tables of different lengths: features, three kinds of labels, weights."""
    for number, part in enumerate(in_chunks(X, TWO, THREE, SCORE, WEIGHTS)):
        features, two, three, score, weights = part
        table = {name: features[:, j] for j, name in enumerate(NAMES)}
        table |= {"two": two, "three": three, "score": score, "c": weights}
        pq.write_table(pa.table(table), tmp_path / f"part{number}.parquet")
    return tmp_path


def assert_same_optimum(ours, theirs):
    """What is proven of the one does not contradict what is proven of the other."""
    ours, theirs = ours.certificate, theirs.certificate
    assert ours.dual_below <= theirs.primal_above
    assert theirs.dual_below <= ours.primal_above
    assert ours.relative_gap <= 1e-4


OPTIONS = {"lam": LAM, "tol": 1e-4, "random_state": 0}


def test_a_folder_of_tables(folder):
    found = batchsvm.fit(folder, "two", columns=NAMES, max_memory="40MB", **OPTIONS)
    assert_same_optimum(found, quietly(X, TWO, **OPTIONS))
    np.testing.assert_array_equal(found.classes, ["no", "yes"])
    assert found.alpha.shape == (600,)


def test_weights_of_a_column(folder):
    source = {"columns": NAMES, "sample_weight": "c"}
    found = batchsvm.fit(str(folder / "*.parquet"), "two", **source, **OPTIONS)
    assert_same_optimum(found, quietly(X, TWO, sample_weight=WEIGHTS, **OPTIONS))


def test_numbers_for_a_regression_loss(folder):
    found = batchsvm.fit(folder, "score", "huber", columns=NAMES, **OPTIONS)
    assert_same_optimum(found, quietly(X, SCORE, "huber", **OPTIONS))
    assert found.classes is None


def test_chunks_with_weights_and_without():
    found = batchsvm.fit(in_chunks(X, TWO), **OPTIONS)
    assert_same_optimum(found, quietly(X, TWO, **OPTIONS))
    found = batchsvm.fit(in_chunks(X, TWO, WEIGHTS), **OPTIONS)
    assert_same_optimum(found, quietly(X, TWO, sample_weight=WEIGHTS, **OPTIONS))


def test_libsvm_text_holds_its_labels(tmp_path):
    for number, (part, y) in enumerate(in_chunks(X, THREE)):
        write(tmp_path / f"{number}.svm", part, (y > 1).astype(float))
    found = batchsvm.fit(tmp_path, **OPTIONS)
    assert_same_optimum(found, quietly(X, THREE > 1, **OPTIONS))


def test_many_classes_and_paths(folder):
    many = batchsvm.fit_many(folder, "three", lam=LAM, columns=NAMES, tol=1e-4, random_state=0)
    theirs = batchsvm.fit_many(X, THREE, lam=LAM, tol=1e-4, random_state=0)
    assert many.names == theirs.names
    for ours, other in zip(many, theirs, strict=True):
        assert_same_optimum(ours, other)
    path = batchsvm.path(folder, "two", [0.1, LAM], columns=NAMES, tol=1e-4, random_state=0)
    assert all(certificate.relative_gap <= 1e-4 for certificate in path.certificates)


def test_placed_sources_know_their_labels(folder, engine):
    with batchsvm.place(folder, y="two", columns=NAMES) as data:
        assert (data.engine, data.n, data.d) == (engine, 600, 5)
        assert data.feature_names == tuple(NAMES)
        found = batchsvm.fit(data, **OPTIONS)
        other = batchsvm.fit(data, THREE > 1, **OPTIONS)  # in the order of the source
        again = batchsvm.certify(data, None, found.w, found.alpha, lam=LAM)
    assert_same_optimum(found, quietly(X, TWO, **OPTIONS))
    assert_same_optimum(other, quietly(X, THREE > 1, **OPTIONS))
    assert again.gap == pytest.approx(found.certificate.gap, rel=1e-6)


def test_a_certificate_of_a_model_from_elsewhere(folder):
    model = quietly(X, TWO, **OPTIONS)
    found = batchsvm.certify(folder, "two", model.w, model.alpha, lam=LAM, columns=NAMES)
    assert found.gap == pytest.approx(model.certificate.gap, abs=1e-12)


def test_sigma2_and_plan(folder):
    ours = float(batchsvm.sigma2(folder, y="two", columns=NAMES))
    assert ours == pytest.approx(float(batchsvm.sigma2(X)), rel=1e-9)
    assert batchsvm.plan(folder, "two", columns=NAMES).n == 600


def test_a_source_is_read_into_memory_where_that_is_asked_for(folder, monkeypatch):
    monkeypatch.setattr(placing, "IN_MEMORY_SHARE", 0.0)
    with batchsvm.place(folder, y="two", columns=NAMES, engine="cpu") as data:
        assert data.engine == "cpu"
    with batchsvm.place(folder, y="two", columns=NAMES) as data:
        assert data.engine == "streamed"


def test_no_more_of_a_large_source_is_read_than_needed(folder, monkeypatch):
    """The sizes of files tell before the first read that they do not fit."""
    source = open_source(folder, y="two", columns=NAMES)
    monkeypatch.setattr(placing, "IN_MEMORY_SHARE", 1e-12)
    monkeypatch.setattr(placing.cpu, "place_source", None)  # is not called
    with placing.place_on("auto", source, 1) as data:
        assert data.engine == "streamed"


def test_with_checkpoints_a_source_is_streamed(folder, tmp_path):
    file = tmp_path / "training.checkpoint"
    found = batchsvm.fit(folder, "two", columns=NAMES, checkpoint=file, **OPTIONS)
    assert_same_optimum(found, quietly(X, TWO, **OPTIONS))


def test_shares_and_subsets_keep_labels_and_weights(folder):
    with batchsvm.place(folder, y="two", sample_weight="c", columns=NAMES) as data:
        chosen = np.arange(0, 600, 7)
        with data.subset(chosen) as part, data.share(1) as view:
            ours, all_of_them = (batchsvm.fit(own, **OPTIONS) for own in (part, view))
        totals = data.class_totals()
    own = quietly(X[chosen], TWO[chosen], sample_weight=WEIGHTS[chosen], **OPTIONS)
    assert_same_optimum(ours, own)
    assert_same_optimum(all_of_them, quietly(X, TWO, sample_weight=WEIGHTS, **OPTIONS))
    np.testing.assert_allclose(totals, [WEIGHTS[TWO == word].sum() for word in ("no", "yes")])


def test_in_memory_data_are_streamed_if_that_is_asked_for():
    for how in ({"engine": "streamed"}, {"max_memory": "40MB"}):
        found = batchsvm.fit(X, TWO, **how, **OPTIONS)
        assert_same_optimum(found, quietly(X, TWO, **OPTIONS))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"y": TWO}, ValueError, "y must be the name of a column for a source, or None where"),
        ({"sample_weight": WEIGHTS}, ValueError, "sample_weight must be the name of a column"),
        ({"engine": "reference"}, ValueError, 'engine must be "auto", "cpu", "streamed" or "ray"'),
        ({"device": 0, "engine": "streamed"}, ValueError, 'device must be None for engine="str'),
        ({"max_memory": "much"}, ValueError, "max_memory must be a number of bytes or words"),
        ({"memory": 3}, TypeError, "there is no parameter 'memory'"),
    ],
)
def test_what_is_refused_for_a_source(arguments, error, words):
    with pytest.raises(error, match=words):
        batchsvm.fit(in_chunks(X, TWO), **{"lam": LAM, **arguments})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"columns": NAMES}, "columns must be None for X in memory"),
        ({"max_memory": 10**8, "engine": "cpu"}, 'max_memory must be None for engine="cpu"'),
        ({"cache": "here", "engine": "streamed"}, "cache must be None for X in memory"),
        ({"y": None}, "y must be given: X holds no labels of its own"),
    ],
)
def test_what_is_refused_for_rows_in_memory(arguments, words):
    with pytest.raises(ValueError, match=words):
        batchsvm.fit(X, **{"y": TWO, "lam": LAM, **arguments})


def test_what_can_be_read_once_is_refused():
    with pytest.raises(TypeError, match=r"^X must be read more than once, and a generator"):
        batchsvm.fit((chunk for chunk in in_chunks(X, TWO)), lam=LAM)
    with pytest.raises(ValueError, match=r"^y must be None for X in memory: give it to each fit$"):
        batchsvm.place(X, y="two")
