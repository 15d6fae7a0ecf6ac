"""partial_fit: Pegasos on the population objective (Section 6 of the paper)."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier

import batchsvm
from batchsvm import BatchSVC, BatchSVR, losses
from batchsvm.engines.cpu.online import StreamProblem, start_stream

LAM = 0.05


def population(n, seed, classes=2):
    """Rows that are drawn from one distribution, whatever the seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, 5))
    y = rng.integers(classes, size=n)
    return centres[y] + rng.normal(size=(n, 5)), y


def by_the_book(X, signs, lam, b, weights, bias):
    """Pegasos as in Algorithm 1, one dense vector at a time; the average with weights 1, 2, ..."""
    X = np.column_stack([X, np.full(len(X), bias)])
    w, total, mass = np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0.0
    for t, start in enumerate(range(0, len(X), b), 1):
        batch = slice(start, start + b)
        active = signs[batch] * (X[batch] @ w) < 1
        step = (active * weights[batch] * signs[batch]) @ X[batch] / len(X[batch])
        w = (1 - 1 / t) * w + step / (lam * t)
        total, mass = total + t * w, mass + t
    return total / mass


@pytest.mark.parametrize(("b", "cut"), [(1, 42), (7, 42), (8, 96)])
def test_a_stream_is_pegasos_by_the_book(b, cut):
    X, y = population(100, 0)
    signs, weights = np.where(y == 1, 1.0, -1.0), np.random.default_rng(1).uniform(0.5, 2, 100)
    stream = start_stream(
        X, StreamProblem(losses.Hinge(), LAM, 2.0, models=1, batch_size=b), seed=0
    )
    ours, theirs = np.random.default_rng(0), np.random.default_rng(0)
    order = []
    for part in (slice(0, cut), slice(cut, 100)):  # cut between two batches
        order += list(part.start + theirs.permutation(part.stop - part.start))
        stream.take(X[part], signs[np.newaxis, part], weights[part], ours)
    expected = by_the_book(X[order], signs[order], LAM, b, weights[order], 2.0)
    np.testing.assert_allclose(stream.w[0], expected, rtol=1e-9)
    assert stream.rows == 100
    assert stream.batches == -(-100 // b)


@pytest.mark.parametrize("b", [1, 16])
def test_a_long_stream_reaches_the_optimum_of_the_population(b):
    X, y = population(20_000, 7)
    best = BatchSVC(lam=LAM, tol=1e-5, random_state=0).fit(X, y)
    model = BatchSVC(lam=LAM, batch_size=b, random_state=0)
    for seed in range(20):
        model.partial_fit(*population(1000, seed), classes=[0, 1])
    w = np.append(model.coef_[0], model.intercept_[0])
    alpha = best.dual_coef_[0]
    certificate = batchsvm.certify(X, y, w, alpha, lam=LAM, bias=1.0)
    assert certificate.gap < 0.01  # of the stream's w, against the dual of other rows
    assert model.stream_.batches == -(-1000 // b) * 20
    assert model.stream_.rows == 20_000


def test_batches_are_worth_what_beta_b_says():
    X, y = population(500, 0)
    model = BatchSVC(lam=LAM, batch_size=8, random_state=0).partial_fit(X, y, classes=[0, 1])
    stream = model.stream_
    assert stream.beta_b == pytest.approx(1 + 7 * stream.sigma2)
    assert stream.beta_b == batchsvm.beta_b(8, np.inf, stream.sigma2)
    assert stream.speedup == pytest.approx(8 / stream.beta_b)
    assert stream.sigma2 == pytest.approx(batchsvm.sigma2(X[:512]))


def test_many_classes_sparse_rows_and_a_sorted_chunk():
    X, y = population(3000, 0, classes=3)
    order = np.argsort(y, kind="stable")  # the worst there is
    dense, sparse = (BatchSVC(lam=0.01, random_state=0) for _ in range(2))
    dense.partial_fit(X[order], y[order], classes=[0, 1, 2])
    sparse.partial_fit(sp.csr_array(X[order]), y[order], classes=[0, 1, 2])
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-9)
    fitted = BatchSVC(lam=0.01, random_state=0).fit(X, y)
    assert dense.score(X, y) > fitted.score(X, y) - 0.02


def test_it_is_as_good_as_sgd():
    test = population(5000, 1000)
    ours, theirs = BatchSVC(lam=1e-3, random_state=0), SGDClassifier(alpha=1e-3, random_state=0)
    for seed in range(5):
        chunk = population(500, seed)
        ours.partial_fit(*chunk, classes=[0, 1])
        theirs.partial_fit(*chunk, classes=[0, 1])
    assert ours.score(*test) > theirs.score(*test) - 0.01


def test_the_same_seed_gives_the_same_stream_and_pickling_goes_on():
    first, second = BatchSVC(lam=LAM, random_state=1), BatchSVC(lam=LAM, random_state=1)
    for model in (first, second):
        model.partial_fit(*population(100, 0), classes=[0, 1])
    second = pickle.loads(pickle.dumps(second))
    for model in (first, second):
        model.partial_fit(*population(100, 1))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    other = BatchSVC(lam=LAM, random_state=2).partial_fit(*population(100, 0), classes=[0, 1])
    other.partial_fit(*population(100, 1))
    assert not np.array_equal(first.coef_, other.coef_)


def test_a_stream_goes_on_from_a_fit_and_promises_nothing():
    X, y = population(2000, 0)
    model = BatchSVC(lam=LAM, random_state=0).fit(X, y)
    fitted = model.coef_.copy()
    model.partial_fit(*population(20, 1))
    assert np.linalg.norm(model.coef_ - fitted) < 0.1 * np.linalg.norm(fitted)
    assert model.stream_.rows == 2020
    for name in ("certificate_", "history_", "dual_coef_", "plan_"):
        assert not hasattr(model, name)
    assert model.n_iter_ == 1
    model.fit(X, y)
    assert not hasattr(model, "stream_")
    np.testing.assert_array_equal(model.coef_, fitted)


def test_weights_multiply_the_loss():
    X, y = population(500, 0)
    plain = BatchSVC(lam=LAM, random_state=0).partial_fit(X, y, classes=[0, 1])
    twice = BatchSVC(lam=2 * LAM, random_state=0)
    twice.partial_fit(X, y, classes=[0, 1], sample_weight=np.full(500, 2.0))
    np.testing.assert_allclose(twice.coef_, plain.coef_, rtol=1e-9)
    by_class = BatchSVC(lam=LAM, class_weight={1: 3.0}, random_state=0)
    by_row = BatchSVC(lam=LAM, random_state=0)
    by_class.partial_fit(X, y, classes=[0, 1])
    by_row.partial_fit(X, y, classes=[0, 1], sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_regression_on_a_stream(loss):
    rng = np.random.default_rng(0)
    truth = np.array([1.0, -2.0, 0.5])
    model = BatchSVR(loss, lam=1e-3, random_state=0)
    for _ in range(10):
        X = rng.normal(size=(1000, 3))
        model.partial_fit(X, X @ truth + 3.0 + 0.1 * rng.normal(size=1000))
    np.testing.assert_allclose(model.coef_, truth, atol=0.15)
    np.testing.assert_allclose(model.intercept_, 3.0, atol=0.15)
    assert model.coef_.shape == (3,)


def test_a_chunk_may_lack_classes_and_have_one_row():
    model = BatchSVC(lam=LAM, random_state=0).partial_fit([[1.0, 2.0]], ["b"], classes=["a", "b"])
    model.partial_fit([[-1.0, -2.0]], ["a"])
    np.testing.assert_array_equal(model.predict([[1.0, 2.0], [-1.0, -2.0]]), ["b", "a"])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"C": 1.0}, "C must be None for partial_fit, not 1.0: it depends on the number of rows"),
        ({"intercept": "free"}, "intercept must be 'penalised' for partial_fit, not 'free'"),
        (
            {"loss": "squared_hinge"},
            "loss must have a Lipschitz constant .* 'squared_hinge'",
        ),
        ({"class_weight": "balanced"}, "class_weight must be None or a dict for partial_fit"),
    ],
)
def test_what_a_stream_cannot_do(parameters, sentence):
    """partial_fit is not there where it would always refuse, and the cause says why."""
    model = BatchSVC(**parameters)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as caught:
        model.partial_fit(*population(10, 0), classes=[0, 1])
    assert re.match(sentence, str(caught.value.__cause__))
    assert hasattr(BatchSVC(), "partial_fit")
    assert hasattr(BatchSVC(intercept="free", fit_intercept=False), "partial_fit")
    with pytest.raises(ValueError, match="loss must be one of"):
        BatchSVC("hing").partial_fit(*population(10, 0), classes=[0, 1])


def test_classes_of_a_stream():
    X, y = population(20, 0)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        BatchSVC().partial_fit(X, y)
    with pytest.raises(ValueError, match="classes must hold at least two labels"):
        BatchSVC().partial_fit(X, y, classes=[0])
    model = BatchSVC(lam=LAM).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"classes must stay \[0, 1\]"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"y must hold labels of `classes`.* not 5"):
        model.partial_fit(X, np.where(y == 1, 5, 0))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :3], y)
    with pytest.raises(ValueError, match=r"lam must stay 0\.05 while a stream goes on"):
        model.set_params(lam=0.1).partial_fit(X, y)
    clone(model).partial_fit(X, y, classes=[0, 1])
