"""Mini-batch steps of the gpu engine, on a device made of NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sparse_pair import OFTEN, Both, N, fit, run

from batchsvm.core.certificate import certify_point
from batchsvm.core.layout import Schedule
from batchsvm.core.options import read_options
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import confine, make_problem
from batchsvm.core.solution import Status
from batchsvm.core.training import Start, train
from batchsvm.engines.gpu import sparse
from batchsvm.engines.gpu.sparse_kernels import Control
from batchsvm.engines.reference.steppers import _fixed_beta_iteration, _pegasos_iteration
from batchsvm.engines.state import start_dual, start_pegasos
from batchsvm.losses import LOSSES
from batchsvm.methods import (
    Aggressive,
    Asynchronous,
    Blocks,
    Gram,
    Guarded,
    Naive,
    Pegasos,
    Safe,
)
from helpers import LAM

# Steps.


@pytest.mark.parametrize("form", ["csr-float64-int32", "csr-float32-int64", "dense-float32"])
@pytest.mark.parametrize("method", [Naive(), Safe(), Safe(step="literal")])
@pytest.mark.parametrize("b", [1, 7, 60])
def test_steps_of_a_fixed_beta_are_those_of_the_reference_engine(form, method, b):
    both = Both("smoothed_hinge", form)
    trainer = both.trainer(method, b)
    bound = both.host.bind(both.host_problem)
    schedule = Schedule(method, b, beta_b=1 + (b - 1) * 0.4)
    state = start_dual(bound, schedule, None)
    done = 0
    for _ in range(5):
        batches = both.batches(trainer, -(-N // b))
        gaps = 0.0
        for A in batches:
            X, (sign, weight, offset) = bound.rows_of(A), bound.parts(A)
            a, alpha = sign * (X @ state.w) - offset, bound.examples["alpha"][A]
            terms = bound.loss.value(a) + bound.loss.conjugate(alpha) + alpha * a
            gaps += (weight * terms).sum()
            _fixed_beta_iteration(bound, state, A, X)
        done += len(batches)
        shown = run(trainer, done, target=1e9)  # at the end of each epoch
        assert np.allclose(shown.estimates, gaps / bound.total_weight, rtol=1e-9)
        assert shown.iterations == done
    assert np.allclose(trainer.point()[:, 0], state.w, rtol=1e-9, atol=1e-12)
    trainer.keep_dual(np.array([True]))
    alpha = state.alpha_of(0, N)
    assert np.abs(alpha).sum() > 1
    assert np.allclose(trainer.best()[1].fetch()[:, 0], alpha, rtol=1e-9, atol=1e-12)
    assert trainer.beta == state.beta


@pytest.mark.parametrize("radius", [np.inf, 0.3])
@pytest.mark.parametrize("b", [1, 12])  # divides n, as in the reference engine no batch is short
@pytest.mark.parametrize("warm", [False, True])
def test_steps_of_pegasos_are_those_of_the_reference_engine(radius, b, warm):
    both = Both("logistic", radius=radius)
    alpha = 0.3 * both.problem.targets.weights(0, N) if warm else None
    method = Pegasos(radius=radius)
    dual = None if alpha is None else both.gpu.dual(both.problem, alpha[:, None])
    trainer = both.trainer(method, b, dual)
    bound = both.host.bind(both.host_problem)
    state = start_pegasos(bound, Schedule(method, b), alpha)
    assert np.allclose(trainer.point()[:, 0], confine(state.iterate, radius), rtol=1e-9)
    for _ in range(3):
        for A in both.batches(trainer, N // b):
            state.iteration += 1
            _pegasos_iteration(bound, state, A, bound.rows_of(A))
        shown = run(trainer, state.iteration - (N // b if warm else 0))
        assert np.isinf(shown.estimates)
    w = trainer.point()[:, 0]
    assert np.allclose(w, state.iterate, rtol=1e-9)
    assert radius == np.inf or np.linalg.norm(w) > 0.9 * radius  # the projection has been made
    trainer.keep_dual(np.array([True]))
    assert np.allclose(trainer.best()[1].fetch()[:, 0], state.alpha_of(0, N), rtol=1e-9)
    assert np.isnan(trainer.beta)
    assert trainer.refused == 0


def test_a_short_batch_of_pegasos_weighs_its_rows_like_others():
    both = Both(full=False)
    trainer = both.trainer(Pegasos(), 25)  # 25, 25 and 10 rows
    run(trainer, 3)
    trainer.keep_dual(np.array([True]))
    w, alpha = trainer.point()[:, 0], trainer.best()[1].fetch()[:, 0]
    assert np.allclose(w, both.X.T @ (alpha * both.y) / (LAM * N), rtol=1e-9)
    first = both.batches(both.trainer(Pegasos(), 25), 1)[0]
    assert np.array_equal(alpha[first], np.ones(len(first)))  # their margin was 0


@pytest.mark.parametrize("form", ["csr-float64-int32", "dense-float64"])
def test_an_aggressive_step_never_lowers_the_dual(form):
    refused = 0
    for loss_name in LOSSES:
        both = Both(loss_name, form)
        trainer = both.trainer(Aggressive(gamma=0.5), 30, beta_b=12.0)
        trainer._trainer.state.control[0] = 1.0  # beta: too long steps
        before = 0.0  # D(0)
        for step in range(1, 25):
            refusals = int(trainer.refused[0])
            run(trainer, step)
            alpha = trainer._trainer._dual.fetch()
            [seen] = certify_point(
                both.host, both.host_problem, trainer.point(), both.host.dual(
                    both.host_problem, alpha
                ),
            )  # fmt: skip
            assert seen.dual >= before - 1e-12 * abs(seen.dual)
            if trainer.refused[0] > refusals:
                assert seen.dual == pytest.approx(before, rel=1e-12)
            before = seen.dual
            assert 1.0 <= trainer.beta <= 12.0
            # w goes with alpha, refused or not.
            w = both.host.combination(both.host_problem, both.host.dual(both.host_problem, alpha))
            w /= LAM * both.gpu.facts(both.problem).total_weight
            assert np.allclose(trainer.point(), w, rtol=1e-9, atol=1e-12)
        refused += int(trainer.refused[0])
    assert refused > 0  # so that refusing has been tried


def test_beta_follows_rho():
    both = Both("smoothed_hinge", full=False)
    trainer = both.trainer(Aggressive(gamma=0.9), 20, beta_b=8.0)
    [A] = both.batches(trainer, 1)
    X, y = both.X[A], both.y[A]
    norm2 = (X**2).sum(axis=1)
    delta = LOSSES["smoothed_hinge"]().dual_step(0.0, 0.0 * y, 8.0 * norm2 / (LAM * N) + 1e-300)
    Delta = X.T @ (delta * y)
    rho = np.clip(Delta @ Delta / (norm2 @ delta**2), 1.0, 8.0)
    run(trainer, 1)
    assert trainer.refused == 0
    assert trainer.beta == pytest.approx(8.0**0.9 * rho**0.1, rel=1e-9)
    assert 1.0 < rho < 8.0


@pytest.mark.parametrize("loss_name", LOSSES)
def test_every_loss_comes_to_the_optimum_of_the_reference_engine(loss_name):
    both = Both(loss_name)
    best = fit(both.host, both.host_problem, "naive", batch_size=1, **OFTEN)
    for method, b in (("aggressive", 15), ("safe", 4)):
        found = fit(both.gpu, both.problem, method, batch_size=b, tol=1e-4, max_epochs=4000)
        assert found.status is Status.CONVERGED
        assert found.certificate.relative_gap <= 1e-4
        slack = 1e-4 * best.certificate.primal
        assert abs(found.certificate.primal - best.certificate.primal) <= 2 * slack


def test_steps_that_stall_in_float32_go_on_in_float64():
    both = Both("quantile", "csr-float32-int32", n=200)
    options = {"batch_size": 6, "tol": 1e-9, "max_epochs": 300}
    found = fit(both.gpu, both.problem, "aggressive", **options)
    assert found.status is Status.CONVERGED
    coarse = fit(both.gpu, both.problem, "aggressive", **options, precision="float32")
    assert coarse.status is Status.MAX_EPOCHS


def _no_steps(state, first, count, target):
    """Stands for `train_batches` that leaves w and alpha as they are."""
    state.control[Control.DONE] = count


def test_w_is_computed_anew_from_alpha(monkeypatch):
    both = Both()
    trainer = both.trainer(Naive(), 10, precision="float32")
    run(trainer, 6)
    inner = trainer._trainer
    right = inner.state.w.copy()
    inner.state.w += 1.0  # drifts
    assert not np.allclose(trainer.point()[:, 0], right)
    trainer.combination()
    assert np.allclose(trainer.point()[:, 0], right, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(sparse, "REFRESH_EPOCHS", 1)
    both.gpu.device.kernels.train_batches = _no_steps
    inner.state.w += 1.0
    run(trainer, 12)
    assert np.allclose(trainer.point()[:, 0], right, rtol=1e-4, atol=1e-5)


def test_warm_starts_go_on_from_alpha_and_keep_it():
    both = Both()
    first = fit(both.gpu, both.problem, "aggressive", batch_size=6, tol=1e-3)
    for method in (Aggressive(), Safe()):
        options = read_options(method=method, batch_size=12, tol=1e-2)
        [again] = train(both.gpu, both.problem, options, Start(0, first.dual))
        assert again.history.iteration[-1] == 0
        assert np.allclose(again.alpha, first.alpha, rtol=1e-6)


def test_launches_are_short_and_the_stop_flag_is_looked_at(monkeypatch):
    monkeypatch.setattr(sparse, "ENTRIES_PER_LAUNCH", 0)
    both = Both()
    trainer = both.trainer(Naive(), 10)
    calls, stop = [], StopFlag()
    train_batches = both.gpu.device.kernels.train_batches

    def counted(state, first, count, target):
        calls.append((first, count))
        train_batches(state, first, count, target)
        if len(calls) == 8:
            stop.set()

    both.gpu.device.kernels.train_batches = counted
    progress = trainer.run(100, np.array([-np.inf]), stop)
    assert calls == [(i % 6, 1) for i in range(8)]
    assert progress.iterations == 8


def test_a_problem_that_is_done_is_not_trained():
    both = Both()
    trainer = both.trainer(Naive(), 10)
    assert run(trainer, 10, target=np.nan).iterations == 0


def test_an_epoch_visits_every_row_once_in_a_fresh_order():
    both = Both()
    trainer = both.trainer(Naive(), 7)
    assert trainer._trainer.batches.B == 7  # no empty places but in the last batch
    seen = []
    for epoch in range(1, 4):
        rows = np.concatenate(both.batches(trainer, 9))
        assert np.array_equal(np.sort(rows), np.arange(N))
        seen.append(tuple(rows))
        run(trainer, 9 * epoch)
    assert len(set(seen)) == 3


# What is not offered.


@pytest.mark.parametrize(
    ("form", "k", "changes", "words"),
    [
        ("csr-float64-int32", 1, {"method": Gram()},
         'method must be "asynchronous", "aggressive", "safe", "naive" or "pegasos" for sparse rows'
         ' on the gpu engine, not "gram"'),
        ("dense-float64", 1, {"method": Asynchronous()}, 'not "asynchronous"'),
        ("csr-float64-int32", 3, {"method": Safe()},
         'method must be "asynchronous" for sparse rows for 3 problems at once on the gpu engine,'
         ' not "safe"'),
        ("dense-float64", 1, {"method": Guarded()},
         'method must be "gram", "aggressive", "safe", "naive" or "pegasos" on the gpu engine, not'
         ' "guarded"'),
        ("dense-float64", 1, {"method": Blocks(blocks=2)}, 'not "blocks"'),
        ("dense-float64", 3, {"method": Safe()},
         'method must be "gram" for 3 problems at once on the gpu engine, not "safe"'),
        ("csr-float64-int32", 1, {"averaging": "tail"},
         'averaging must be None on the gpu engine, which keeps no averages, not "tail"'),
        ("csr-float64-int32", 1, {"method": Safe(sampling="subsets")},
         'sampling must be "permutation" on the gpu engine, where batches keep their rows, not'
         ' "subsets"'),
    ],
)  # fmt: skip
def test_what_the_engine_does_not_offer_is_refused(form, k, changes, words):
    both = Both(form=form, full=False)
    problem = make_problem(both.gpu.targets(both.y), LOSSES["hinge"](), np.full(k, LAM))
    trainer = both.gpu.trainer(problem)
    with pytest.raises(ValueError, match=words):
        trainer.start(replace(Schedule(Aggressive(), 4), **changes))
