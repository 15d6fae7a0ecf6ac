"""The certificate: from scratch, in float64, and suspicious of itself."""

from __future__ import annotations

import numpy as np
import pytest

import batchsvm
import oracle
from batchsvm.losses import Hinge, SquaredHinge
from helpers import LAM, placed, quietly, toy


class WrongConjugate(Hinge):
    """A hinge whose dual values are too good to be true."""

    __slots__ = ()

    def conjugate(self, alpha):
        return -1.5 * alpha


def test_a_gap_below_its_rounding_error_raises():
    X, y = toy("hinge")
    solution = batchsvm.fit(X, y, lam=LAM, tol=1e-6)
    with pytest.raises(batchsvm.CertificateError, match="above primal"):
        batchsvm.certify(X, y, solution.w, solution.alpha, WrongConjugate(), LAM)


def test_it_does_not_believe_a_wrong_w():
    X, y = toy("hinge")
    solution = batchsvm.fit(X, y, lam=LAM, tol=1e-8)
    off = batchsvm.certify(X, y, solution.w + 0.1, solution.alpha, lam=LAM)
    assert off.gap > 1e-4
    assert off.dual == solution.certificate.dual
    off = batchsvm.certify(X, y, solution.w, 0.9 * solution.alpha, lam=LAM)
    assert off.gap > 1e-4
    assert off.primal == solution.certificate.primal


def test_methods_cannot_report_on_themselves(monkeypatch):
    # A method whose w drifts from w(alpha) is found out by the certificate.
    from batchsvm.engines.state import DualState

    X, y = toy("hinge")
    asked = {"lam": LAM, "method": "safe", "batch_size": 1, "tol": 0, "max_epochs": 100}
    honest = quietly(X, y, random_state=0, **asked).certificate
    monkeypatch.setattr(DualState, "primal_point", lambda self: self.w * 1.05)
    drifted = quietly(X, y, random_state=0, **asked).certificate
    assert drifted.gap > honest.gap + 1e-5


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_blocks_and_threads_change_nothing_but_rounding(jobs):
    X, y = toy("logistic", n=500)
    solution = batchsvm.fit(X, y, "logistic", LAM)
    with placed(X, jobs, max_block_rows=64, min_parallel_nonzeros=0) as data:
        again = batchsvm.certify(data, y, solution.w, solution.alpha, "logistic", LAM)
    assert again.primal == pytest.approx(solution.certificate.primal, abs=1e-14)
    assert again.dual == pytest.approx(solution.certificate.dual, abs=1e-14)
    assert again.support_vectors == solution.certificate.support_vectors


def test_float32_data_gets_a_float64_certificate():
    X, y = toy("hinge")
    X32 = (X * (1 / 3)).astype(np.float32)
    solution = batchsvm.fit(X32, y, lam=LAM, tol=1e-10, max_epochs=100_000)
    assert solution.certificate.relative_gap <= 1e-10  # far below float32's rounding
    expected = oracle.primal(X32.astype(np.float64), y, solution.w, "hinge", LAM)
    assert solution.certificate.primal == pytest.approx(expected, abs=1e-14)


def test_the_rounding_bound_is_small_and_true():
    X, y = toy("hinge", n=2000, d=50)
    solution = batchsvm.fit(X, y, lam=1e-3, tol=1e-6, max_epochs=5000)
    certificate = solution.certificate
    assert 0 < certificate.rounding < 1e-9
    long = np.longdouble
    z = X.astype(long) @ solution.w.astype(long)
    primal = np.maximum(1 - y * z, 0).mean() + long(1e-3) / 2 * (solution.w.astype(long) ** 2).sum()
    w = X.astype(long).T @ (solution.alpha * y) / (long(1e-3) * 2000)
    dual = solution.alpha.astype(long).mean() - long(1e-3) / 2 * (w**2).sum()
    assert abs(long(certificate.gap) - (primal - dual)) < certificate.rounding


def test_the_rounding_bound_covers_dot_products():
    # Terms of size 1e12 that cancel: what the dot product rounds is all there is.
    X, w = np.array([[1e8, 1e8], [1.0, -1.0]]), np.array([1e4, -1e4])
    bound = batchsvm.certify(X, [1, -1], w, [0.0, 0.0], lam=1e-3).rounding
    assert bound > 1e12 / 2 * 2**-53


def test_the_rounding_bound_covers_the_sum_in_w_of_alpha():
    # n equal terms added up one by one may be off by n units, the square of the sum too.
    n, lam = 5000, 1e-3
    bound = batchsvm.certify(np.ones((n, 1)), np.ones(n), [0.0], np.ones(n), lam=lam).rounding
    assert bound > n / lam * 2**-53


def test_alpha_of_a_row_without_weight_must_be_zero():
    # Its box is a point even where that of the loss is unbounded: 0 times infinity.
    X, y, weights = [[1.0], [1.0]], [1, -1], [1.0, 0.0]
    with pytest.raises(ValueError, match=r"alpha\[1\] is 2.0"):
        batchsvm.certify(X, y, [0.0], [2.0, 2.0], "squared_hinge", 1.0, weights)
    found = batchsvm.certify(X, y, [0.0], [2.0, 0.0], "squared_hinge", 1.0, weights)
    assert found.gap > 0.5  # the optimum is 1/3
    with pytest.raises(ValueError, match="alpha must lie"):
        batchsvm.fit(X, y, "squared_hinge", 1.0, sample_weight=weights, initial=([0.0], [2.0, 9.0]))


def test_the_box_is_as_small_as_the_weight():
    X, y = [[1.0], [1.0]], [1, -1]
    with pytest.raises(ValueError, match="box"):
        batchsvm.certify(X, y, [0.0], [5e-10, 0.0], "hinge", 1e-12, [1e-12, 1e-12])


def test_infeasible_alpha_is_refused():
    X, y = toy("hinge")
    w, alpha = np.zeros(6), np.zeros(60)
    alpha[7] = 1.5
    with pytest.raises(ValueError, match=r"alpha\[7\] is .*1.5"):
        batchsvm.certify(X, y, w, alpha)
    weights = np.full(60, 2.0)
    batchsvm.certify(X, y, w, alpha, sample_weight=weights)
    weights[7] = 1.0
    with pytest.raises(ValueError, match="weight times"):
        batchsvm.certify(X, y, w, alpha, sample_weight=weights)
    alpha[7] = -0.1
    with pytest.raises(ValueError, match="box"):
        batchsvm.certify(X, y, w, alpha)


def test_naive_steps_that_run_away_are_reported_not_certified():
    # Squared hinge: alpha has no upper bound, and two classes of the same rows throw w to
    # and fro, further each time.
    X = np.ones((50, 2))
    y = np.where(np.arange(50) % 2, 1.0, -1.0)
    with pytest.warns(match="grew beyond all bounds"):
        solution = batchsvm.fit(
            X, y, SquaredHinge(), 1e-4, "naive", batch_size=50, tol=1e-6, max_epochs=5000
        )
    assert solution.status is batchsvm.Status.DIVERGED
    assert np.isfinite(solution.w).all()
    assert np.isfinite(solution.certificate.gap)


def test_it_reads_well():
    X, y = toy("hinge")
    solution = batchsvm.fit(X, y, lam=LAM, random_state=0)
    assert "above the optimum" in str(solution.certificate)
    assert "within tol" in str(solution)
