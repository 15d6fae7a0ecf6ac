"""What every engine has to pass: where a trainer stands, how far it runs, what it keeps, and how
training ends.  Schedules ask for float64 steps where numbers are compared."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from setting import (
    FORMS,
    RUNS,
    Setting,
    at_once,
    close_to,
    everyone,
    offered,
    repeatable,
    scheduled,
    started,
    train_all,
)

from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.solution import Status
from batchsvm.core.training import Start, train
from batchsvm.engines import place_on
from batchsvm.losses import LOSSES
from batchsvm.methods import (
    Aggressive,
    Blocks,
    DualMethod,
    Gram,
    Naive,
    Pegasos,
    Safe,
)
from helpers import FORMATS, HOST_ENGINES, toy

every_run = pytest.mark.parametrize(("engine", "storage", "method"), RUNS)


def unscreened(method):
    """The method without screening, which pauses where it pleases."""
    return replace(method, skips=False) if isinstance(method, DualMethod) else method


# Where a trainer stands.


@every_run
def test_a_trainer_stands_at_its_dual_point_before_the_first_iteration(engine, storage, method, k):
    setting = Setting(engine, "hinge", k, storage).place()
    with setting.data as data:
        problem = at_once(data, setting.problem, method)
        _, alpha = setting.random_points()
        alpha = np.asfortranarray(alpha[:, k - problem.k :])
        for dual in (None, data.dual(problem, alpha)):
            trainer = started(data, problem, scheduled(method, 6), dual)
            expected = data.combination(problem, data.dual(problem) if dual is None else dual)
            close_to(trainer.combination(), expected)
            w = expected / (problem.lam * setting.n)
            close_to(trainer.point(), w)
            close_to(trainer.iterate(), w)
            np.testing.assert_array_equal(trainer.refused, 0)
            if isinstance(method, Pegasos):
                assert np.isnan(trainer.beta).all()
            elif isinstance(method, Gram):
                first = method.first_beta(2.0, 2 if method.batches == 2 else 1)
                np.testing.assert_array_equal(trainer.beta, first)
            else:
                np.testing.assert_array_equal(trainer.beta, method.first_beta(2.0))
            progress = trainer.run(1, np.full(problem.k, -inf), StopFlag())
            np.testing.assert_array_equal(progress.iterations, 1)
            trainer.keep_dual(everyone(problem))
            first = 0 * alpha if dual is None else alpha
            assert not np.array_equal(trainer.best()[1].fetch(), first)


def shows(engine, storage):
    """A method for which a trainer shows most."""
    if engine in HOST_ENGINES:
        return Blocks(blocks=2)
    return Gram(batches=2) if storage == "dense" else Aggressive()


def test_what_a_trainer_shows_of_its_problems(engine, loss_name, k):
    setting = Setting(engine, loss_name, k).place()
    method = shows(engine, setting.storage)
    with setting.data as data:
        problem = at_once(data, setting.problem, method)
        trainer = data.trainer(problem)
        for ours, expected in zip(trainer.facts, data.facts(problem), strict=True):
            np.testing.assert_array_equal(ours, expected)
        trainer.start(scheduled(method, 6, recent_mean=True, seed=1))
        assert trainer.survives_exceptions
        assert not trainer.point().any()
        assert trainer.recent_mean() is None
        trainer.run(40, np.full(problem.k, -inf), StopFlag())
        shape = setting.p, problem.k
        W, combination = trainer.point(), trainer.combination()
        assert W.shape == trainer.iterate().shape == combination.shape == shape
        recent = trainer.recent_mean()
        assert engine not in HOST_ENGINES if recent is None else recent.shape == shape
        assert trainer.beta.shape == trainer.refused.shape == (problem.k,)
        assert np.all(trainer.beta >= 1)
        weight = data.facts(problem).total_weight
        np.testing.assert_allclose(W, combination / (problem.lam * weight), rtol=1e-9, atol=1e-12)
        assert_keeps(setting, trainer, problem, W)
        # The full pass of a trainer is that of the data set.
        trainer.keep_dual(everyone(problem))
        ours, theirs = trainer.sums(W), data.sums(problem, W, trainer.best()[1])
        close_to(ours.values, theirs.values)
        close_to(ours.norms, theirs.norms)


def assert_keeps(setting, trainer, problem, W):
    """It keeps what it is told to, of the problems that it is told."""
    before, zero = trainer.best()[0].copy(), trainer.best()[1].fetch().copy()
    assert not before.any()
    assert not zero.any()
    nobody = ~everyone(problem)
    trainer.keep_primal(W, nobody)
    trainer.keep_dual(nobody)
    np.testing.assert_array_equal(trainer.best()[0], before)
    np.testing.assert_array_equal(trainer.best()[1].fetch(), zero)
    last = nobody.copy()
    last[-1] = True
    trainer.keep_primal(2 * W, last)
    trainer.keep_dual(last)
    best, dual = trainer.best()
    np.testing.assert_array_equal(best[:, -1], 2 * W[:, -1])
    np.testing.assert_array_equal(best[:, :-1], 0)
    alpha = dual.fetch()
    np.testing.assert_array_equal(alpha[:, :-1], 0)
    at = setting.k - 1  # the last problem, alone or not
    signed = alpha[:, -1] * setting.signs(at)
    close_to(setting.rows(at).T @ signed, trainer.combination()[:, -1])


# Starting from dual points.


@pytest.mark.parametrize("loss_name", ["hinge", "logistic", "huber", "squared_hinge"])
def test_training_starts_from_a_dual_point(engine, loss_name, k):
    setting = Setting(engine, loss_name, k).place()
    with setting.data as data:
        problem = replace(setting.problem, radius=inf)
        exact = FitOptions(tol=1e-6, max_epochs=1e4, precision="float64")
        first = train_all(data, problem, exact)
        assert all(solution.status.converged for solution in first)
        alpha = np.asfortranarray(np.column_stack([solution.alpha for solution in first]))
        for method, batch_size in starting_methods(setting):
            options = replace(exact, method=method, batch_size=batch_size, tol=1e-4)
            rough = replace(options, tol=1e-3, precision="auto")
            again = train_all(data, problem, options, seed=5, alpha=alpha)
            again += train_all(data, problem, rough, seed=5, alpha=alpha)
            for i, found in enumerate(again):
                assert found.status is Status.CONVERGED
                assert found.history.iteration.tolist() == [0]
                off = 1e-14 if i < k else 1e-6  # the steps of a rough one may be in float32
                np.testing.assert_allclose(found.alpha, alpha[:, i % k], rtol=off)
                w = setting.w_of(i % k, alpha[:, i % k])
                np.testing.assert_allclose(found.w, w, rtol=1e-9 + off, atol=1e-10 + off)


def starting_methods(setting):
    if setting.engine == "cpu" and setting.loss_name != "hinge":
        return [(Safe(), 1)]  # others would be compiled
    methods = offered(setting.engine, setting.storage)
    return [(method, 6) for method in methods if not isinstance(method, Pegasos)]


@every_run
def test_a_dual_point_stays_as_it_is_while_others_train_from_it(engine, storage, method, k):
    setting = Setting(engine, "hinge", k, storage).place()
    with setting.data as data:
        problem = at_once(data, setting.problem, method)
        options = FitOptions(
            method, repeatable(method, 6), tol=0.0, max_epochs=2.0, precision="float64"
        )
        solutions = train(data, problem, options, Start(0))
        dual = data.joined_dual([solution.dual for solution in solutions])
        before = dual.fetch().copy()
        assert before.any()
        for seed in (0, 1):  # 0 cuts the rows into the same batches
            by_handle = train(data, problem, options, Start(seed, dual))
            np.testing.assert_array_equal(dual.fetch(), before)
            by_array = train(data, problem, options, Start(seed, before))
            for k_, (one, other) in enumerate(zip(by_handle, by_array, strict=True)):
                np.testing.assert_array_equal(solutions[k_].alpha, before[:, k_])
                np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-9, atol=1e-12)


# Iterations, epochs, pauses.


@every_run
def test_a_run_pauses_where_it_is_told(engine, storage, method, k):
    setting = Setting(engine, "hinge", k, storage).place()
    stopped = StopFlag()
    stopped.set()
    with setting.data as data:
        problem = at_once(data, setting.problem, method)
        trainer = started(data, problem, scheduled(unscreened(method), 6))
        going = np.full(problem.k, -inf)
        progress = trainer.run(50, going, stopped)
        np.testing.assert_array_equal(progress.iterations, 0)
        for until in (1, 7, 7, 23, 61):
            progress = trainer.run(until, going, StopFlag())
            np.testing.assert_array_equal(progress.iterations, until)
            np.testing.assert_array_equal(progress.estimates, inf)  # no epoch showed a gap below
        if isinstance(method, Naive | Pegasos):
            return
        progress = trainer.run(10**6, np.full(problem.k, 0.5), StopFlag())
        assert np.all(progress.iterations < 10**6)
        assert np.all(progress.estimates <= 0.5)


@every_run
def test_an_epoch_visits_each_row_once(engine, storage, method):
    """With so large a lam that w stays at 0, each visit takes alpha to 1."""
    X, y = toy("hinge")
    with place_on(engine, FORMATS[FORMS[storage]](X), 1) as data:
        problem = make_problem(data.targets(y), LOSSES["hinge"](), 1e6)
        trainer = started(data, problem, scheduled(unscreened(method), 6, seed=3))
        per_iteration = 12 if getattr(method, "batches", 1) == 2 else 6
        seen = np.zeros(60, np.bool_)
        for t in range(1, 60 // per_iteration + 1):
            trainer.run(t, np.array([-inf]), StopFlag())
            trainer.keep_dual(np.ones(1, np.bool_))
            alpha = trainer.best()[1].fetch()[:, 0]
            np.testing.assert_allclose(alpha[alpha > 0], 1.0)
            assert np.all(seen <= (alpha > 0))
            seen = alpha > 0
            assert seen.sum() == t * per_iteration
        options = FitOptions(method, 6, 0.0, 3.0)
        [found] = train(data, problem, options, Start(0))
    assert found.history.iteration[0] == 0
    np.testing.assert_allclose(found.history.epoch, found.history.iteration * per_iteration / 60)


@every_run
def test_who_is_done_stays_and_disturbs_nobody(engine, storage, method):
    setting = Setting(engine, "hinge", 3, storage).place()
    with setting.data as data:
        problem = at_once(data, setting.problem, method)
        leaving, staying = (
            started(data, problem, scheduled(unscreened(method), repeatable(method, 6), seed=2))
            for _ in range(2)
        )
        everybody, k = everyone(problem), problem.k
        targets, iterations = np.full(k, -inf), np.zeros(k)
        for until, done in ((20, None), (33, 0), (47, k - 1)):
            if done is not None:
                targets[done] = np.nan
            going = ~np.isnan(targets)
            progress = leaving.run(until, targets, StopFlag())
            staying.run(until, np.full(k, -inf), StopFlag())
            iterations[going] = until
            np.testing.assert_array_equal(progress.iterations, iterations)
            before = [leaving.best()[0].copy(), leaving.best()[1].fetch().copy()]
            for trainer, which in ((leaving, going), (staying, everybody)):
                trainer.keep_primal(trainer.point(), which)
                trainer.keep_dual(which)
            ours, theirs = (
                (trainer.best()[0], trainer.best()[1].fetch()) for trainer in (leaving, staying)
            )
            for place in range(2):  # w, then alpha
                np.testing.assert_array_equal(ours[place][:, ~going], before[place][:, ~going])
                np.testing.assert_allclose(
                    ours[place][:, going], theirs[place][:, going], rtol=1e-9, atol=1e-12
                )
                moved = np.any(ours[place] != before[place], axis=0)
                np.testing.assert_array_equal(moved, going)
            # Sums and betas of those that go on are in their columns.
            if going.any():
                W = leaving.point()
                some = data.sums(problem, W, leaving.best()[1]).values
                close_to(leaving.sums(W).values[:, going], some[:, going])
                np.testing.assert_allclose(leaving.beta[going], staying.beta[going])
                combined = leaving.combination() / (problem.lam * setting.n)
                if not isinstance(method, Pegasos):
                    np.testing.assert_allclose(combined[:, going], W[:, going], 1e-9, 1e-12)
        nobody = np.full(k, np.nan)
        np.testing.assert_array_equal(leaving.run(60, nobody, StopFlag()).iterations, iterations)
