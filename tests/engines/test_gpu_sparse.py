"""Sparse rows and mini-batch steps of the gpu engine, on a device made of NumPy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

from batchsvm.core.certificate import certify_point
from batchsvm.core.layout import Schedule
from batchsvm.core.options import read_options
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import confine, make_problem
from batchsvm.core.solution import Status
from batchsvm.core.training import Start, train
from batchsvm.engines import place_on
from batchsvm.engines.gpu import sparse
from batchsvm.engines.gpu.sparse_kernels import Control
from batchsvm.engines.gpu.sparse_rows import CsrRows
from batchsvm.engines.reference.steppers import _fixed_beta_iteration, _pegasos_iteration
from batchsvm.engines.state import start_dual, start_pegasos
from batchsvm.losses import LOSSES
from batchsvm.methods import (
    Aggressive,
    Blocks,
    Gram,
    Guarded,
    Naive,
    Pegasos,
    Safe,
)
from helpers import FORMATS, LAM, toy
from simulated import place_simulated

N, D = 60, 6
OFTEN = {"tol": 1e-6, "max_epochs": 4000}


class Both:
    """One problem on the simulated device and on the reference engine."""

    def __init__(self, loss_name="hinge", form="csr-float64-int32", n=N, full=True, **kwargs):
        X, y = toy(loss_name, n=n, d=D)
        rng = np.random.default_rng(1)
        weight = rng.integers(0, 4, n) / 2 if full else None  # with zeros
        offset = rng.normal(size=n) if full else None
        stated = {"bias": 0.5, "offset": 0.2} if full else {}
        self.X, self.y, self.stored = X, y, FORMATS[form](X)
        self.gpu, self.host = place_simulated(self.stored), place_on("reference", self.stored, 1)
        self.problem, self.host_problem = (
            make_problem(
                data.targets(y, weight, offset), LOSSES[loss_name](), LAM, **stated, **kwargs
            )
            for data in (self.gpu, self.host)
        )

    def trainer(self, method, b, dual=None, **kwargs):
        options = {"beta_b": 1 + (b - 1) * 0.4, "seed": 3, "precision": "float64", **kwargs}
        trainer = self.gpu.trainer(self.problem)
        trainer.start(Schedule(method, b, **options), dual)
        return trainer

    def batches(self, trainer, count):
        """The rows of the next so many batches: as `run` will take them."""
        inner = trainer._trainer
        numbers = inner.state.order[inner._done : inner._done + count]
        cut = inner.batches.cut[numbers]
        return [rows[rows >= 0].astype(np.int64) for rows in cut]


def run(trainer, count, target=-np.inf):
    return trainer.run(count, np.array([target]), StopFlag())


def fit(data, problem, method, seed=0, **options):
    [solution] = train(data, problem, read_options(method=method, **options), Start(seed))
    return solution


# Rows.


@pytest.mark.parametrize("form", [name for name in FORMATS if name.startswith("csr")])
def test_passes_over_sparse_rows_are_those_of_the_reference_engine(form):
    both = Both(form=form)
    gpu, host = both.gpu, both.host
    rng = np.random.default_rng(0)
    assert (gpu.n, gpu.d, gpu.nonzeros) == (host.n, host.d, host.nonzeros)
    assert gpu.rows.longest == host.longest_row
    assert gpu.rows.nbytes == gpu.rows.values.nbytes + gpu.rows.indices.nbytes + 4 * (N + 1)
    assert gpu.rows.indices.dtype == np.int32  # half of the bytes
    assert np.allclose(gpu.norms2, host.norms2, rtol=1e-15)
    W, V = rng.normal(size=(D, 3)), rng.normal(size=(D + 1, 2))
    assert np.allclose(gpu.scores(W), host.scores(W), rtol=1e-12)
    assert np.allclose(gpu.gram_times(V, bias=0.5), host.gram_times(V, bias=0.5), rtol=1e-12)
    assert np.allclose(gpu.column_norms2(), host.column_norms2(), rtol=1e-14)
    rows = np.array([5, 3, 17, 3])
    assert np.array_equal(gpu.sample(rows).toarray(), both.X[rows])
    part = gpu.subset(rows[:3])
    assert np.array_equal(part.sample(np.arange(3)).toarray(), both.X[rows[:3]])
    assert part.rows.values.dtype == gpu.rows.values.dtype


def test_certificates_are_those_of_the_reference_engine():
    for loss_name in LOSSES:
        both = Both(loss_name)
        alpha = np.random.default_rng(2).random((N, 1)) * 0.4
        weights = both.problem.targets.weights(0, N)[:, None]
        W = np.random.default_rng(4).normal(size=(D + 1, 1))
        [here] = certify_point(
            both.gpu, both.problem, W, both.gpu.dual(both.problem, alpha * weights)
        )
        [there] = certify_point(
            both.host, both.host_problem, W, both.host.dual(both.host_problem, alpha * weights)
        )
        within = here.rounding + there.rounding
        assert abs(here.primal - there.primal) <= within
        assert abs(here.dual - there.dual) <= within
        assert here.support_vectors == there.support_vectors


def test_a_pass_in_many_blocks_that_end_within_batches(monkeypatch):
    both = Both()
    trainer = both.trainer(Naive(), 7)
    run(trainer, 9)
    W = trainer.point()
    whole, combined = trainer.sums(W), trainer.combination()
    monkeypatch.setattr("batchsvm.engines.gpu.passes.SPACE_BYTES", 8 * 5)
    assert np.allclose(trainer.sums(W).values, whole.values, rtol=1e-13)
    assert np.allclose(trainer.combination(), combined, rtol=1e-12)


def test_columns_in_a_fixed_order_give_the_same_sums():
    both = Both()
    rows = both.gpu.rows
    cut = np.array([4, -1, 0, 59, 7], np.int32)
    coefficients = np.random.default_rng(0).normal(size=(2, 5))
    plain, fixed = np.ones((2, D)), np.ones((2, D))
    rows.combine(cut, coefficients, plain)
    rows.deterministic = True
    rows.combine(cut, coefficients, fixed)
    kept = cut >= 0
    expected = 1 + coefficients[:, kept] @ both.X[cut[kept]]
    assert np.allclose(plain, expected, rtol=1e-12)
    assert np.allclose(fixed, expected, rtol=1e-12)
    assert rows.take(np.arange(3)).deterministic


def on_device(X, **changes):
    """A matrix as CuPy would hold it."""
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape", "format")}
    kind = type("csr_matrix", (SimpleNamespace,), {"__module__": "cupyx.scipy.sparse"})
    found = kind(**{**parts, **changes})
    found.tocsr = lambda: found
    return found


def test_a_matrix_of_the_device_stays_where_it_is():
    X = FORMATS["csr-float32-int64"](toy("hinge")[0])
    data = place_simulated(on_device(X))
    assert isinstance(data.rows, CsrRows)
    assert data.rows.values is X.data
    assert data.rows.indices is X.indices
    assert data.rows.starts is X.indptr
    assert data.rows.indices.dtype == np.int64
    assert np.array_equal(data.sample(np.arange(N)).toarray(), X.toarray())


@pytest.mark.parametrize(
    ("part", "place", "value", "words"),
    [
        ("indices", 4, D, rf"indices must lie between 0 and {D - 1}, not {D}$"),
        ("indices", 4, -1, rf"indices must lie between 0 and {D - 1}, not -1$"),
        ("indptr", 0, 1, "indptr must begin with 0, not 1$"),
        ("indptr", 9, 0, "indptr must not fall from one entry to the next$"),
        ("indptr", -1, 10**6, r"indptr must end at \d+ or below, the length of indices, not"),
    ],
)
def test_a_broken_matrix_of_the_device_is_refused(part, place, value, words):
    X = sp.csr_array(toy("hinge")[0])
    broken = getattr(X, part).copy()
    broken[place] = value
    with pytest.raises(ValueError, match=f"^X must be a valid CSR matrix, but its {words}"):
        place_simulated(on_device(X, **{part: broken}))


def test_parts_of_wrong_lengths_and_numbers_are_refused():
    X = sp.csr_array(toy("hinge")[0])
    with pytest.raises(ValueError, match=f"its indptr must have {N + 1} entries, not {N}$"):
        place_simulated(on_device(X, indptr=X.indptr[:-1]))
    with pytest.raises(ValueError, match="its data must have as many entries as indices"):
        place_simulated(on_device(X, data=X.data[:-1]))
    with pytest.raises(ValueError, match=r"^X must hold real numbers, not complex128$"):
        place_simulated(on_device(X, data=X.data.astype(complex)))
    with pytest.raises(ValueError, match=r"^X must be finite"):
        place_simulated(on_device(X, data=np.where(np.arange(X.nnz) == 3, np.nan, X.data)))
    with pytest.warns(DataConversionWarning, match="X is bool; it was converted to float32"):
        data = place_simulated(on_device(X, data=X.data != 0))
    assert data.norms2.sum() == X.nnz


@pytest.mark.parametrize("where", [lambda X: X, on_device], ids=["host", "device"])
def test_repeated_indices_are_added_up(where):
    rows, columns = np.array([0, 0, 1, 2, 2, 2, 2]), np.array([3, 1, 3, 4, 0, 4, 4])
    starts = np.searchsorted(rows, np.arange(4))
    values = np.array([1.0, 2.0, 7.0, 3.0, 4.0, 5.0, 6.0])
    X = sp.csr_array((values, columns, starts), shape=(3, 5))
    with pytest.warns(DataConversionWarning, match="CSR with repeated indices"):
        data = place_simulated(where(X))
    assert np.array_equal(data.sample(np.arange(3)).toarray(), X.toarray())
    assert np.array_equal(data.norms2, [5.0, 49.0, 14.0**2 + 16.0])
    assert data.nonzeros == 5


def test_indices_in_any_order_are_taken_as_they_are():
    X = sp.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3)
    )
    data = place_simulated(on_device(X))
    assert data.rows.values is X.data
    assert np.array_equal(data.scores(np.eye(3)), [[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"has .* GiB free"):
        place_simulated(sp.csr_array(toy("hinge")[0]), free=100)


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
        before = -np.inf
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
         'method must be "aggressive", "safe", "naive" or "pegasos" for sparse rows on the gpu'
         ' engine, not "gram"'),
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


def test_one_problem_at_a_time_over_sparse_rows():
    assert Both().gpu.problems_at_once() == 1
