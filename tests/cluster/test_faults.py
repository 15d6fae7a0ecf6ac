"""Workers that die, that hang, that cannot be replaced; drivers that die.  Every run ends with a
certified point."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from math import inf
from threading import Timer

import numpy as np
import pytest
from rows import LAM, gone, pids, place, problem_of, rows, send, serial

import batchsvm
from batchsvm.core.certificate import certify_point
from batchsvm.core.parallel import StopFlag
from batchsvm.core.solution import Status
from batchsvm.engines.ray import workers as workers_module
from batchsvm.engines.ray.errors import WorkersLostError
from batchsvm.files.sources import open_source

pytestmark = pytest.mark.usefixtures("fresh_actors")
CALM = np.array([-inf])


def started(data, y):
    trainer = data.trainer(problem_of(data, y))
    trainer.start(serial())
    return trainer


def assert_w_is_that_of_alpha(data, trainer):
    w = trainer.combination() / (LAM * data.n)
    np.testing.assert_allclose(trainer.point(), w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("lost", [0, 1])
def test_w_is_computed_anew_after_a_worker_was_restored(lost):
    X, y = rows()
    with place(X) as data:
        trainer = started(data, y)
        trainer.run(900, CALM, StopFlag())
        before = trainer.point().copy()
        send(pids(data)[lost])
        trainer.run(910, CALM, StopFlag())  # few steps, which cannot undo what was lost
        assert trainer.refreshes == 1
        assert_w_is_that_of_alpha(data, trainer)
        assert np.abs(trainer.point() - before).max() > 1e-3  # nothing had been stored
        trainer.run(9000, CALM, StopFlag())
        assert_w_is_that_of_alpha(data, trainer)
        trainer.keep_primal(trainer.point(), np.array([True]))
        trainer.keep_dual(np.array([True]))
        [found] = certify_point(data, trainer.problem, *trainer.best())
    assert -found.rounding <= found.gap < 0.3  # 1 at the start


def test_a_worker_starts_from_what_the_driver_has_stored():
    X, y = rows()
    with place(X) as data:
        trainer = started(data, y)
        trainer.run(1200, CALM, StopFlag())
        trainer.keep_dual(np.array([True]))
        w, alpha = trainer.point().copy(), trainer.best()[1].fetch().copy()
        send(pids(data)[1])
        np.testing.assert_allclose(trainer.combination()[:, 0], X.T @ (alpha[:, 0] * y), atol=1e-9)
        np.testing.assert_allclose(trainer.point(), w, rtol=1e-9, atol=1e-12)


def test_best_points_outlive_workers():
    X, y = rows()
    with place(X) as data:
        trainer = started(data, y)
        trainer.run(1200, CALM, StopFlag())
        trainer.keep_primal(trainer.point(), np.array([True]))
        trainer.keep_dual(np.array([True]))
        [before] = certify_point(data, trainer.problem, *trainer.best())
        for pid in pids(data):
            send(pid)
        [after] = certify_point(data, trainer.problem, *trainer.best())
        assert after == before
        np.testing.assert_allclose(data.scores(np.eye(8)), X)  # rows too
    assert trainer.best()[1].fetch().shape == (600, 1)


def fit_while(X, y, attack, **options):
    """A fit during which somebody does something to the processes of the workers."""
    attacks = []
    with place(X, **options) as data:

        def callback(checkpoint):
            if checkpoint.iteration > 0 and len(attacks) < 3:
                attacks.append(attack(data))

        solution = batchsvm.fit(
            data, y, lam=LAM, tol=1e-4, random_state=0, callback=callback,
            checkpoints=range(300, 10**6, 300), max_epochs=10**4,
        )  # fmt: skip
        [again] = certify_point(
            data, problem_of(data, y), solution.w[:, None], data.dual(problem_of(data, y),
            solution.alpha[:, None]),
        )  # fmt: skip
    assert len(attacks) == 3
    assert abs(again.gap - solution.certificate.gap) <= again.rounding * 2
    return solution


def kill_soon(data, rng):
    pid = rng.choice(pids(data))
    Timer(rng.random() / 50, send, (pid,)).start()


@pytest.mark.parametrize("workers", [2, 3])
def test_a_run_whose_workers_are_killed_ends_certified(workers):
    X, y = rows()
    rng = random.Random(workers)
    found = fit_while(X, y, lambda data: kill_soon(data, rng), workers=workers)
    assert found.status is Status.CONVERGED
    expected = batchsvm.fit(X, y, lam=LAM, tol=1e-4, random_state=0)
    bounds = found.certificate.bound + expected.certificate.bound
    assert abs(found.certificate.primal - expected.certificate.primal) <= bounds


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("workers", [2, 4])
def test_workers_killed_at_any_moment(workers, seed):
    X, y = rows(seed=seed)
    rng = random.Random(seed)
    deterministic = bool(seed % 2)
    found = fit_while(
        X, y, lambda data: kill_soon(data, rng), workers=workers, deterministic=deterministic
    )
    assert found.status is Status.CONVERGED


def test_a_worker_that_hangs_is_replaced(monkeypatch):
    monkeypatch.setattr(workers_module, "PULSE_SECONDS", 0.5)
    X, y = rows()
    with place(X, timeout=3.0) as data:
        trainer = started(data, y)
        trainer.run(900, CALM, StopFlag())
        stopped = pids(data)[0]
        send(stopped, signal.SIGSTOP)
        trainer.run(1800, CALM, StopFlag())
        assert gone([stopped])  # it would hold its memory and its CPUs
        assert stopped not in pids(data)
        assert_w_is_that_of_alpha(data, trainer)


def test_a_worker_that_is_busy_for_long_is_left_alone(monkeypatch):
    """It answers while it works."""
    import ray

    monkeypatch.setattr(workers_module, "PULSE_SECONDS", 0.3)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no tests
    X, _ = rows()
    with place(X, timeout=2.0) as data:
        before = pids(data)
        assert data.workers.ask(data.asks(sleep, 5.0)) == [5.0, 5.0]
        assert pids(data) == before


def sleep(part, seconds):
    time.sleep(seconds)
    return seconds


def test_a_source_that_has_gone_ends_training_with_the_best_point(tmp_path):
    X, y = rows()
    paths = [tmp_path / f"part-{j}.npz" for j in range(3)]
    for path, own in zip(paths, np.array_split(np.arange(len(y)), 3), strict=True):
        np.savez(path, X=X[own], y=y[own])
    seen = []
    with place(open_source(str(tmp_path))) as data:
        np.testing.assert_allclose(data.scores(np.eye(8)), X)  # in the order of the files

        def callback(checkpoint):
            seen.append(checkpoint.certificate.gap)
            if len(seen) == 3:
                paths[0].unlink()
                send(pids(data)[0])

        with pytest.warns(RuntimeWarning, match=r"worker 1 of 2 is lost.* cannot be read again"):
            found = batchsvm.fit(
                data, y, lam=LAM, tol=1e-9, callback=callback, warn=False, random_state=0,
                checkpoints=range(300, 10**6, 300),
            )  # fmt: skip
    assert found.status is Status.DATA_LOST
    assert found.certificate.gap <= min(seen) < seen[0]


def test_a_source_that_has_changed_is_not_trained_on(tmp_path):
    X, y = rows()
    for j in range(2):
        np.savez(tmp_path / f"part-{j}.npz", X=X[j::2], y=y[j::2])
    with place(open_source(str(tmp_path))) as data:
        np.savez(tmp_path / "part-1.npz", X=X[1::2][:10], y=y[1::2][:10])
        send(pids(data)[1])
        with pytest.raises(OSError, match=r"part-1.npz: it has changed since it was read"):
            data.scores(np.eye(8))


def test_a_worker_without_room_for_another_one_ends_training(monkeypatch):
    X, y = rows()
    with place(X, timeout=3.0) as data:
        trainer = started(data, y)
        trainer.run(900, CALM, StopFlag())
        monkeypatch.setattr(workers_module, "START_SECONDS", 1.0)
        monkeypatch.setattr(data.workers._actors, "_resources", {"resources": {"nowhere": 1}})
        send(pids(data)[1])
        words = (
            r"^worker 2 of 2 is lost, and the cluster has had no room for another one within 3 s$"
        )
        with pytest.raises(WorkersLostError, match=words):
            trainer.run(1800, CALM, StopFlag())


def test_a_worker_that_is_lost_again_and_again_ends_training(monkeypatch):
    monkeypatch.setattr(workers_module, "MAX_REPLACEMENTS", 1)
    X, y = rows()
    with place(X) as data:
        trainer = started(data, y)
        send(pids(data)[0])
        trainer.run(300, CALM, StopFlag())
        send(pids(data)[0])
        with pytest.raises(WorkersLostError, match=r"^worker 1 of 2 was lost 2 times within a min"):
            trainer.run(600, CALM, StopFlag())


def test_more_workers_than_there_is_room_for_are_refused(monkeypatch):
    monkeypatch.setattr(workers_module, "START_SECONDS", 4.0)
    X, _ = rows()
    words = (
        r"^workers must be at most as many as the cluster has room for, not 90: \d+ have started"
    )
    with pytest.raises(ValueError, match=words):
        place(X, workers=90, timeout=4.0, worker_resources={"num_cpus": 15})


DRIVER = """
import sys, time, ray, numpy as np
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
from rows import pids, place, rows
X, y = rows()
data = place(X)
print(*pids(data), flush=True)
time.sleep(600)
"""


def test_actors_go_away_with_their_driver():
    import ray

    address = ray.get_runtime_context().gcs_address
    path = os.pathsep.join(sys.path)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, address], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    try:
        theirs = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(theirs) == 2
        assert not gone(theirs, 0.2)
    finally:
        driver.kill()
        driver.wait()
        driver.stdout.close()
    assert gone(theirs)


def test_actors_go_away_when_the_data_are_closed():
    X, _ = rows()
    with place(X) as data:
        theirs = pids(data)
        assert not gone(theirs, 0.2)
    assert gone(theirs)


def test_ctrl_c_while_workers_work_returns_the_best_point(ctrl_c):
    X, y = rows()
    with place(X, deterministic=False) as data:
        Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        found = batchsvm.fit(data, y, lam=1e-7, tol=0.0, max_epochs=1e5, warn=False)
        assert found.status is Status.INTERRUPTED
        assert found.certificate.gap < 1.0
        again = batchsvm.fit(data, y, lam=LAM, random_state=0)  # the workers are still there
        assert again.status is Status.CONVERGED
