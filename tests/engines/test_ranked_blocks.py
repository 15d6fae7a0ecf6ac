"""Blocks that exchange rare columns less often: which columns, what is exchanged, and when steps
become shorter."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import numpy as np
import pytest
import scipy.sparse as sp

import oracle
from batchsvm.core.layout import Schedule, Workload, lay_out
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.tuning import Tuning
from batchsvm.datasets import text
from batchsvm.engines.column_ranks import ColumnRanks, count_columns, levels_of
from batchsvm.losses import LOSSES
from batchsvm.methods import Blocks
from batchsvm.methods.blocks import BETA_GROWTH
from helpers import HOST_ENGINES, place_on, placed, quietly

LAM = 0.05
TOUCHES = {"unaware_touches": 20.0}  # so many that little data have columns of many levels


# Levels.


def test_a_level_has_the_columns_with_half_as_many_entries_as_the_one_before():
    shares = np.array([0.5, 0.04, 0.3, 0.0, 0.1, 0.26, 0.25, 0.125, 1.0])
    ranks = levels_of(np.round(shares * 1000).astype(np.int64), 1000, 0.25)
    levels = np.split(ranks.columns, ranks.ends[:-1])
    found = [sorted(level.tolist()) for level in levels]
    # 0.25 and more; 0.125 and more; 0.0625 and more; and so on; 0.0 counts as 0.0005.
    assert found == [[0, 2, 5, 6, 8], [7], [4], [1], [], [], [], [], [], [3]]
    assert ranks.ends[-1] == shares.size


def test_all_columns_are_of_level_0_if_the_share_of_the_rarest_is_enough():
    ranks = levels_of(np.array([3, 0, 9]), 10, 0.0)
    assert ranks.ends.tolist() == [3]
    assert [ranks.due_end(turn) for turn in range(1, 9)] == [3] * 8


def test_level_k_is_due_every_2_to_the_k_iterations():
    ranks = ColumnRanks(np.arange(10, dtype=np.uint32), np.array([2, 3, 7, 10]))
    due = [ranks.due_end(turn) for turn in range(1, 17)]
    assert due == [2, 3, 2, 7, 2, 3, 2, 10] * 2


@pytest.mark.parametrize("engine", HOST_ENGINES)
@pytest.mark.parametrize("stored", ["csr", "dense"])
def test_columns_are_counted_in_a_sample_from_everywhere(engine, stored):
    X = sp.random_array((5000, 40), density=0.2, format="csr", rng=np.random.default_rng(0))
    X.data[:] = 1.0
    with place_on(engine, X if stored == "csr" else X.toarray(), 1) as data:
        counts, rows = count_columns(data, has_bias=True)
        assert counts.size == 41
        assert counts[40] == rows == (4096 if stored == "csr" else 2**17 // 40)
        share = np.count_nonzero(X.toarray(), axis=0) / 5000
        np.testing.assert_allclose(counts[:40] / rows, share, atol=0.02)
        assert count_columns(data, has_bias=False)[0].size == 40


# Steps.


def words(n=90, d=60, seed=0):
    """Sparse rows whose first columns are frequent."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 1.5 / (1 + np.arange(d)), rng.normal(size=(n, d)), 0.0)
    y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return sp.csr_array(X), y, rng.integers(1, 4, size=n) / 2


class Run:
    """A trainer that is moved call by call."""

    def __init__(self, data, y, weight, batch_size=12, blocks=3, loss="hinge"):
        self.trainer = data.trainer(make_problem(data.targets(y, weight), LOSSES[loss](), LAM))
        method = Blocks(blocks=blocks, exchange="frequency")
        self.trainer.start(Schedule(method, batch_size, workers=data.jobs, seed=1))
        self.count = 0

    def go(self, iterations):
        self.count += iterations
        self.trainer.run(self.count, np.array([-inf]), StopFlag())
        self.trainer.keep_dual(np.ones(1, np.bool_))
        alpha = self.trainer.best()[1].fetch()[:, 0]
        return self.trainer.point()[:, 0].copy(), alpha.copy()

    @property
    def ranks(self):
        host = self.trainer.trainers[0] if hasattr(self.trainer, "trainers") else self.trainer
        stepper = host.stepper
        return stepper.exchange.ranks if hasattr(stepper, "exchange") else stepper.blocks.ranks


@pytest.mark.parametrize("engine", HOST_ENGINES)
@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 8, 21])
def test_a_call_ends_at_w_of_alpha(engine, iterations):
    X, y, weight = words()
    with place_on(engine, X, 1, Tuning(**TOUCHES)) as data:
        run = Run(data, y, weight)
        assert run.ranks.ends.size > 3  # or no column waits
        for _ in range(3):
            w, alpha = run.go(iterations)
            expected = X.T @ (y * alpha) / (LAM * weight.sum())
            np.testing.assert_allclose(w, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_iterations_are_those_of_the_reference(jobs, loss_name):
    X, y, weight = words()
    if LOSSES[loss_name].task == "regression":
        y = X @ np.arange(X.shape[1]) / 20 + y
    with (
        placed(X, jobs, **TOUCHES) as ours,
        place_on("reference", X, 1, Tuning(**TOUCHES)) as theirs,
    ):
        runs = Run(ours, y, weight, loss=loss_name), Run(theirs, y, weight, loss=loss_name)
        assert runs[0].ranks.ends.tolist() == runs[1].ranks.ends.tolist()
        for iterations in (1, 4, 7, 40):
            (w, alpha), (w_there, alpha_there) = (run.go(iterations) for run in runs)
            np.testing.assert_allclose(w, w_there, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(alpha, alpha_there, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(runs[0].trainer.beta, runs[1].trainer.beta)


def test_columns_that_wait_make_a_difference():
    X, y, weight = words()
    points = []
    for touches in (20.0, 0.0):
        with placed(X, 1, unaware_touches=touches) as data:
            points.append(Run(data, y, weight).go(7)[0])
    assert np.abs(points[0] - points[1]).max() > 1e-3


def test_long_vectors_are_exchanged_run_by_run():
    """More columns than are exchanged at a time."""
    X, y = text(300, 40_000, 20)
    with placed(X, 2, **TOUCHES) as ours, place_on("reference", X, 1, Tuning(**TOUCHES)) as theirs:
        runs = Run(ours, y, None), Run(theirs, y, None)
        for iterations in (1, 30):
            (w, _), (there, _) = (run.go(iterations) for run in runs)
            np.testing.assert_allclose(w, there, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("bias", [None, 1.0])
def test_any_number_of_threads_gives_the_same_bits(bias):
    X, y = text(600, 900, 15)
    runs = []
    for jobs in (1, 2, 4):
        # Calls of a few iterations: each ends with an exchange of all columns.
        with placed(X, jobs, max_call_nonzeros=1500, **TOUCHES) as data:
            runs.append(
                quietly(
                    data, y, lam=0.01, method=Blocks(blocks=4, exchange="frequency"),
                    batch_size=40, tol=1e-5, bias=bias, max_epochs=30, random_state=4,
                )
            )  # fmt: skip
    assert [run.plan.workers for run in runs] == [1, 2, 4]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.w, runs[0].w)
        np.testing.assert_array_equal(run.alpha, runs[0].alpha)
        np.testing.assert_array_equal(run.history.beta, runs[0].history.beta)


# The guard.


def test_beta_grows_where_blocks_repeat_each_others_steps():
    """Rows are much alike: steps of eight blocks are several times too long together."""
    rng = np.random.default_rng(2)
    X, y = 1.0 + 0.2 * rng.normal(size=(640, 3)), np.where(np.arange(640) % 4, 1.0, -1.0)
    found = []
    for engine in HOST_ENGINES:
        with place_on(engine, X, 1) as data:
            run = Run(data, y, None, batch_size=64, blocks=8)
            betas = [1.0]
            for _ in range(60):
                w, _ = run.go(1)
                betas.append(float(run.trainer.beta[0]))
            found.append((betas, w))
        for before, after in pairwise(betas):
            assert after in (before, min(BETA_GROWTH * before, 8.0))
        assert 1.5 < betas[-1] <= 8.0
        # D has risen as promised now and then, and beta has stayed.
        assert betas.index(betas[-1]) >= len(set(betas))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-7)


def test_what_d_rises_by_is_what_the_guard_compares():
    """With beta 1 until D rises by less than half of what is promised, as an oracle sees it."""
    X, y, weight = words(seed=3)
    with placed(X, 1, **TOUCHES) as data:
        run = Run(data, y, weight, batch_size=45)
        before, beta = 0.0, 1.0
        for _ in range(30):
            _, alpha = run.go(1)
            dual = oracle.dual(X.toarray(), y, alpha, "hinge", LAM, weight)
            now = float(run.trainer.beta[0])
            assert now in (beta, min(BETA_GROWTH * beta, 3.0))
            if dual < before - 1e-12:  # a rise that is not there at all
                assert now == min(BETA_GROWTH * beta, 3.0)
            before, beta = dual, now


def test_a_fit_that_is_guarded_converges():
    X, y = np.ones((640, 3)) / np.sqrt(3), np.where(np.arange(640) % 4, 1.0, -1.0)
    solution = quietly(
        X, y, lam=0.01, method=Blocks(blocks=8, exchange="frequency"), batch_size=320,
        tol=1e-6, max_epochs=2000, random_state=0,
    )  # fmt: skip
    assert solution.status.converged
    assert solution.history.beta[-1] > 1.0


# Who takes them.


def shape(n=400_000, d=200_000, mean=69, jobs=8):
    return Workload(n, d, n * mean, sliceable=True, jobs=jobs, tuning=Tuning())


def test_auto_takes_them_for_many_sparse_rows_on_many_threads():
    found = lay_out(shape(), False, lambda: 0.004, lam_n=4.0)
    assert found.method == Blocks(blocks=8, exchange="frequency")
    assert found.workers == 8
    assert found.batch_size == 8 * int(0.9 * 4.0 / 0.004 / 8)
    assert "rare columns less often" in found.reason


@pytest.mark.parametrize(
    ("work", "sigma2", "lam_n"),
    [
        (shape(), 0.005, 0.4),  # too few steps may be unaware of each other
        (shape(), 0.2, 4.0),
        (shape(jobs=2, mean=400), 0.005, 4.0),  # columns of long rows are better cut
        (shape(n=2000, d=2**23), 0.0005, 4.0),  # copies of w would be larger than X
        (shape(d=600, mean=300), 0.005, 400.0),  # no column is rare
    ],
)
def test_auto_does_not_take_them(work, sigma2, lam_n):
    found = lay_out(work, False, lambda: sigma2, lam_n=lam_n)
    assert getattr(found.method, "exchange", "all") == "all"


def test_auto_does_not_rank_the_columns_of_every_part_of_the_rows():
    """On parts that are read from a disk, a fit took ten times as long with such blocks."""
    found = lay_out(shape()._replace(cheap_passes=False), False, lambda: 0.004, lam_n=4.0)
    assert getattr(found.method, "exchange", "all") == "all"


def test_long_rows_count_as_less_regularised():
    assert lay_out(shape(), False, lambda: 0.004, lam_n=400.0, norm2=100.0) == lay_out(
        shape(), False, lambda: 0.004, lam_n=4.0
    )
    assert lay_out(shape(), True, lambda: 0.004, lam_n=4.0).method != Blocks(
        blocks=8, exchange="frequency"
    )


def test_unsorted_indices_and_short_rows_do():
    work = shape(mean=12)._replace(sliceable=False)
    found = lay_out(work, False, lambda: 0.004, lam_n=4.0)
    assert found.method.exchange == "frequency"
