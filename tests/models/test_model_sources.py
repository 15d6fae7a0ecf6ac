"""Models and sources: fingerprints of labels in parts, certificates, predictions part by part."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.core.label_digest import LabelDigest
from batchsvm.files import DataFileError, SourceChangedError, write
from batchsvm.models.fingerprint import Fingerprint, fingerprint, labels_digest
from batchsvm.models.fitting import certify_model, fit_model, is_within

X = np.random.default_rng(3).normal(size=(90, 3))
TWO = np.where(X[:, 0] > 0, 1, -1)
WORDS = np.array(["ash", "elm", "oak"])[np.digitize(X[:, 0], [-0.5, 0.5])]
HOW = {"lam": 0.1, "random_state": 0}


def in_chunks(*columns, size=40):
    return [tuple(column[k : k + size] for column in columns) for k in range(0, len(X), size)]


@pytest.mark.parametrize("y", [TWO, TWO.astype(np.float32), TWO > 0, WORDS, X[:, 1]])
@pytest.mark.parametrize("size", [1, 7, 90])
def test_the_digest_does_not_depend_on_chunks(y, size):
    digest = LabelDigest()
    for start in range(0, len(y), size):
        digest.update(y[start : start + size])
    assert digest.hexdigest() == labels_digest(y)
    with batchsvm.place(in_chunks(X, y, size=size)) as data:
        assert fingerprint(data) == fingerprint(X, y)
        assert fingerprint(data, WORDS[::-1]) == fingerprint(X, WORDS[::-1])
    assert labels_digest(y) != labels_digest(y[::-1])


def test_digests_of_version_3_files_have_not_changed():
    """Model files hold them."""
    assert labels_digest([1, -1, -0.0])[:16] == "cf455b0b938b08d6"
    assert labels_digest(["a", "bc"])[:16] == "8930de96988f94f4"


def test_placed_rows_without_labels():
    with batchsvm.place(X) as data:
        assert fingerprint(data) == Fingerprint(90, 3, None)


def test_a_kept_cache_knows_the_digest(tmp_path):
    write(tmp_path / "a.svm", sp.csr_array(X), TWO)
    for _ in range(2):
        with batchsvm.place(tmp_path / "a.svm", cache=tmp_path / "kept") as data:
            assert data.labels.digest == labels_digest(TWO)
            assert data.zero_based is False
    assert data.reused


@pytest.mark.parametrize("y", [TWO, WORDS])
def test_models_of_placed_sources(y):
    weights = 1.0 + (X[:, 1] > 0)
    with batchsvm.place(in_chunks(X, y, weights)) as data:
        model, solutions = fit_model(data, intercept_scaling=1.0, **HOW)
        again = certify_model(model, data)
        assert is_within(model, data, None, again, 1e-3)
        assert not is_within(model, data, None, again, 1e-12)
    assert model.trained_on == fingerprint(X, y)
    in_memory = certify_model(model, X, y, weights)
    for one, other, solution in zip(again, in_memory, solutions, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=1e-12)
        assert one.dual == pytest.approx(other.dual, rel=1e-12)
        assert one.primal == pytest.approx(solution.certificate.primal, rel=1e-12)


def test_certificates_want_the_classes_of_the_model():
    model, _ = fit_model(X, WORDS, **HOW)
    with (
        batchsvm.place(in_chunks(X, np.where(WORDS == "oak", "fir", WORDS))) as data,
        pytest.raises(ValueError, match=r"^the labels must be the model's classes \['ash', 'elm'"),
    ):
        certify_model(model, data)
    with (
        batchsvm.place(X) as data,
        pytest.raises(ValueError, match=r"^y must be given: X holds no labels of its own"),
    ):
        certify_model(model, data)


def test_predictions_are_those_of_all_rows():
    for y in (TWO, WORDS):
        model, _ = fit_model(X, y, intercept_scaling=1.0, **HOW)
        for storage in (np.asarray, sp.csr_array):
            chunks = [(storage(x), labels) for x, labels in in_chunks(X, y)]
            parts = list(batchsvm.predict_parts(model, chunks, max_bytes=200))
            assert len(parts) > len(chunks)
            found = np.concatenate([part.predictions for part in parts])
            np.testing.assert_array_equal(found, model.predict(X))
            found = np.concatenate([part.scores for part in parts])
            np.testing.assert_allclose(found, model.decision_function(X), rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), y)
    unlabelled = [(x, None) for x, _ in in_chunks(X, y)]
    assert [part.y for part in batchsvm.predict_parts(model, unlabelled)] == [None, None, None]


def test_one_pass_is_enough():
    model, _ = fit_model(X, TWO, **HOW)

    class Counted:
        passes = 0

        def __iter__(self):
            self.passes += 1
            return iter(in_chunks(X, TWO))

    source = Counted()
    assert len(list(batchsvm.predict_parts(model, source))) == 3
    assert source.passes == 1


def test_columns_of_tables_go_by_name(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("p,q,label\n1,2,0\n-1,3,1\n")
    (tmp_path / "b.csv").write_text("label,q,p\n0,5,7\n")
    with batchsvm.place(tmp_path, y="label") as data:
        model, _ = fit_model(data, **HOW)
    assert model.feature_names == ("p", "q")
    expected = model.decision_function(np.array([[1.0, 2.0], [-1.0, 3.0], [7.0, 5.0]]))
    for source in (tmp_path, [tmp_path / "a.csv", tmp_path / "b.csv"]):
        parts = batchsvm.predict_parts(model, source, y="label")
        np.testing.assert_allclose(np.concatenate([part.scores for part in parts]), expected)
    (tmp_path / "a.csv").write_text("q,p,label,more\n2,1,0,9\n3,-1,1,9\n")
    with pytest.raises(DataFileError, match=r"a\.csv: must have the columns of the training data"):
        batchsvm.predict_parts(model, tmp_path, y="label")
    parts = batchsvm.predict_parts(model, tmp_path, y="label", columns=["q", "p"])
    np.testing.assert_allclose(np.concatenate([part.scores for part in parts]), expected)
    with pytest.raises(ValueError, match=r"^columns must be those of the training data, 'p', 'q'"):
        batchsvm.predict_parts(model, tmp_path, y="label", columns=["q", "more"])
    (tmp_path / "a.csv").write_text("q,p,label\n2,1,0\n3,-1,1\n")
    write(tmp_path / "c.svm", sp.csr_array([[1.0, 2.0]]), [1])  # tables in another order, and text
    with pytest.raises(DataFileError, match="must have the columns of the training data in their"):
        batchsvm.predict_parts(model, tmp_path, y="label")


def test_a_file_that_changes_while_it_is_read(tmp_path):
    write(tmp_path / "a.svm", sp.csr_array(X), TWO)
    model, _ = fit_model(X, TWO, **HOW)
    parts = batchsvm.predict_parts(model, tmp_path)
    next(parts)
    with open(tmp_path / "a.svm", "a") as sink:
        sink.write("1 1:1\n")
    with pytest.raises(SourceChangedError, match=r"a\.svm: it has changed while it was read"):
        list(parts)


def test_what_is_refused():
    model, _ = fit_model(X, TWO, **HOW)
    with pytest.raises(TypeError, match=r"^model must be a Model or a fitted linear estimator"):
        batchsvm.predict_parts("model", in_chunks(X, TWO))
    with pytest.raises(ValueError, match=r"^max_bytes must be a positive integer, not 0"):
        batchsvm.predict_parts(model, in_chunks(X, TWO), max_bytes=0)
    with pytest.raises(ValueError, match="chunk 0: has 2 columns, not 3"):
        list(batchsvm.predict_parts(model, in_chunks(X[:, :2], TWO)))
    with pytest.raises(TypeError, match=r"^X must be read more than once"):
        batchsvm.predict_parts(model, iter(in_chunks(X, TWO)))
