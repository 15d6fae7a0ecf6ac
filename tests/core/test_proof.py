"""A certificate is a proof: P and D in exact arithmetic keep to their bounds, on hard problems."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np
import pytest
from exact import Case, Exact, exact, random_case

import batchsvm
from batchsvm import losses, methods
from batchsvm.core.certificate import Certificate

PART = 500


def certify(case: Case, engine: str = "cpu") -> Certificate:
    return batchsvm.certify(
        case.X, case.y, case.w, case.alpha, case.loss, case.lam, case.sample_weight,
        radius=case.radius, bias=case.bias, offset=case.offset, engine=engine,
    )  # fmt: skip


def prove(case: Case, certificate: Certificate, intercept: float = 0.0) -> float:
    """Hold a certificate against exact arithmetic; how much of its rounding error there is."""
    if not isfinite(certificate.bound):
        return 0.0
    problem = Exact(case, intercept)
    primal, dual = problem.primal(case.w), problem.dual(problem.nearest(case.alpha))
    at_most = max(primal, problem.primal(problem.in_ball(case.w)))
    assert at_most <= exact(certificate.primal_above), (case, certificate)
    assert dual >= exact(certificate.dual_below), (case, certificate)
    assert at_most - dual <= exact(certificate.bound), (case, certificate)
    assert dual - at_most <= at_most * 2.0**-1000, case  # quotients are rounded, far behind
    assert dual <= problem.primal(np.zeros(len(case.w))), case
    error = abs(primal - dual - exact(certificate.gap))
    return float(error / exact(certificate.rounding)) if certificate.rounding else float(error)


def prove_many(seed: int, count: int, engine: str = "cpu") -> float:
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(count):
        case = random_case(rng)
        worst = max(worst, prove(case, certify(case, engine)))
    return worst


@pytest.mark.parametrize("seed", range(10))
def test_no_certificate_is_wrong(seed):
    assert 0.0 < prove_many(seed, PART) < 1.0


def test_no_certificate_of_the_reference_engine_is_wrong():
    assert 0.0 < prove_many(10, 300, "reference") < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_no_certificate_in_a_million_is_wrong(seed, record_property):
    worst = prove_many(1000 + seed, 10_000)
    record_property("error over rounding", worst)
    assert worst < 1.0


def prove_fits(seed: int, count: int) -> None:
    """Fits with every intercept, paths, projections and warm starts, held against exact
    arithmetic at the point that they return."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        case = random_case(rng)
        if case.kind in ("scales", "subnormal"):
            continue
        options = {"tol": 0.0 if k % 2 else 1e-3, "max_epochs": 20, "random_state": 0}
        weights = case.sample_weight
        match k % 4:
            case 0:
                found = batchsvm.fit(
                    case.X, case.y, case.loss, lam=case.lam, bias=case.bias,
                    sample_weight=weights, offset=case.offset, warn=False, **options,
                )  # fmt: skip
                at = case._replace(w=found.w, alpha=found.alpha, radius=inf)
                prove(at, found.certificate)
                again = certify(at)
                if found.w.any():
                    assert again == found.certificate
                else:  # training certifies w = 0 without a pass, in another order of additions
                    assert again.dual == found.certificate.dual
                    off = again.primal_rounding + found.certificate.primal_rounding
                    assert abs(again.primal - found.certificate.primal) <= off
            case 1:
                method = methods.Pegasos(radius=float(10.0 ** rng.uniform(-2, 1)))
                found = batchsvm.fit(
                    case.X, case.y, case.loss, lam=case.lam, bias=case.bias,
                    sample_weight=weights, method=method, warn=False, **options,
                )  # fmt: skip
                at = case._replace(w=found.w, alpha=found.alpha, radius=method.radius, offset=None)
                prove(at, found.certificate)
            case 2:
                lams = case.lam * np.array([10.0, 1.0])
                found = batchsvm.path(
                    case.X, case.y, lams, case.loss, sample_weight=weights,
                    intercept="penalised", scaling=2.0, warn=False, **options,
                )  # fmt: skip
                for model, lam in zip(found.models, lams, strict=True):
                    solution = model.solution
                    at = case._replace(
                        w=solution.w, alpha=solution.alpha, lam=float(lam), bias=2.0, offset=None,
                        radius=inf,
                    )  # fmt: skip
                    prove(at, solution.certificate)
            case _:
                found = batchsvm.path(
                    case.X, case.y, [case.lam], case.loss, sample_weight=weights,
                    intercept="free", warn=False, **options,
                )  # fmt: skip
                [model] = found.models
                at = case._replace(
                    w=model.coef, alpha=model.solution.alpha, bias=None, offset=None, radius=inf
                )
                prove(at, model.solution.certificate, model.intercept)
                problem = Exact(at)
                pairs = zip(problem.signs, problem.nearest(at.alpha), strict=True)
                assert sum(s * a for s, a in pairs) == 0


@pytest.mark.parametrize("seed", range(4))
def test_no_fit_is_wrong(seed):
    prove_fits(seed, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_fit_in_many_is_wrong(seed):
    prove_fits(100 + seed, 100)


# Each of these was once certified with too small a rounding error, or not at all.


def test_a_response_at_a_kink_counts():
    case = Case(
        "kink", np.array([[-20808.0, -5410, -2669, -7240]]), np.array([1.0]),
        np.array([1.28126077807589, -3.1256300480082313, -1.2503745603865457, -0.8859897802219466]),
        np.zeros(1), losses.Hinge(), 1e-12, None, None, None, inf,
    )  # fmt: skip
    certificate = certify(case)
    assert Exact(case).primal(case.w) > exact(certificate.primal * 1.5)
    prove(case, certificate)


def test_a_w_of_alpha_that_cancels_to_nothing_proves_nothing():
    X = np.array([[1e16, 1e16], [1, 0], [-1e16, -1e16]])
    solution = batchsvm.fit(X, [1, 1, 1], lam=1e-6, initial=([0, 0], [1, 1, 1]), warn=False)
    assert solution.status is batchsvm.Status.PRECISION
    assert solution.certificate.bound > 1 / 3


def test_epsilon_and_y_count():
    certificate = batchsvm.certify(
        [[1.0]], [1e16], [-1.0], [0.0], losses.EpsilonInsensitive(1e16), 1e-12
    )
    assert certificate.bound >= 1.0


@pytest.mark.parametrize("b", range(20, 37))
def test_a_small_alpha_of_the_logistic_loss(b):
    alpha = 1 / (1 + np.exp(b))
    certificate = batchsvm.certify([[1e-3]], [1], [0.0], [alpha], "logistic", 1.0, offset=b)
    assert certificate.bound <= 1e-8 * certificate.primal


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_projected_w_stays_in_its_ball(engine):
    rng = np.random.default_rng(0)
    for k in range(40):
        X = rng.standard_normal((6, 3)) * 10.0 ** rng.uniform(0, 9)
        X[3:] = -X[:3] * (1 + 1e-9 * rng.standard_normal((3, 1)))
        y = rng.choice([-1.0, 1.0], 6)
        radius, bias = float(10.0 ** rng.uniform(-3, 0)), 1e6 if k % 2 else None
        solution = batchsvm.fit(
            X, y, lam=1e-6, method=methods.Pegasos(radius=radius), batch_size=2, bias=bias,
            max_epochs=30, warn=False, random_state=k, engine=engine,
        )  # fmt: skip
        case = Case("ball", X, y, solution.w, solution.alpha, losses.Hinge(), 1e-6, None, bias,
                    None, radius)  # fmt: skip
        prove(case, solution.certificate)
        assert np.linalg.norm(solution.w) <= radius * (1 + 1e-14)


def test_a_radius_bounds_what_rounding_can_do():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), rng.choice([-1.0, 1.0], 50)
    method = methods.Pegasos(radius=0.1)
    solution = batchsvm.fit(X, y, lam=1e-12, method=method, max_epochs=200, warn=False)
    assert solution.certificate.rounding < 1e-12


def test_a_stored_alpha_outside_of_the_exact_box_is_taken_to_its_nearest_point():
    quantile, c = 0.3, np.array([7.0, 3.0, 5.0])
    alpha = np.array([quantile * 7.0, (quantile - 1.0) * 3.0, quantile * 5.0])
    case = Case("box", np.eye(3), np.array([1.0, -2.0, 5.0]), np.zeros(3), alpha,
                losses.Quantile(quantile), 1e-3, c, None, None, inf)  # fmt: skip
    assert any(a != exact(b) for a, b in zip(Exact(case).nearest(alpha), alpha, strict=True))
    prove(case, certify(case))


def test_a_quotient_that_underflows_counts():
    """alpha_i/c_i is rounded by a part of itself, or by an underflow that a margin makes large."""
    case = Case("underflow", np.ones((1, 1)), np.ones(1), np.zeros(1), np.array([2.0 * 5e-324]),
                losses.Hinge(1e300), 1e10, np.array([0.75]), None, None, inf)  # fmt: skip
    prove(case, certify(case))
