"""Whole fits on arrays of a device, of every library and kind, and between engines."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

import batchsvm
from batchsvm.core.solution import Status

LAM, TOL = 1e-2, 1e-3


@pytest.fixture(scope="module")
def rows():
    """X (float32, exact in bfloat16) and y."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 24)).astype(np.float32)
    X = (X.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    score = X @ rng.normal(size=24)
    return X, np.where(score + 2 * rng.normal(size=2000) > 0, 1, -1)


def fit(X, y, **options):
    options = {"lam": LAM, "tol": TOL, "random_state": 0} | options
    return batchsvm.fit(X, y, **options)


def primal(X, y, w):
    margins = y * (np.asarray(X, np.float64) @ w)
    return np.maximum(1 - margins, 0).mean() + LAM / 2 * w @ w


def check(solution, X, y):
    """It has converged, on a device, and its primal is that of the rows on the host."""
    assert solution.status is Status.CONVERGED
    assert solution.method.name == "gram", "this was not the gpu engine"
    assert solution.certificate.primal == pytest.approx(primal(X, y, solution.w), rel=1e-9)
    assert solution.alpha.shape == (len(y),)
    assert solution.alpha.min() >= 0
    assert solution.alpha.max() <= 1


# ---- kinds of arrays


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_cupy(cuda, rows, kind):
    X, y = rows
    X = X.astype(kind)
    check(fit(cuda.xp.asarray(X), cuda.xp.asarray(y)), X, y)
    check(fit(cuda.xp.asarray(X), y), X, y)


def test_rows_of_the_host_are_uploaded(cuda, rows):
    X, y = rows
    check(fit(X, y, engine="gpu"), X, y)
    check(fit(X, y, device=0), X, y)
    check(fit(np.asfortranarray(X), y, engine="gpu"), X, y)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_torch(cuda, rows, kind):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    X, y = rows
    on_device = torch.from_numpy(X).to("cuda", getattr(torch, kind))
    check(fit(on_device, torch.from_numpy(y).to("cuda")), on_device.double().cpu().numpy(), y)


def test_jax(cuda, rows):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no CUDA")
    X, y = rows
    check(fit(jax.numpy.asarray(X), y), X, y)


def test_every_kind_gives_the_same_model(cuda, rows):
    X, y = rows
    first, *others = (fit(cuda.xp.asarray(X.astype(kind)), y) for kind in ("float32", "float64"))
    for other in others:
        np.testing.assert_allclose(other.w, first.w, rtol=1e-4, atol=1e-5)


def test_rows_that_are_not_contiguous_are_copied_with_a_warning(cuda, rows):
    X, y = rows
    wide = cuda.xp.asarray(np.repeat(X, 2, axis=1))
    with pytest.warns(DataConversionWarning, match="not stored row by row"):
        solution = fit(wide[:, ::2], y)
    check(solution, X, y)


def test_integers_are_converted_with_a_warning(cuda, rows):
    X, y = rows
    whole = np.rint(2 * X).astype(np.int32)
    with pytest.warns(DataConversionWarning, match="int32"):
        solution = fit(cuda.xp.asarray(whole), y)
    check(solution, whole, y)


def test_rows_in_place_are_not_copied_and_not_changed(cuda, rows):
    X, y = rows
    on_device = cuda.xp.asarray(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataConversionWarning)
        with batchsvm.place(on_device) as data:
            assert data.rows.values.data.ptr == on_device.data.ptr
            fit(data, y)
    np.testing.assert_array_equal(cuda.to_host(on_device), X)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(cuda, rows, bad):
    X, y = rows
    X = X.copy()
    X[77, 3] = bad
    with pytest.raises(ValueError, match="77"):
        fit(cuda.xp.asarray(X), y)


# ---- dual points


def test_alpha_is_fetched_when_it_is_asked_for(cuda, rows):
    X, y = rows
    with batchsvm.place(X, engine="gpu") as data:
        solution = fit(data, y)
        assert not isinstance(solution.dual.alpha, np.ndarray), "alpha has left the device"
        alpha = solution.alpha
        assert isinstance(alpha, np.ndarray)
        again = batchsvm.certify(data, y, solution.w, alpha, lam=LAM)
    rounding = again.rounding + solution.certificate.rounding  # of sums in another order
    assert abs(again.gap - solution.certificate.gap) <= rounding


def test_alpha_is_gone_with_its_data_set(cuda, rows):
    X, y = rows
    with batchsvm.place(X, engine="gpu") as data:
        read, unread = fit(data, y), fit(data, y)
        expected = read.alpha.copy()
    np.testing.assert_array_equal(read.alpha, expected)
    with pytest.raises(ValueError, match="alpha is gone"):
        unread.alpha  # noqa: B018
    with pytest.raises(ValueError, match="this data set is closed"):
        fit(data, y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("classes", [2, 7])
def test_the_same_seed_gives_the_same_bits(cuda, rows, loss, classes):
    X, _ = rows
    labels = np.random.default_rng(1).integers(0, classes, len(X))
    X = cuda.xp.asarray(X)
    first, second = (
        batchsvm.fit_many(X, labels, loss, LAM, tol=TOL, random_state=4) for _ in range(2)
    )
    assert first.certificates == second.certificates
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.w, other.w)
        np.testing.assert_array_equal(one.alpha, other.alpha)


# ---- between engines


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "squared_hinge", "logistic"])
def test_certificates_of_one_point_agree_up_to_their_rounding(cuda, rows, loss):
    X, y = rows
    solution = fit(X, y, engine="gpu", loss=loss)
    gpu, cpu = (
        batchsvm.certify(X, y, solution.w, solution.alpha, loss, LAM, engine=engine)
        for engine in ("gpu", "cpu")
    )
    assert abs(gpu.primal - cpu.primal) <= gpu.primal_rounding + cpu.primal_rounding
    assert abs(gpu.dual - cpu.dual) <= gpu.dual_rounding + cpu.dual_rounding
    assert gpu.support_vectors == cpu.support_vectors


@pytest.mark.parametrize(("first", "second"), [("gpu", "cpu"), ("cpu", "gpu")])
def test_a_warm_start_crosses_from_engine_to_engine(cuda, rows, first, second):
    X, y = rows
    cold = fit(X, y, engine=first)
    warm = fit(X, y, engine=second, initial=cold)
    assert warm.status is Status.CONVERGED
    assert warm.history.gap[0] <= 10 * cold.certificate.gap + 1e-9
    assert warm.history.gap[0] < 0.2 * cold.history.gap[0]


def test_many_classes_and_a_path(cuda, rows):
    X, _ = rows
    labels = np.random.default_rng(2).integers(0, 12, len(X))
    X = cuda.xp.asarray(X)
    solutions = batchsvm.fit_many(X, labels, lam=LAM, tol=TOL, intercept="penalised")
    assert len(solutions) == 12
    assert solutions.worst.relative_gap <= TOL
    path = batchsvm.path(X, labels, [0.1, 0.01], tol=TOL, random_state=0)
    assert path.coefs.shape == (2, 12, X.shape[1])
    for certificates in path.certificates:
        assert max(c.relative_gap for c in certificates) <= TOL


def test_ctrl_c_gives_the_best_certified_point(cuda, rows):
    X, y = rows
    seen = []

    def press(checkpoint):
        seen.append(checkpoint.iteration)
        if checkpoint.iteration > 0:
            raise KeyboardInterrupt

    solution = fit(X, y, engine="gpu", tol=1e-12, callback=press, checkpoints=[2, 4], warn=False)
    assert solution.status is Status.INTERRUPTED
    assert seen[-1] > 0
    again = batchsvm.certify(X, y, solution.w, solution.alpha, lam=LAM)
    assert abs(again.gap - solution.certificate.gap) <= again.rounding + (
        solution.certificate.rounding
    )


def test_an_error_in_a_callback_leaves_the_device_usable(cuda, rows):
    X, y = rows

    def fail(checkpoint):
        raise RuntimeError("an error of the callback")

    with pytest.raises(RuntimeError, match="an error of the callback"):
        fit(X, y, engine="gpu", callback=fail)
    check(fit(X, y, engine="gpu"), X, y)


def test_a_device_that_is_not_there_is_refused(cuda, rows):
    X, y = rows
    with pytest.raises(ValueError, match="device must be from 0 to"):
        fit(X, y, device=999)
