"""A certificate is a proof: P and D in exact arithmetic keep to their bounds, on hard problems."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np
import pytest
from exact import Case, Exact, exact, random_case

import batchsvm
from batchsvm import methods
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
    assert dual <= at_most, case
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
                assert again == found.certificate
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
@pytest.mark.parametrize("seed", range(50))
def test_no_fit_in_many_is_wrong(seed):
    prove_fits(100 + seed, 400)
