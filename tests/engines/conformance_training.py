"""What every engine has to pass: training, by each method that it offers.

Laws are stated for all engines.  Where numbers are compared, schedules ask for float64 steps; the
order in which rows are visited is the engine's own, so that optima are compared, not bits.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from setting import (
    BY_CHANCE,
    CASES,
    CUT_SMALL,
    FORMS,
    ON_HOSTS,
    RUNS,
    Setting,
    everyone,
    offered,
    runs_of,
    scheduled,
    started,
    train_all,
)
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

import batchsvm
import oracle
from batchsvm.core.certificate import certify_point
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.solution import Status
from batchsvm.core.training import Start, train
from batchsvm.core.tuning import Tuning
from batchsvm.engines import place_on
from batchsvm.losses import LOSSES
from batchsvm.methods import (
    Aggressive,
    Blocks,
    DualMethod,
    Gram,
    Guarded,
    Naive,
    Pegasos,
    Safe,
)
from helpers import FORMATS, HOST_ENGINES, LAM, quietly, toy

every_run = pytest.mark.parametrize(("engine", "storage", "method"), RUNS)


def unscreened(method):
    """The method without screening, which pauses where it pleases."""
    return replace(method, skips=False) if isinstance(method, DualMethod) else method


# The optimum.


def choices(engine, storage):
    """The engine's own choice, and another one: method and batch size."""
    yield None, "auto"
    if engine == "cpu":
        return  # one kernel per loss; others are compiled elsewhere
    if engine in HOST_ENGINES or storage == "csr":
        yield Aggressive(), 5
    else:
        yield Gram(batches=2), 8


def test_the_certified_optimum_is_that_of_the_textbook(engine, loss_name, k):
    """P and D by other formulas: their difference proves both w and alpha."""
    setting, there = Setting(engine, loss_name, k).place(), Setting("reference", loss_name, k)
    there.place()
    tol = 1e-4
    with setting.data as data, there.data as other:
        problem = replace(setting.problem, radius=inf)
        setting.case = replace(setting.case, radius=inf)
        for method, batch_size in choices(engine, setting.storage):
            options = FitOptions(method, batch_size, tol, max_epochs=2000)
            for k_, found in enumerate(train_all(data, problem, options)):
                assert found.status is Status.CONVERGED
                primal, dual = setting.primal(k_, found.w), setting.dual(k_, found.alpha)
                assert primal - dual <= tol * setting.primal(k_, np.zeros(setting.p)) + 1e-12
                # The reference says the same of this point, but for rounding.
                theirs = replace(there.problem, radius=inf).only(k_)
                point = found.alpha[:, np.newaxis]
                [again] = certify_point(
                    other, theirs, found.w[:, np.newaxis], other.dual(theirs, point)
                )
                ours = found.certificate
                assert abs(ours.primal - again.primal) <= ours.rounding + again.rounding
                assert abs(ours.dual - again.dual) <= ours.rounding + again.rounding
                assert ours.support_vectors == np.count_nonzero(found.alpha)


@pytest.mark.parametrize(
    ("engine", "storage", "method"), runs_of(Safe, Guarded, Aggressive, Blocks, Gram)
)
def test_every_method_comes_to_the_optimum(engine, storage, method):
    setting = Setting(engine, "hinge", 1, storage).place()
    with setting.data as data:
        options = FitOptions(method, 6, 1e-3, max_epochs=2000)
        [found] = train(data, setting.problem, options, Start(0))
        alpha = found.alpha
    assert found.status is Status.CONVERGED
    assert setting.primal(0, found.w) - setting.dual(0, alpha) <= 1e-3


@pytest.mark.parametrize(("engine", "storage", "method"), runs_of(Naive, Pegasos))
def test_the_other_methods_come_closer(engine, storage, method):
    setting = Setting(engine, "hinge", 1, storage).place()
    with setting.data as data:
        options = FitOptions(method, 6, 0.0, max_epochs=10.0)
        [found] = train(data, setting.problem, options, Start(0))
        alpha = found.alpha
    assert setting.primal(0, found.w) - setting.dual(0, alpha) <= 0.3


def independent_solution(X, y, loss_name):
    """w of scikit-learn, for the lam of the tests."""
    arguments = {"C": 1 / (LAM * len(y)), "tol": 1e-9, "max_iter": 1_000_000}
    if loss_name == "logistic":
        model = LogisticRegression(fit_intercept=False, **arguments)
    elif loss_name == "epsilon_insensitive":
        model = LinearSVR(epsilon=0.1, fit_intercept=False, random_state=0, **arguments)
    else:
        model = LinearSVC(
            loss=loss_name, dual=True, fit_intercept=False, random_state=0, **arguments
        )
    return model.fit(X, y).coef_.ravel()


@pytest.mark.parametrize("loss_name", ["hinge", "logistic", "squared_hinge", "epsilon_insensitive"])
def test_the_certified_optimum_is_that_of_another_solver(engine, loss_name):
    X, y = toy(loss_name)
    solution = batchsvm.fit(
        FORMATS[CASES[loss_name].form](X), y, loss_name, LAM, tol=1e-6, max_epochs=10_000,
        random_state=0, engine=engine,
    )  # fmt: skip
    at_zero = oracle.primal(X, y, np.zeros(X.shape[1]), loss_name, LAM)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap <= 1e-6
    other = oracle.primal(X, y, independent_solution(X, y, loss_name), loss_name, LAM)
    ours = oracle.primal(X, y, solution.w, loss_name, LAM)
    assert ours == pytest.approx(other, abs=1e-6 * at_zero)
    assert oracle.dual(X, y, solution.alpha, loss_name, LAM) <= other + 1e-12


@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge", "huber"])
def test_training_with_a_weight_is_training_with_as_many_copies(engine, loss_name):
    X, y = toy(loss_name)
    weight = np.random.default_rng(0).integers(0, 4, size=len(y)).astype(float)
    copies = np.repeat(np.arange(len(y)), weight.astype(int))
    form = FORMATS[CASES[loss_name].form]
    options = {"tol": 1e-6, "max_epochs": 10**4, "engine": engine, "precision": "float64"}
    one = batchsvm.fit(form(X), y, loss_name, LAM, sample_weight=weight, **options)
    many = batchsvm.fit(form(X[copies]), y[copies], loss_name, LAM, **options)
    assert one.certificate.primal == pytest.approx(many.certificate.primal, rel=2e-6)
    np.testing.assert_allclose(one.w, many.w, atol=1e-2)
    assert not one.alpha[weight == 0].any()


@pytest.mark.parametrize("storage", FORMS)
@pytest.mark.parametrize("kind", ["labels", "columns", "lams", "weights"])
def test_many_problems_have_the_optima_of_single_fits(engine, storage, kind):
    loss_name = "huber" if kind == "columns" else "hinge"
    X, y = toy(loss_name)
    rng = np.random.default_rng(2)
    columns, lams, weights = [y] * 3, [LAM] * 3, None
    if kind == "labels":
        targets = rng.integers(0, 3, size=len(y))
        columns = [np.where(targets == k, 1.0, -1.0) for k in range(3)]
    elif kind == "columns":
        columns = [y, y[::-1], y**2]
        targets = np.column_stack(columns)
    elif kind == "lams":
        targets, lams = y, [0.3, LAM, 0.01]
    else:
        targets = np.column_stack([y] * 3)
        weights = rng.integers(0, 3, size=(len(y), 3)).astype(float)
    options = {"loss": loss_name, "tol": 1e-4, "max_epochs": 2000, "engine": engine}
    stored = FORMATS[FORMS[storage]](X)
    together = batchsvm.fit_many(stored, targets, lam=lams, sample_weight=weights, **options)
    assert len(together) == 3
    for k, ours in enumerate(together):
        alone = batchsvm.fit(
            stored, columns[k], lam=lams[k], **options,
            sample_weight=None if weights is None else weights[:, k],
        )  # fmt: skip
        assert ours.lam == alone.lam == lams[k]
        assert ours.status is Status.CONVERGED
        bounds = ours.certificate.bound + alone.certificate.bound
        assert abs(ours.certificate.primal - alone.certificate.primal) <= bounds
        # P is strongly convex: w is no further from the optimum than the bound allows.
        assert np.linalg.norm(ours.w - alone.w) <= 2 * np.sqrt(2 * bounds / lams[k])
    assert len({tuple(solution.w) for solution in together}) == 3


# The same seed.


@every_run
def test_the_same_seed_gives_the_same_bits(engine, storage, method):
    if isinstance(method, BY_CHANCE):
        pytest.skip("which of its steps comes first is left to chance")
    X, y = toy("hinge")
    for jobs in (1, 2) if engine in HOST_ENGINES else (1,):
        stored = FORMATS[FORMS[storage]](X)
        with place_on(engine, stored, jobs, CUT_SMALL, deterministic=True) as data:
            assert data.deterministic
            first, second, other = (
                quietly(
                    data, y, lam=LAM, method=method, batch_size=6, tol=1e-9, max_epochs=4,
                    random_state=seed,
                )
                for seed in (7, 7, 8)
            )  # fmt: skip
            for name in ("w", "alpha"):
                np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
            np.testing.assert_array_equal(first.history.gap, second.history.gap)
            assert not np.array_equal(first.alpha, other.alpha)


# Steps.


@pytest.mark.parametrize(("method", "beta"), [(Naive, 1.0), (Safe, 3.0)])
@pytest.mark.parametrize("step", ["general", "literal"])
def test_a_step_is_that_of_the_paper(engine, method, beta, step):
    assert_step_of_the_paper(engine, method(step=step), beta)


def assert_step_of_the_paper(engine, method, beta):
    """Eq. (MBalphai): divided by beta ||x_i||^2, or by beta alone."""
    X, y = toy("hinge")
    X = X / np.linalg.norm(X, axis=1).max()
    n, lam = len(y), 5e-4
    with place_on(engine, X, 1, Tuning(min_part_rows=n)) as data:  # all rows are in one batch
        problem = make_problem(data.targets(y), LOSSES["hinge"](), lam)
        start = 0.02 * Setting(engine, "hinge", 1).random_points()[1]
        schedule = scheduled(method, n, beta_b=3.0)
        trainer = started(data, problem, schedule, data.dual(problem, start))
        w = trainer.point()[:, 0].copy()
        trainer.run(1, np.array([-inf]), StopFlag())
        trainer.keep_dual(everyone(problem))
        alpha = trainer.best()[1].fetch()[:, 0]
    norms2 = (X**2).sum(axis=1) if method.step == "general" else np.ones(n)
    with np.errstate(divide="ignore"):  # row 3 is zero
        free = start[:, 0] + (1 - y * (X @ w)) * lam * n / (beta * norms2)
    np.testing.assert_allclose(alpha, np.clip(free, 0.0, 1.0), rtol=1e-11, atol=1e-13)
    inside = (alpha > 0) & (alpha < 1) & (alpha != start[:, 0])
    assert inside.sum() > 10  # at a bound, steps of all lengths are the same


# What is refused.


@pytest.mark.parametrize("storage", FORMS)
def test_what_is_not_offered_is_refused_with_one_sentence(engine, storage):
    X, y = toy("hinge")
    with place_on(engine, FORMATS[FORMS[storage]](X), 1) as data:
        problem = make_problem(data.targets(y), LOSSES["hinge"](), LAM)
        names = {method.name for method in offered(engine, storage)}
        for method in ON_HOSTS:
            if method.name not in names:
                words = f'^method must be .* on the {engine} engine, not "{method.name}"$'
                with pytest.raises(ValueError, match=words):
                    batchsvm.fit(data, y, method=method)
                with pytest.raises(ValueError, match=words):
                    started(data, problem, scheduled(method, 6))
        for batch_size in (0, 61):
            with pytest.raises(ValueError, match=rf"^batch_size must be .*, not {batch_size}$"):
                batchsvm.fit(data, y, batch_size=batch_size)
        if engine not in HOST_ENGINES:
            for name, arguments in (
                ("averaging", {"averaging": "tail", "method": Safe()}),
                ("sampling", {"method": Safe(sampling="subsets")}),
            ):
                words = rf"^{name} must be .*on the {engine} engine.*$"
                with pytest.raises(ValueError, match=words):
                    batchsvm.fit(data, y, batch_size=6, **arguments)
