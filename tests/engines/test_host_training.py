"""What engines on this host do beyond the conformance suite: runs of the cpu engine are those of
the reference seed by seed; screening; averages; many problems are single fits, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from conformance_training import assert_step_of_the_paper
from setting import CASES, Setting, close_to, train_all

import batchsvm
import oracle
from batchsvm.core.layout import Schedule
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.solution import Status
from batchsvm.losses import TINY
from batchsvm.methods import Aggressive, Blocks, Gram, Guarded, Naive, Pegasos, Safe
from helpers import FORMATS, HOST_ENGINES, LAM, quietly, toy


@pytest.fixture(params=HOST_ENGINES)
def engine(request):
    return request.param


# Where problems differ in their bias, and so in sigma^2, that is given.
PAIRS = {
    "hinge": (Guarded(), 7, None),
    "smoothed_hinge": (Naive(), 1, "tail"),
    "squared_hinge": (Blocks(blocks=3), 9, None),
    "logistic": (Aggressive(sigma2=0.6, rounds=2), 7, "decay"),
    "absolute": (Gram(batches=3), 8, None),
    "epsilon_insensitive": (Safe(sigma2=0.6), 7, "tail"),
    "squared_epsilon_insensitive": (Gram(batches=2), 8, None),
    "squared_error": (Safe(sigma2=0.6), 7, None),
    "quantile": (Pegasos(radius=2.0), 5, None),
    "huber": (Safe(sampling="subsets"), 1, None),
}


def test_runs_are_those_of_the_reference_seed_by_seed(loss_name, k):
    # Few epochs: at the optimum only rounding moves, and beta follows that noise.
    method, batch_size, averaging = PAIRS[loss_name]
    options = FitOptions(
        method=method, batch_size=batch_size, tol=0.0, max_epochs=3.0, averaging=averaging
    )
    found = []
    for name in ("cpu", "reference"):
        setting = Setting(name, loss_name, k).place()
        radius = getattr(method, "radius", inf)
        with setting.data as data:
            problem = replace(setting.problem, radius=radius)
            found.append(train_all(data, problem, options, seed=11))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.w, theirs.w, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(ours.alpha, theirs.alpha, rtol=1e-8, atol=1e-10)
        for column in ("iteration", "epoch", "beta", "refused", "primal", "dual"):
            np.testing.assert_allclose(
                getattr(ours.history, column), getattr(theirs.history, column),
                rtol=1e-8, atol=1e-10,
            )  # fmt: skip
        assert ours.history.iteration[-1] > 0
        assert np.abs(ours.w).max() > 1e-3
    assert len({tuple(solution.w) for solution in found[0]}) == k


# Screening.


@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge", "epsilon_insensitive", "quantile"])
def test_screening_does_not_change_the_optimum(engine, loss_name):
    X, y = toy(loss_name, n=100)
    lam, tol = 0.2, 1e-6
    found = [
        batchsvm.fit(
            FORMATS[CASES[loss_name].form](X), y, loss_name, lam, Safe(skips=skips), batch_size=1,
            tol=tol, max_epochs=10_000, random_state=0, engine=engine,
        )
        for skips in (True, False)
    ]  # fmt: skip
    for solution in found:
        assert solution.status is Status.CONVERGED
    screened, plain = found
    at_zero = oracle.primal(X, y, np.zeros(X.shape[1]), loss_name, lam)
    # P is strongly convex: w is no further from the optimum than the gap allows.
    allowed = 2 * np.sqrt(2 * tol * at_zero / lam)
    assert np.linalg.norm(screened.w - plain.w) <= allowed
    assert screened.certificate.primal == pytest.approx(plain.certificate.primal, abs=tol * at_zero)
    assert screened.history.iteration[-1] != plain.history.iteration[-1]  # it did leave rows out


def visits_of(trainer, k):
    """The order of visits of problem k."""
    return (trainer.trainers[k] if hasattr(trainer, "trainers") else trainer).visits


@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge", "absolute", "huber"])
def test_a_full_pass_keeps_every_row_that_would_move(engine, loss_name, k):
    setting = Setting(engine, loss_name, k).place()
    with setting.data as data:
        problem = replace(setting.problem, radius=inf)
        numbers = range(k) if data.problems_at_once() < k else [None]
        for number in numbers:
            own = problem if number is None else problem.only(number)
            trainer = data.trainer(own)
            trainer.start(Schedule(Safe(), 1, seed=3))
            trainer.run(6 * setting.n, np.full(own.k, -inf), StopFlag())
            everything = np.ones(own.k, np.bool_)
            trainer.keep_dual(everything)
            alpha = trainer.best()[1].fetch()
            for j in range(own.k):
                visits_of(trainer, j).keep[:] = False
            W = trainer.point()
            trainer.sums(W, screen=True)
            for j in range(own.k):
                keep = visits_of(trainer, j).keep
                at = j if number is None else number
                c, norms2 = setting.weights(at), (setting.rows(at) ** 2).sum(axis=1)
                q = np.maximum(norms2 * c / (setting.lam[at] * c.sum()), TINY)
                relative = np.divide(alpha[:, j], c, out=np.zeros(setting.n), where=c > 0)
                a = setting.responses(at, W[:, j])
                moved = setting.loss.dual_step(relative, a, q)
                moves = (np.abs(moved - relative) > 1e-12) & (c > 0)
                assert moves.any()
                assert keep[moves].all()
                assert loss_name == "huber" or not keep.all()  # few of those rest at a corner


# Averages, and steps.


@pytest.mark.parametrize("averaging", ["tail", "decay"])
@pytest.mark.parametrize("method", [Pegasos(), Safe(), Guarded(), Aggressive(), Blocks(blocks=2)])
def test_averages_begin_at_the_dual_point(engine, method, averaging):
    setting = Setting(engine, "hinge", 1).place()
    with setting.data as data:
        problem = setting.problem
        _, alpha = setting.random_points()
        for dual in (None, data.dual(problem, alpha)):
            trainer = data.trainer(problem)
            trainer.start(Schedule(method, 4, beta_b=2.0, averaging=averaging), dual)
            expected = data.combination(problem, data.dual(problem) if dual is None else dual)
            close_to(trainer.combination(), expected)
            w = expected / (problem.lam * setting.n)
            close_to(trainer.point(), w)
            close_to(trainer.iterate(), w)
            assert trainer.refused.tolist() == [0]
            if isinstance(method, Pegasos):
                assert np.isnan(trainer.beta).all()
            else:
                assert trainer.beta.tolist() == [method.first_beta(2.0)]
            progress = trainer.run(1, np.array([-inf]), StopFlag())
            assert progress.iterations.tolist() == [1]


@pytest.mark.parametrize("averaging", ["tail", "decay"])
@pytest.mark.parametrize(
    ("method", "batch_size"),
    [(Safe(), 1), (Guarded(), 4), (Aggressive(), 4), (Pegasos(), 4), (Pegasos(radius=0.3), 4)],
)
def test_the_point_is_the_average_that_was_asked_for(engine, method, batch_size, averaging):
    setting = Setting(engine, "hinge", 1).place()
    with setting.data as data:
        problem = replace(setting.problem, radius=getattr(method, "radius", inf))
        trainer = data.trainer(problem)
        trainer.start(Schedule(method, batch_size, beta_b=2.0, averaging=averaging, seed=4))
        seen = []

        def expected():
            if averaging == "tail":
                return np.mean(seen, axis=0)
            mean = seen[0]
            for w in seen:
                mean = 0.9 * mean + 0.1 * w
            return mean

        for t in range(1, 31):
            seen.append(trainer.iterate().copy())  # an iterate counts before it is changed
            trainer.run(t, np.array([-inf]), StopFlag())
            np.testing.assert_allclose(trainer.point(), expected(), rtol=1e-9, atol=1e-12)
            if not isinstance(method, Pegasos):
                w = trainer.combination() / (problem.lam * setting.n)
                np.testing.assert_allclose(trainer.point(), w, rtol=1e-9, atol=1e-12)
            if t == 20 and averaging == "tail":
                trainer.restart_average()
                seen.clear()
                close_to(trainer.point(), trainer.iterate())
        trainer.keep_dual(np.ones(1, np.bool_))
        dual = trainer.best()[1]
        np.testing.assert_array_equal(data.dual(problem, dual.fetch()).fetch(), dual.fetch())
        assert not np.allclose(trainer.point(), trainer.iterate(), rtol=1e-3)


@pytest.mark.parametrize("step", ["general", "literal"])
def test_a_guarded_step_begins_as_long_as_a_naive_one(engine, step):
    assert_step_of_the_paper(engine, Guarded(step=step), 1.0)


# Many problems.


def as_single_fits(X, columns, lams, weights=None, **options):
    return [
        quietly(
            X, columns[k], lam=lams[k], random_state=20 + k,
            sample_weight=None if weights is None else weights[k], **options,
        )
        for k in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["labels", "columns", "lams", "weights"])
@pytest.mark.parametrize("method", ["auto", Guarded()])
def test_many_problems_are_as_many_single_fits(engine, kind, method):
    loss_name = "absolute" if kind == "columns" else "hinge"
    X, y = toy(loss_name)
    rng = np.random.default_rng(2)
    options = {"loss": loss_name, "method": method, "tol": 1e-6, "max_epochs": 8, "engine": engine}
    if method != "auto":
        options["batch_size"] = 5
    lams, weights = [LAM] * 3, None
    if kind == "labels":
        targets = rng.integers(0, 3, size=len(y))
        columns = [np.where(targets == k, 1.0, -1.0) for k in range(3)]
    elif kind == "columns":
        targets = np.column_stack([y, y[::-1], y**2])
        columns = list(targets.T)
    else:
        targets = np.column_stack([y] * 3) if kind == "weights" else y
        columns = [y] * 3
        if kind == "lams":
            lams = [0.3, LAM, 0.01]
        else:
            weights = rng.integers(0, 3, size=(len(y), 3)).astype(float)
    together = batchsvm.fit_many(
        X, targets, lam=lams, sample_weight=weights, random_state=20, n_jobs=2, warn=False,
        **options,
    )  # fmt: skip
    single = as_single_fits(X, columns, lams, None if weights is None else weights.T, **options)
    assert len(together) == 3
    for ours, alone in zip(together, single, strict=True):
        assert ours.lam == alone.lam
        np.testing.assert_array_equal(ours.w, alone.w)
        np.testing.assert_array_equal(ours.alpha, alone.alpha)
        np.testing.assert_array_equal(ours.history.gap, alone.history.gap)
        assert ours.certificate == alone.certificate
    assert len({tuple(solution.w) for solution in together}) == 3
