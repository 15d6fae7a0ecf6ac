"""How training ends on every engine: best points, callbacks, stop flags, Ctrl-C."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from threading import Timer

import numpy as np
import pytest
from setting import (
    ENDLESS,
    FORMS,
    HARD,
    RUNS,
    Setting,
    at_once,
    offered,
    runs_of,
    scheduled,
    started,
    train_all,
)

from batchsvm.core.certificate import certify_point
from batchsvm.core.layout import Schedule
from batchsvm.core.loop import Loop
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.solution import Status
from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines import place_on
from batchsvm.losses import LOSSES
from batchsvm.methods import (
    Blocks,
    DualMethod,
    Gram,
    Pegasos,
    Safe,
)
from helpers import HOST_ENGINES, LAM, toy

every_run = pytest.mark.parametrize(("engine", "storage", "method"), RUNS)


def unscreened(method):
    """The method without screening, which pauses where it pleases."""
    return replace(method, skips=False) if isinstance(method, DualMethod) else method


# Best points.


def assert_certified(data, problem, solutions):
    """What was returned is in its box, and certifies to what was said."""
    assert len(solutions) == problem.k
    for k, solution in enumerate(solutions):
        own = problem.only(k)
        dual = data.dual(own, solution.alpha[:, np.newaxis])
        np.testing.assert_allclose(dual.fetch()[:, 0], solution.alpha, rtol=1e-15)
        [again] = certify_point(data, own, solution.w[:, np.newaxis], dual)
        allowed = again.rounding + solution.certificate.rounding
        assert abs(again.gap - solution.certificate.gap) <= allowed
        assert solution.certificate.gap <= 1.0  # that of the starting point


@every_run
def test_what_a_trainer_kept_certifies_to_the_best_of_the_loop(engine, storage, method, k):
    setting = Setting(engine, "hinge", k, storage).place()
    with setting.data as data:
        problem = at_once(data, setting.problem, method)
        trainer = started(data, problem, scheduled(method, 6, seed=2, precision="auto"))
        options = FitOptions(tol=0.0, max_epochs=5.0, checkpoints=range(4, 100, 4))
        loop = Loop(data, problem, trainer, 6, options)
        loop.train(False, StopFlag())
        found = certify_point(data, problem, *trainer.best())
        for k_, (again, best) in enumerate(zip(found, loop.best, strict=True)):
            assert abs(again.primal - best.primal) <= again.rounding + best.rounding
            assert abs(again.dual - best.dual) <= again.rounding + best.rounding
            assert again == best or engine not in HOST_ENGINES
            assert best.gap == loop.history(k_).gap.min()
            assert best.gap < loop.history(k_).gap[0]


STOPPED_RUNS = [
    run for run in runs_of(Safe, Pegasos, Blocks, Gram)
    if getattr(run.values[2], "batches", 1) != 2
]  # fmt: skip
stopped_run = pytest.mark.parametrize(("engine", "storage", "method"), STOPPED_RUNS)


@pytest.mark.parametrize("where", ["callback", "thread"])
@stopped_run
def test_a_stop_flag_ends_training_with_a_certified_point(engine, storage, method, k, where):
    setting = Setting(engine, "hinge", k, storage).place()
    stop, timers = StopFlag(), []

    def callback(_, seen):
        if where == "callback" and seen.iteration > 0:
            stop.set()
        elif where == "thread" and not timers:
            timers.append(Timer(0.05, stop.set))
            timers[0].start()

    options = FitOptions(method=method, batch_size=4, callback=callback, **ENDLESS)
    if where == "callback":
        options = replace(options, checkpoints=range(10, 10**6, 10))
    with setting.data as data:
        problem = replace(setting.problem, lam=np.full(k, HARD))
        began = time.monotonic()
        found = train_all(data, problem, options, stop=stop)
        assert time.monotonic() - began < 20
        assert_certified(data, problem, found)
    assert all(solution.status is Status.INTERRUPTED for solution in found)
    assert where == "thread" or len(found[0].history) > 1


@stopped_run
def test_ctrl_c_ends_training_with_a_certified_point(engine, storage, method, k):
    setting = Setting(engine, "hinge", k, storage).place()

    def callback(_, seen):
        if seen.iteration > 0:
            raise KeyboardInterrupt

    options = FitOptions(
        method=method, batch_size=4, callback=callback, checkpoints=range(10, 10**6, 10), **ENDLESS
    )
    with setting.data as data:
        problem = replace(setting.problem, lam=np.full(k, HARD))
        found = train_all(data, problem, options)
        assert_certified(data, problem, found)
    assert all(solution.status is Status.INTERRUPTED for solution in found)
    assert len(found[0].history) > 1


def test_ctrl_c_before_anything_is_certified_is_raised(engine):
    setting = Setting(engine, "hinge", 1).place()

    def press(*_):
        raise KeyboardInterrupt

    with setting.data as data:
        trainer = started(data, setting.problem, Schedule(Safe(), 1))
        loop = Loop(data, setting.problem, trainer, 1, FitOptions(**ENDLESS))
        loop._keep = press
        with pytest.raises(KeyboardInterrupt):
            loop.train(False, StopFlag())


def test_a_stop_flag_is_seen_within_a_run(engine):
    X, y = toy("hinge", n=500)
    stop = StopFlag()
    with place_on(engine, X, 1, replace(DEFAULT_TUNING, max_call_nonzeros=10_000)) as data:
        problem = make_problem(data.targets(y), LOSSES["hinge"](), LAM)
        trainer = started(data, problem, Schedule(Safe(skips=False), 1))
        timer = Timer(0.02, stop.set)
        timer.start()
        until = 5000 if engine == "reference" else 10**9
        progress = trainer.run(until, np.array([-inf]), stop)
        timer.join()
    assert progress.iterations[0] < until


@pytest.mark.parametrize("storage", FORMS)
def test_a_trainer_takes_as_many_problems_as_the_data_say(engine, storage):
    setting = Setting(engine, "hinge", 3, storage).place()
    with setting.data as data:
        for method in offered(engine, storage):
            takes = data.problems_at_once(method)
            assert takes >= 1
            if takes >= 3:
                trainer = started(data, setting.problem, scheduled(method, 6))
                assert trainer.point().shape == (setting.d, 3)
        assert data.problems_at_once() >= 1


@every_run
def test_a_callback_sees_every_certificate_and_stops_one_problem(engine, storage, method):
    setting, seen = Setting(engine, "hinge", 3, storage).place(), []

    def callback(k, checkpoint):
        seen.append((k, checkpoint.iteration, checkpoint.certificate.gap))
        assert checkpoint.w.shape == checkpoint.iterate.shape == (setting.d,)
        return k == 0 and checkpoint.iteration >= 5

    options = FitOptions(
        method=method, batch_size=6, tol=0.0, max_epochs=4.0, checkpoints=range(5, 100, 5),
        callback=callback,
    )  # fmt: skip
    with setting.data as data:
        problem = setting.problem
        together = data.problems_at_once(method) >= 3
        found = train_all(data, problem, options)
        assert_certified(data, problem, found)
    assert found[0].status is Status.STOPPED
    assert found[0].history.iteration.tolist() == [0, 5]
    for k, solution in enumerate(found):
        if together:
            assert k == 0 or solution.status is not Status.STOPPED
            own = [(iteration, gap) for k_, iteration, gap in seen if k_ == k]
            assert solution.history.iteration.tolist() == [iteration for iteration, _ in own]
            assert solution.history.gap.min() <= min(gap for _, gap in own)
            assert k == 0 or len(own) > 3
