"""The ends of penalised problems inside a free intercept: estimates, Newton's method, digits."""

from __future__ import annotations

import numpy as np
import pytest

import batchsvm
from batchsvm import Status
from batchsvm.core.layout import Schedule
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.engines.cpu.problem import CpuProblem
from batchsvm.engines.cpu.steppers import SerialSteps
from batchsvm.losses import LOSSES
from batchsvm.methods import Pegasos, Safe
from helpers import toy

# The virtual column


def counted(monkeypatch, owner, name):
    """The calls of a method are counted in the list that this returns."""
    made, method = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *a, **k: made.append(name) or method(*a, **k))
    return made


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_penalised_problems_whose_estimates_are_of_all_rows_are_not_certified(
    loss, cancer, monkeypatch
):
    X, y = cancer
    passes = counted(monkeypatch, CpuProblem, "_pass_at")
    [solution] = batchsvm.fit_many(
        X, np.where(y > 0, 1.0, -1.0)[:, np.newaxis], loss, lam=1e-2, intercept="free", tol=1e-6,
        random_state=0, method="safe", batch_size=1,
    )  # fmt: skip
    assert solution.status is Status.CONVERGED
    outer = len(solution.history)
    assert outer > 1
    # The joint certificates alone; the hinge leaves rows out, and has to look at them.
    assert (len(passes) == outer) == (loss == "logistic")
    assert solution.certificate.bound <= 1e-6 * solution.certificate.primal
    assert np.isfinite(solution.history.primal).all()
    assert (np.diff(solution.history.certify_seconds) > 0).all()


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge"])
def test_newtons_method_finds_a_free_intercept_with_one_problem(loss):
    """Rows of a rare class, far from the origin: b has a long way to go."""
    rng = np.random.default_rng(0)
    X = 3.0 + rng.normal(size=(4000, 8)) @ rng.normal(size=(8, 8))
    y = np.where(X[:, 0] + X[:, 1] + 2.0 * rng.normal(size=4000) > 12.0, 1.0, -1.0)
    assert 20 < (y > 0).sum() < 1000
    common = {"loss": loss, "lam": 1e-4, "tol": 1e-5, "intercept": "free", "random_state": 0}
    for method in ("newton", "auto"):
        [solution] = batchsvm.fit_many(X, y[:, np.newaxis], method=method, **common)
        plan = batchsvm.plan(X, y, loss=loss, lam=1e-4, tol=1e-5, intercept="free", method=method)
        assert solution.status is Status.CONVERGED
        assert (solution.plan, plan.reason) == (plan, solution.plan.reason)
        assert solution.method.name == "newton"
        tried = plan.fallback == "newton"  # SDCA comes first, and its constant column is short
        assert tried == (method == "auto" and loss == "hinge")
        assert tried or (plan.method == "newton" and len(solution.history) == 1)
    sharp = batchsvm.fit_many(
        X, y[:, np.newaxis], method="safe", batch_size=1, max_epochs=20_000, **common
    )
    ours, theirs = solution.certificate, sharp[0].certificate
    assert abs(ours.primal - theirs.primal) <= ours.bound + theirs.bound


TRUSTED = {"loss": "logistic", "lam": 1e-3, "intercept": "free", "random_state": 0,
           "method": "safe", "batch_size": 1}  # fmt: skip


def as_many(X, y, **options):
    [solution] = batchsvm.fit_many(X, y[:, np.newaxis], **{**TRUSTED, **options})
    return solution


@pytest.mark.parametrize("last_call", [2, 4, 6])  # in the first problem, and in later ones
def test_a_penalised_problem_without_a_certificate_can_be_interrupted(
    cancer, monkeypatch, last_call
):
    X, y = cancer
    calls, advance = [], SerialSteps.advance
    reference = as_many(X, y, tol=1e-9)

    def interrupted(self, count, target):
        calls.append(count)
        if len(calls) == last_call:
            raise KeyboardInterrupt
        return advance(self, count, target)

    monkeypatch.setattr(SerialSteps, "advance", interrupted)
    solution = as_many(X, y, tol=1e-9, warn=False)
    assert solution.status is Status.INTERRUPTED
    bound = solution.certificate.bound
    assert np.isfinite(bound)
    assert solution.certificate.primal >= reference.certificate.dual_below
    assert solution.certificate.dual <= reference.certificate.primal_above


def test_a_penalised_problem_without_a_certificate_may_run_out_of_epochs(cancer):
    X, y = cancer
    solution = as_many(X, y, tol=1e-9, max_epochs=3, warn=False)
    assert solution.status is Status.MAX_EPOCHS
    assert solution.history.epoch[-1] == 3
    assert 1e-9 < solution.certificate.relative_gap < 10


def test_estimates_that_miss_the_rows_that_count_do_not_last():
    """Every fourth visit is looked at, and a dozen rows have nearly all of the weight."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = np.where(X[:, 0] + rng.normal(size=6000) > 0, 1.0, -1.0)
    weights = np.where(np.arange(6000) % 500 == 7, 1.0, 1e-9)
    solution = as_many(X, y, tol=1e-6, sample_weight=weights)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.bound <= 1e-6 * solution.certificate.primal


@pytest.mark.parametrize(
    ("options", "reliable"),
    [({}, True), ({"averaging": "decay"}, False), ({"sampling": "replacement"}, False),
     ({"sampling": "subsets"}, False), ({"method": "pegasos"}, False), ({"loss": "hinge"}, False)],
)  # fmt: skip
def test_which_estimates_are_reliable(options, reliable):
    X, y = toy("logistic")
    loss = LOSSES[options.get("loss", "logistic")]()
    sampling = options.get("sampling", "permutation")
    method = Pegasos() if "method" in options else Safe(sampling=sampling)
    with place_on("cpu", X, 1) as data:
        trainer = data.trainer(make_problem(data.targets(y), loss, 0.1))
        trainer.start(Schedule(method, 1, averaging=options.get("averaging")))
        assert trainer.estimates_are_reliable == reliable


def test_an_intercept_goes_on_while_its_steps_grow():
    """The penalised problems have no digits left, with gaps far below that of the joint one."""
    rng = np.random.default_rng(2018)
    rng.choice([30, 300]), rng.choice([1, 5, 30, 300]), rng.choice([1e-3, 1, 1e3])
    rng.choice([0, 3, 100])
    X = 1e-3 * rng.normal(size=(30, 5))
    rng.random(), rng.choice(6)
    score = X @ rng.normal(size=5) / 1e-3
    score -= np.median(score) if rng.random() < 0.6 else np.quantile(score, 0.97)
    y = np.where(score + 0.5 * rng.normal(size=30) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    [solution] = batchsvm.fit_many(
        X, y[:, np.newaxis], "smoothed_hinge", lam=1.0, tol=1e-12, intercept="free",
        random_state=0, max_epochs=3000, warn=False,
    )  # fmt: skip
    assert solution.status is Status.CONVERGED
    assert solution.certificate.gap <= 2 * solution.certificate.rounding
