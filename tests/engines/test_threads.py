"""One fit on several threads: the same result, sound layouts, nobody waits for ever."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm import BatchSVC
from batchsvm.compiled import Kernel
from batchsvm.core.layout import Workload, lay_out
from batchsvm.core.problem import make_problem
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.datasets import text
from batchsvm.engines.cpu.column_slices import slice_columns
from batchsvm.engines.cpu.passes import blocks_for, blocks_of
from batchsvm.engines.cpu.workers import Worker, WorkerPool
from batchsvm.losses import LOSSES
from batchsvm.methods import Blocks, Gram, Guarded
from batchsvm.models.model import model_of_estimator
from helpers import FORMATS, HOST_METHODS, LAM, placed, quietly, thinned, toy

# Threads for little data too.
EAGER = {
    "min_parallel_nonzeros": 0, "min_worker_rows": 1, "min_worker_nonzeros": 1,
    "min_pair_nonzeros": 1,
}  # fmt: skip


def fit_on(jobs, X, y, *arguments, **options):
    """A fit by so many threads, however little there is to do."""
    with placed(X, jobs, **EAGER) as data:
        return quietly(data, y, *arguments, **options)


@pytest.mark.parametrize(("method", "stored"), thinned(HOST_METHODS, FORMATS))
def test_any_number_of_threads_gives_the_same_to_rounding(method, stored):
    form = FORMATS[stored]
    X, y = toy("hinge")
    asked = Gram(batches=3) if method == "gram" else method  # else one batch per thread
    runs = [
        fit_on(
            jobs, form(X), y, lam=LAM, method=asked, batch_size=6, tol=0, max_epochs=4,
            random_state=3,
        )
        for jobs in (1, 2, 3)
    ]  # fmt: skip
    assert [run.plan.workers for run in runs] == [1, 2, 2 if method == "blocks" else 3]
    for run in runs[1:]:
        np.testing.assert_allclose(run.w, runs[0].w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(run.alpha, runs[0].alpha, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "averaging"), thinned(["pegasos", "safe", "aggressive"], [None, "tail", "decay"])
)
def test_averages_are_the_same_on_two_threads(method, averaging):
    X, y = toy("logistic")
    one, two = (
        fit_on(
            jobs, X, y, "logistic", LAM, HOST_METHODS[method](sampling="subsets"), 5, tol=0,
            max_epochs=6, averaging=averaging, random_state=1,
        )
        for jobs in (1, 2)
    )  # fmt: skip
    np.testing.assert_allclose(two.w, one.w, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize("method", ["auto", *HOST_METHODS])
def test_the_same_seed_and_threads_give_the_same_bits(method, jobs):
    X, y = toy("hinge")
    first, second = (
        fit_on(jobs, X, y, lam=LAM, method=method, tol=1e-3, max_epochs=20, random_state=7)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.w, second.w)
    np.testing.assert_array_equal(first.alpha, second.alpha)


def wide(n=400, d=3000):
    X = sp.random_array((n, d), density=0.1, format="csr", rng=np.random.default_rng(0))
    X.data -= 0.5  # rows of one sign would be much alike
    return X, np.where(np.random.default_rng(1).random(n) < 0.5, 1.0, -1.0)


def test_auto_cuts_columns_of_wide_data_and_rows_of_thin_data():
    X, y = wide()
    with placed(X, 2, **EAGER, batch_rows_per_worker=1000) as data:
        cut = quietly(data, y, lam=0.01, random_state=0)
    assert isinstance(cut.method, Guarded)
    assert cut.status.converged
    assert cut.plan.workers == 2
    at_most = 1.5 / cut.plan.sigma2
    assert at_most - 8 < cut.batch_size <= at_most
    assert cut.batch_size % 8 == 0
    assert fit_on(2, X, y, lam=0.01).batch_size == 2 * DEFAULT_TUNING.batch_rows_per_worker
    assert "cut among 2 threads" in str(cut.plan)
    X, y = toy("hinge")
    thin = fit_on(2, X, y, lam=LAM, random_state=0)
    assert isinstance(thin.method, Blocks)
    assert thin.status.converged
    assert "few columns" in thin.plan.reason
    for solution, data, lam in ((cut, wide()[0], 0.01), (thin, X, LAM)):
        target = wide()[1] if data.shape[0] == 400 else y
        exact = batchsvm.fit(data, target, lam=lam, tol=1e-7, max_epochs=10_000)
        assert solution.certificate.primal - exact.certificate.dual <= 1e-3 + 1e-6


def test_auto_leaves_little_data_short_rows_and_scrambled_indices_to_one_thread():
    X, y = wide()
    scrambled = X.copy()
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        scrambled.indices[row] = X.indices[row][::-1]
        scrambled.data[row] = X.data[row][::-1]
    scrambled.has_sorted_indices = False
    plans = [fit_on(2, scrambled, y, lam=0.01).plan]
    for thresholds in (EAGER | {"min_worker_nonzeros": 10_000}, {"min_parallel_nonzeros": 10**9}):
        with placed(X, 2, **thresholds) as data:
            plans.append(batchsvm.fit(data, y, lam=0.01).plan)
    for plan, words in zip(plans, ("not sorted", "too short", "little data"), strict=True):
        assert plan.workers == plan.batch_size == 1
        assert words in plan.reason


def test_auto_takes_rows_much_alike_one_by_one():
    X = sp.random_array((400, 600), density=0.8, format="csr", rng=np.random.default_rng(0))
    y = wide()[1]
    solution = fit_on(2, X, y, lam=0.1, random_state=0, max_epochs=5000)
    assert solution.batch_size == 1
    assert "much alike" in solution.plan.reason
    assert solution.status.converged


def test_the_plan_names_the_threads_that_are_left_by_sigma2():
    X, _ = wide()
    work = Workload(*X.shape, X.nnz, sliceable=True, jobs=8, tuning=Tuning(**EAGER))
    found = lay_out(work, False, lambda: 1 / 20, lam_n=4.0)
    assert (found.batch_size, found.workers) == (24, 6)  # 1.5 times 20, in lines of 8
    assert "are cut among 6 threads" in found.reason


def test_rows_that_never_rest_are_visited_in_larger_batches_and_blocks():
    """Their steps are short: the logistic loss has no corner."""
    X, _ = wide()
    cut = Workload(*X.shape, X.nnz, sliceable=True, jobs=8, tuning=Tuning(**EAGER))
    assert lay_out(cut._replace(rests=False), False, lambda: 1 / 20, lam_n=4.0).batch_size == 80
    few = Workload(500_000, 54, 6_000_000, sliceable=True, jobs=2, tuning=Tuning())
    sizes = [lay_out(few._replace(rests=rests), False, lambda: 0.65, lam_n=5.5).batch_size
             for rests in (True, False)]  # fmt: skip
    assert sizes == [2 * 48, 2 * 129]


def test_workers_share_a_pass_over_rows_sorted_by_length():
    lengths = np.arange(1, 2001)
    for workers in (2, 3, 16):
        blocks = blocks_of(lengths.size, workers, 32768)
        assert [a for a, _ in blocks[1:]] == [b for _, b in blocks[:-1]]
        assert (blocks[0][0], blocks[-1][1]) == (0, 2000)
        mine = [blocks_for(Worker(k, workers, np.empty(0)), len(blocks)) for k in range(workers)]
        assert sorted(k for own in mine for k in own) == list(range(len(blocks)))
        shares = [sum(lengths[slice(*blocks[k])].sum() for k in own) for own in mine]
        assert max(shares) < 1.05 * min(shares)
    assert blocks_of(2000, 1, 32768) == [(0, 2000)]
    assert len(blocks_of(3, 2, 32768)) == 3


def test_guarded_steps_stay_long_while_they_keep_their_promise():
    # Late in a run D rises by little beside the gap; that is no failure of the batches.
    X, y = text(2000, 5000, 30)
    serial, guarded = (
        batchsvm.fit(X, y, lam=1e-4, method="guarded", batch_size=b, tol=1e-6, random_state=0)
        for b in (1, 16)
    )
    assert np.all(guarded.history.beta == 1)
    assert guarded.history.epoch[-1] < 1.5 * serial.history.epoch[-1]


def identical_rows(n=64):
    return np.ones((n, 1)), np.ones(n)


def test_guarded_steps_get_shorter_when_the_dual_falls():
    # All rows the same: naive steps jump to and fro (Section 4.1), and never converge.
    X, y = identical_rows()
    naive, guarded = (
        quietly(X, y, lam=0.5, method=method, batch_size=64, tol=1e-6, max_epochs=400)
        for method in ("naive", "guarded")
    )
    assert not naive.status.converged
    assert guarded.status.converged
    assert np.all(np.diff(guarded.history.beta) >= 0)
    assert 1 < guarded.history.beta[-1] <= 64


def test_blocks_never_let_the_dual_fall():
    X, y = identical_rows()
    solution = quietly(
        X, y, lam=0.5, method=Blocks(blocks=8), batch_size=64, tol=1e-9, max_epochs=50,
        checkpoints=range(1, 40),
    )  # fmt: skip
    assert np.all(np.diff(solution.history.dual) >= -1e-15)
    assert solution.history.refused[-1] > 0  # shortened at least once
    assert solution.certificate.relative_gap < 1e-6


def test_column_slices_put_together_are_the_rows():
    X, _ = wide(50, 700)
    rng = np.random.default_rng(0)
    w, v = rng.normal(size=700), rng.normal(size=50)
    with placed(X, 3, min_parallel_nonzeros=0, max_exchanged_columns=0) as whole:
        np.testing.assert_allclose(whole.scores(w[:, np.newaxis])[:, 0], X @ w)
        targets = whole.targets(np.zeros(50))
        problem = make_problem(targets, LOSSES["absolute"](), 1.0)
        dual = whole.dual(problem, np.clip(v, -1, 1)[:, np.newaxis])
        found = whole.combination(problem, dual)[:, 0]
        np.testing.assert_allclose(found, X.T @ np.clip(v, -1, 1), atol=1e-12)
        slices = slice_columns(whole.rows, whole.pool, 3)
    spans = np.array([[part.span(i) for i in range(50)] for part in slices])
    np.testing.assert_array_equal(spans[0, :, 0], X.indptr[:-1])
    np.testing.assert_array_equal(spans[:-1, :, 1], spans[1:, :, 0])
    np.testing.assert_array_equal(spans[-1, :, 1], X.indptr[1:])
    sizes = (spans[..., 1] - spans[..., 0]).sum(axis=1)
    assert sizes.min() > 0.8 * sizes.mean()


@Kernel
def count_together(worker, rounds, seen):
    for k in range(rounds):
        seen[worker.rank] += 1
        worker.wait()
        for other in range(worker.workers):
            if seen[other] < k + 1:
                return False
        worker.wait()
    return True


def test_nobody_goes_on_before_all_have_come():
    with WorkerPool(4) as pool:
        seen = np.zeros(4, np.int64)
        assert pool.run(lambda worker: count_together(worker, 200, seen)) == [True] * 4
        assert seen.tolist() == [200] * 4


@pytest.mark.parametrize("fallen", [0, 2])
def test_an_error_in_one_worker_frees_the_others(fallen):
    def work(worker):
        if worker.rank == fallen:
            raise RuntimeError("one fell")
        count_together(worker, 10, np.full(4, 10**6))

    with WorkerPool(3) as pool, pytest.raises(RuntimeError, match="one fell"):
        pool.run(work)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": Blocks(blocks=0)}, "blocks must be a positive integer up to 65536, not 0"),
        ({"method": Blocks(sampling="subsets")}, 'sampling must be "permutation" for blocks'),
        ({"method": Blocks(exchange="rare")}, "exchange must be one of 'all', 'frequency'"),
        ({"method": "blocks", "averaging": "decay"}, "averaging must be None for blocks"),
    ],
)
def test_what_does_not_go_with_blocks(arguments, message):
    X, y = toy("hinge")
    with pytest.raises(ValueError, match=message):
        batchsvm.fit(X, y, lam=LAM, **arguments)


def test_predictions_are_the_same_on_any_number_of_threads():
    X, y = wide()
    estimator = BatchSVC(random_state=0).fit(X, y)
    one = estimator.decision_function(X)
    three = estimator.set_params(n_jobs=3).decision_function(X)
    np.testing.assert_allclose(three, one, rtol=1e-12, atol=1e-14)
    model = model_of_estimator(estimator)
    np.testing.assert_allclose(model.decision_function(X, n_jobs=3), one, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(model.predict(X, n_jobs=3), estimator.predict(X))
