"""Properties over random small problems, found by hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import batchsvm
import oracle
from batchsvm.losses import LOSSES
from helpers import HOST_METHODS, quietly

entries = st.floats(-8, 8, width=32).map(lambda v: 0.0 if abs(v) < 2**-10 else v)


@st.composite
def problems(draw):
    """X, y, loss, lam: at most 8 x 4, zero rows, repeated rows and one class included."""
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    X = draw(hnp.arrays(np.float64, (n, d), elements=entries))
    loss = draw(st.sampled_from(sorted(LOSSES)))
    if LOSSES[loss].task == "classification":
        y = draw(hnp.arrays(np.float64, n, elements=st.sampled_from([-1.0, 1.0])))
    else:
        y = draw(hnp.arrays(np.float64, n, elements=entries))
    lam = draw(st.floats(-2, 1).map(lambda e: 10.0**e))
    return X, y, loss, lam


@given(problems(), st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_the_gap_of_any_feasible_point_is_not_negative(problem, random, near_box, weighted):
    X, y, loss, lam = problem
    rng = np.random.default_rng(random.randrange(2**32))
    kind = LOSSES[loss]()
    bottom, top = max(kind.lower, -5.0), min(kind.upper, 5.0)
    alpha = rng.uniform(bottom, top, size=len(y))
    if near_box:
        alpha = np.where(rng.random(len(y)) < 0.5, bottom, top)
    weights = None
    if weighted:
        weights = 10.0 ** rng.uniform(-6, 3, size=len(y)) * (rng.random(len(y)) < 0.8)
        weights[0] = 1.0
        alpha *= weights
    w = rng.normal(size=X.shape[1]) * 10.0 ** rng.uniform(-3, 2)
    for point in (w, oracle.w_of_alpha(X, y, alpha, loss, lam, weights)):
        certificate = batchsvm.certify(X, y, point, alpha, loss, lam, weights)
        assert certificate.gap >= -certificate.rounding
        primal = oracle.primal(X, y, point, loss, lam, weights)
        dual = oracle.dual(X, y, alpha, loss, lam, weights)
        error = abs(certificate.primal - primal) + abs(certificate.dual - dual)
        # Both computations round; the bound is for one of them.
        assert error <= 2 * certificate.rounding


@given(problems(), st.sampled_from(sorted(HOST_METHODS)), st.integers(1, 8), st.integers(0, 9))
def test_dual_values_stay_below_primal_values_of_all_runs(problem, method, b, seed):
    X, y, loss, lam = problem
    solution = quietly(
        X, y, loss, lam, method, min(b, len(y)), tol=1e-4, max_epochs=20, random_state=seed
    )
    best = quietly(X, y, loss, lam, tol=1e-7, max_epochs=3000, random_state=0).certificate
    slack = solution.certificate.rounding + best.rounding
    assert solution.certificate.dual <= best.primal + slack
    assert best.dual <= solution.certificate.primal + slack
    assert np.isfinite(solution.w).all()
    kind = LOSSES[loss]()
    assert np.all((solution.alpha >= kind.lower) & (solution.alpha <= kind.upper))


def certified_optimum(X, y, loss, lam):
    solution = quietly(X, y, loss, lam, tol=1e-9, max_epochs=30_000, random_state=0)
    assume(solution.status.converged)
    return solution.certificate


@pytest.mark.slow
@given(problems(), st.randoms(use_true_random=False))
def test_permuting_rows_and_features_changes_nothing(problem, random):
    X, y, loss, lam = problem
    rows, columns = list(range(X.shape[0])), list(range(X.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    one = certified_optimum(X, y, loss, lam)
    two = certified_optimum(X[rows][:, columns], y[rows], loss, lam)
    assert one.primal == pytest.approx(two.primal, abs=2e-9 * max(1.0, abs(one.primal)))


@given(problems(), st.sampled_from([0.25, 0.5, 2.0, 8.0]), st.integers(1, 8))
def test_scaling_data_and_lam_together_changes_only_the_length_of_w(problem, c, b):
    X, y, loss, lam = problem
    # A power of two scales exactly, so that even the iterates are the same.
    for method in ("safe", "aggressive"):
        run = [
            quietly(
                X * s, y, loss, lam * s * s, method, min(b, len(y)), tol=0, max_epochs=3,
                random_state=1,
            )
            for s in (1.0, c)
        ]  # fmt: skip
        np.testing.assert_allclose(run[0].w, run[1].w * c, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(run[0].alpha, run[1].alpha, rtol=1e-9, atol=1e-9)
        assert run[0].certificate.primal == pytest.approx(run[1].certificate.primal, rel=1e-9)


@given(problems())
def test_sigma2_bounds_hold(problem):
    X, _, _, _ = problem
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    unit = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)
    n = X.shape[0]
    exact = max(np.linalg.norm(unit, 2) ** 2 / n, 1 / n)
    assert batchsvm.sigma2(X) == pytest.approx(exact)
    for how in ("lanczos", "sample", "crude"):
        assert batchsvm.sigma2(X, how) >= exact * (1 - 1e-9)
