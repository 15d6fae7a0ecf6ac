"""Model files: they come back as they were, and nothing else passes for one."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace

import numpy as np
import pandas
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

import batchsvm
from batchsvm import BatchSVC, BatchSVR, ModelFileError
from batchsvm.core.certificate import Certificate
from batchsvm.displays.report import make_report
from batchsvm.losses import LOSSES
from batchsvm.methods import Aggressive, Pegasos
from batchsvm.models import container
from batchsvm.models.codec import HISTORY_FIELDS
from batchsvm.models.fingerprint import fingerprint
from batchsvm.models.fitting import certify_model, fit_model, is_within
from batchsvm.models.model import model_of_solution
from helpers import toy


def solution_of(loss="hinge", **options):
    X, y = toy(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return X, y, batchsvm.fit(X, y, loss, lam=0.1, random_state=0, **options)


def resealed(header, arrays_part=b""):
    """A file with a right checksum around any header."""
    text = json.dumps(header).encode()
    body = b"BATCHSVM" + (1).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text
    body += bytes(-len(body) % 64) + arrays_part
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_solution_comes_back_bit_for_bit(tmp_path, loss):
    X, y, solution = solution_of(loss, max_epochs=3, tol=1e-9)
    path = tmp_path / "model"
    solution.save(path, y)
    back = batchsvm.Solution.load(path)
    np.testing.assert_array_equal(back.w.view(np.uint64), solution.w.view(np.uint64))
    np.testing.assert_array_equal(back.alpha.view(np.uint64), solution.alpha.view(np.uint64))
    for name in HISTORY_FIELDS:
        ours, theirs = getattr(back.history, name), getattr(solution.history, name)
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    for name in ("certificate", "status", "plan", "loss", "lam", "method", "batch_size"):
        assert getattr(back, name) == getattr(solution, name), name
    assert str(back) == str(solution)
    assert back.plan.sigma2.how == solution.plan.sigma2.how
    if solution.classes is not None:
        np.testing.assert_array_equal(back.classes, solution.classes)
    model = batchsvm.load(path)
    assert model.library_version == batchsvm.__version__
    assert model.trained_on.n, model.trained_on.d == X.shape
    assert certify_model(model, X, y) == [solution.certificate]


@pytest.mark.parametrize(
    "method", [Pegasos(radius=0.5), Aggressive(gamma=0.8, sampling="subsets", sigma2=0.5)]
)
def test_methods_keep_their_parameters(tmp_path, method):
    X, y, solution = solution_of(method=method, batch_size=4, max_epochs=5)
    solution.save(tmp_path / "model")
    assert batchsvm.Solution.load(tmp_path / "model").method == method
    assert certify_model(batchsvm.load(tmp_path / "model"), X, y) == [solution.certificate]


@pytest.mark.parametrize(
    "labels",
    [[1, 2, 3], [0.5, 1.5, 2.5], ["a", "b", "é"], [True, False], np.array(["x", "y"], object)],
)
def test_classes_of_every_kind(tmp_path, labels):
    rng = np.random.default_rng(0)
    classes = np.array(labels)
    X, y = rng.normal(size=(40, 3)), classes[rng.integers(0, len(classes), 40)]
    model, _ = fit_model(X, y, lam=0.1, random_state=0, intercept_scaling=2.0)
    model.save(tmp_path / "model")
    back = batchsvm.load(tmp_path / "model")
    assert back.classes.dtype == model.classes.dtype
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.intercept, model.intercept)
    assert certify_model(back, X, y) == list(model.certificates)
    assert back.worst == max(model.certificates, key=lambda c: c.relative_gap)
    if len(classes) > 2:
        with pytest.raises(ValueError, match="must be of one fit without an intercept"):
            batchsvm.Solution.load(tmp_path / "model")


def test_certify_says_what_does_not_fit():
    X, y, solution = solution_of()
    model = model_of_solution(solution, y)
    with pytest.raises(ValueError, match="not the data the model was trained on: 59 rows, not 60"):
        certify_model(model, X[1:], y[1:])
    with pytest.raises(
        ValueError, match=r"among the model's classes \[-1.0, 1.0\], but 2.0 is not"
    ):
        certify_model(model, X, np.where(y > 0, 2.0, -1.0))
    worse = certify_model(model, X, -y)[0]
    assert worse.gap > solution.certificate.gap + 0.1
    assert model.trained_on.differences(fingerprint(X, -y)) == ["other labels"]


def test_classes_may_come_in_any_order():
    X, y = toy("hinge")
    y = np.array(["c", "a", "b"])[np.arange(len(y)) % 3]
    model, solutions = fit_model(X, y, lam=0.1, random_state=0)
    turned = replace(
        model,
        **{name: getattr(model, name)[::-1] for name in ("coef", "intercept", "classes", "alpha")},
    )
    assert certify_model(turned, X, y) == list(solutions.certificates)[::-1]


@pytest.mark.parametrize("kind", [LinearSVC, SGDClassifier])
def test_estimators_of_other_libraries(tmp_path, kind):
    X, y = toy("hinge")
    names = np.where(y > 0, "plus", "minus")
    estimator = kind(random_state=0).fit(X, names)
    batchsvm.save(estimator, tmp_path / "model", names)
    model = batchsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(X), estimator.predict(X))
    np.testing.assert_allclose(model.decision_function(X), estimator.decision_function(X))
    with pytest.raises(ValueError, match="holds no dual point"):
        certify_model(model, X, names)
    with pytest.raises(TypeError, match="must be a Solution, a Model or a fitted linear estimator"):
        batchsvm.save("model", tmp_path / "model")
    with pytest.raises(ValueError, match=r"X must have 6 columns, .* not shape \(2, 2\)"):
        model.predict(np.eye(2))


def test_every_changed_byte_is_noticed(tmp_path):
    _, _, solution = solution_of()
    path = tmp_path / "model"
    solution.save(path)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    places = [*range(20), *rng.integers(0, len(content), 300).tolist(), len(content) - 1]
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ModelFileError, match=r"model: .*(damaged|not a batchsvm model)"):
            batchsvm.load(path)
    for length in [0, 3, 8, 15, 16, 47, 100, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"ends early|not a batchsvm model"):
            batchsvm.load(path)


def test_foreign_files_and_other_versions(tmp_path):
    path = tmp_path / "model"
    for content in (b"PK\x03\x04 a zip file", b"hello", b"\x80\x04\x95 a pickle"):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="is not a batchsvm model"):
            batchsvm.load(path)
    path.write_bytes(b"BATCHSVM" + (4).to_bytes(4, "little") + bytes(100))
    with pytest.raises(ModelFileError, match=r"version 4 of the format.* reads up to 3"):
        batchsvm.load(path)
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        batchsvm.load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        batchsvm.load(tmp_path)


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ([], "lists no arrays"),
        ({"arrays": {"coef": {"dtype": "<f8", "shape": [2**40], "offset": 0}}}, "too short"),
        ({"arrays": {"coef": {"dtype": "|O", "shape": [1], "offset": 0}}}, "does not describe"),
        ({"arrays": {"coef": {"dtype": "<f8", "shape": [-1], "offset": 0}}}, "does not describe"),
        ({"arrays": {"coef": {"dtype": "<f8", "shape": [1], "offset": True}}}, "does not describe"),
        ({"arrays": {}, "kind": "cake"}, "holds 'cake', not a linear model"),
        ({"arrays": {}, "kind": "linear model"}, "has no entry 'coef'"),
    ],
)
def test_headers_that_lie(tmp_path, header, what):
    (tmp_path / "model").write_bytes(resealed(header))
    with pytest.raises(ModelFileError, match=what):
        batchsvm.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda h, a: h.update(lam=-1), "lam must be a finite positive number, not -1"),
        (lambda h, a: h.update(lam=True), "must be a number"),
        (lambda h, a: h["loss"].update(parameters={"margin": -1}), "margin of loss Hinge"),
        (lambda h, a: h["loss"].update(parameters={"evil": 1}), "evil"),
        (lambda h, a: h["trained_on"].update(n=3), r"alpha has shape \(1, 60\), not \(1, 3\)"),
        (lambda h, a: h["trained_on"].update(d=3), "6 coefficients for 3 columns"),
        (lambda h, a: h["classes"].update(values=[1, 1]), "not distinct"),
        (lambda h, a: h["classes"].update(values=[1, 2, 3]), "1 rows of coefficients"),
        (lambda h, a: h.update(certificates=[]) or h.update(statuses=["A", "B"]), "certificates"),
        (lambda h, a: h["method"].update(name="magic"), "no method 'magic'"),
        (lambda h, a: h.pop("plan"), "no entry 'plan'"),
        (lambda h, a: a.update(coef=np.full((1, 6), np.nan)), "coef must be finite"),
        (lambda h, a: a.update(coef=np.ones((2, 6))), "intercept has shape"),
        (lambda h, a: a.update(intercept=np.ones(1, np.float32)), "intercept must be finite"),
        (lambda h, a: h.update(intercept_scaling="inf"), "intercept_scaling is inf"),
        (lambda h, a: h.update(classes={"dtype": "O", "values": [1, 2]}), "not numbers or words"),
        (lambda h, a: h.update(zero_based=1), "zero_based is 1"),
        (lambda h, a: h.update(feature_names=["a", "b"]), "2 names for 6 columns"),
        (lambda h, a: h.update(feature_names=list("abcdee")), "5 names for 6 columns"),
        (lambda h, a: h.update(feature_names=[1] * 6), "a word was expected"),
    ],
)  # fmt: skip
def test_entries_that_do_not_fit_together(tmp_path, change, what):
    _, _, solution = solution_of()
    path = tmp_path / "model"
    solution.save(path)
    header, arrays = container.read(path)
    change(header, arrays)
    container.write(path, header, arrays)
    with pytest.raises(ModelFileError, match=what):
        batchsvm.load(path)


def test_a_file_of_version_1_knows_no_columns(tmp_path):
    _, _, solution = solution_of()
    path = tmp_path / "model"
    solution.save(path)
    header, arrays = container.read(path)
    del header["zero_based"], header["feature_names"]
    body = bytearray(container.encode(header, arrays)[:-32])
    body[8:12] = (1).to_bytes(4, "little")
    path.write_bytes(bytes(body) + hashlib.sha256(body).digest())
    model = batchsvm.load(path)
    assert model.zero_based is None
    assert model.feature_names is None
    np.testing.assert_array_equal(model.coef[0], solution.w)


def test_an_unknown_loss_still_predicts(tmp_path):
    X, y, solution = solution_of()
    path = tmp_path / "model"
    solution.save(path)
    header, arrays = container.read(path)
    header["loss"] = {"name": "MyLoss", "parameters": {"a": 1}}
    container.write(path, header, arrays)
    model = batchsvm.load(path)
    assert model.loss is None
    assert model.predict(X).shape == y.shape
    with pytest.raises(ValueError, match="loss 'MyLoss' is not one of this library"):
        certify_model(model, X, y)
    with pytest.raises(ValueError, match="it has no loss"):
        batchsvm.Solution.load(path)


def test_a_save_that_is_killed_leaves_the_old_model_whole(tmp_path):
    """The process dies by a signal in the middle of writing, again and again."""
    _, _, solution = solution_of()
    path = tmp_path / "model"
    solution.save(path)
    before = path.read_bytes()
    script = textwrap.dedent("""
        import os, signal, sys
        import numpy as np
        from batchsvm.files import atomic
        from batchsvm.models import container
        def die(*args):
            os.kill(os.getpid(), signal.SIGKILL)
        setattr(os, sys.argv[2], die)
        container.write(sys.argv[1], {"kind": "x"}, {"a": np.ones(10**6)})
    """)
    for place in ("fsync", "replace"):
        killed = subprocess.run([sys.executable, "-c", script, str(path), place], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert path.read_bytes() == before
        batchsvm.load(path)


def test_our_estimators_are_saved_with_what_certifies_them(tmp_path, iris, diabetes):
    X, y = iris
    two = y < 2
    for estimator, data, target in [
        (BatchSVC(lam=0.01, intercept_scaling=2.0, random_state=0), X, y),
        (BatchSVC("logistic", lam=0.01, fit_intercept=False, random_state=0), X[two], y[two]),
        (BatchSVR("huber", epsilon=3.0, lam=0.1, random_state=0), *diabetes),
    ]:
        estimator.fit(data, target).save(tmp_path / "model", target)
        model = batchsvm.load(tmp_path / "model")
        np.testing.assert_array_equal(model.predict(data), estimator.predict(data))
        assert model.loss == estimator.loss_
        found = certify_model(model, data, target)
        known = estimator.certificate_
        known = [known] if isinstance(known, batchsvm.Certificate) else list(known)
        assert found == known
    named = BatchSVC(lam=0.01).fit(pandas.DataFrame(X, columns=list("abcd")), y)
    named.save(tmp_path / "model")
    assert batchsvm.load(tmp_path / "model").feature_names == ("a", "b", "c", "d")
    free = BatchSVC(lam=0.01, intercept="free", random_state=0).fit(X[two], y[two])
    free.save(tmp_path / "model")
    model = batchsvm.load(tmp_path / "model")
    assert model.certificates == (free.certificate_,)
    assert model.free_intercept
    [again] = certify_model(model, X[two], y[two])
    assert again.primal == pytest.approx(free.certificate_.primal, rel=1e-14)
    assert again.dual == pytest.approx(free.certificate_.dual, rel=1e-13)
    # A dual point that is out of balance proves nothing until it is brought back.
    model.alpha[0, np.flatnonzero(model.alpha[0])[:1]] = 0.0
    [off] = certify_model(model, X[two], y[two])
    assert off.primal == free.certificate_.primal
    assert off.dual < free.certificate_.dual
    heavy = BatchSVC(lam=0.01, class_weight={0: 3.0}, random_state=0)
    heavy.fit(X, y, sample_weight=y + 1.0).save(tmp_path / "model")
    model = batchsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(model.class_weights, [3.0, 1.0, 1.0])
    assert certify_model(model, X, y, y + 1.0) == list(heavy.certificate_)
    with pytest.raises(NotFittedError):
        BatchSVC().save(tmp_path / "model")


def test_a_file_of_version_2_loads_and_says_what_it_lacks(tmp_path):
    X, y = toy("hinge")
    model = model_of_solution(batchsvm.fit(X, y, lam=0.1, random_state=0), y)
    path = tmp_path / "model"
    model.save(path)
    assert batchsvm.load(path).lacks == ()
    header, arrays = container.read(path)
    certificate = header["certificates"][0]
    rounding = certificate.pop("primal_rounding") + certificate.pop("dual_rounding")
    header["certificates"] = [
        certificate | {"gap": 1e-4, "relative_gap": 1e-4, "rounding": rounding}
    ]
    del header["lacks"]
    container.write(path, header, arrays)
    old = batchsvm.load(path)
    assert old.certificates[0].rounding == pytest.approx(model.certificates[0].rounding)
    [words] = old.lacks
    assert "certify the model anew" in words
    old.save(path)  # which makes nothing of it a proof
    assert batchsvm.load(path).lacks == old.lacks
    assert "Not in this file: a bound" in make_report(old, {"rows": 60, "columns": 6})


def test_an_objective_next_to_nothing_is_judged_by_its_floor():
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = X @ np.array([1.0, -1.0, 0.5])
    model, _ = fit_model(X, y, "huber", lam=1e-3, random_state=0)
    tiny = [Certificate(1e-12, 0.0, 0.0, 0.0, 1)]
    assert tiny[0].relative_gap == pytest.approx(1.0)
    assert is_within(model, X, y, tiny, 1e-2)
    assert not is_within(model, X, y, tiny, 1e-7)
