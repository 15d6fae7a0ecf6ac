"""What every engine has to pass: second derivatives, passes that need no problem, and data sets
that are parts of others, shared, closed, and used by several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import inf

import numpy as np
import pytest
import scipy.sparse as sp
from setting import (
    BY_CHANCE,
    CASES,
    CLOSED,
    CUT_SMALL,
    FORMS,
    RUNS,
    Setting,
    close_to,
    dense,
    offered,
)

import batchsvm
from batchsvm.core.certificate import SUPPORT_VECTORS
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.engines.protocol import Dataset
from batchsvm.losses import LOSSES, TINY
from batchsvm.methods import Naive
from helpers import FORMATS, HOST_ENGINES, LAM, toy

# second derivatives.


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("loss_name", ["logistic", "squared_hinge", "huber"])
def test_the_hessian_is_the_derivative_of_the_gradient(engine, loss_name, k):
    setting = Setting(engine, loss_name, k).place()
    W, _ = setting.random_points()
    V = np.random.default_rng(3).normal(size=W.shape)
    step = 1e-6
    with setting.data as data:
        times = data.hessian_times(setting.problem, W, V)
        assert times.shape == W.shape
        # The gradient of the mean loss is minus sum_i alpha_i s_i x_i / N at alpha = dual_at(W).
        weight = data.facts(setting.problem).total_weight
        ends = [
            -data.combination(setting.problem, data.dual_at(setting.problem, W + t * V)) / weight
            for t in (step, -step)
        ]
        for k_ in range(k):
            own = setting.problem.only(k_)
            hessian = data.hessian(own, W[:, [k_]])
            assert hessian.shape == (setting.p, setting.p)
            np.testing.assert_allclose(hessian, hessian.T, atol=1e-14)
            close_to(hessian @ V[:, k_], times[:, k_])
            close_to(data.hessian_times(own, W[:, [k_]], V[:, [k_]])[:, 0], times[:, k_])
            a, c = setting.responses(k_, W[:, k_]), setting.weights(k_)
            kinks = np.abs(np.abs(a) - 1)
            assert loss_name == "logistic" or kinks[c > 0].min() > 1e-5
        if k > 1:
            with pytest.raises(ValueError, match="must be one problem for its Hessian, not 3"):
                data.hessian(setting.problem, W)
    np.testing.assert_allclose(times, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-8)
    assert np.abs(times).max() > 1e-3


# passes that need no problem.


@pytest.mark.parametrize("bias", [None, 0.7])
@pytest.mark.parametrize("normalize", [True, False])
def test_passes_are_those_of_plain_numpy(engine, stored, normalize, bias):
    given, X = stored
    full = X if bias is None else np.column_stack([X, np.full(len(X), bias)])
    norms = np.linalg.norm(full, axis=1, keepdims=True)
    if normalize:  # row 3 of X is zero
        full = full / np.where(norms > 0, norms, 1.0)
    rng = np.random.default_rng(0)
    with place_on(engine, given, 1) as data:
        assert (data.n, data.d) == X.shape
        assert data.engine == engine
        stored_entries = given.nnz if sp.issparse(given) else given.size
        assert data.nonzeros == stored_entries
        assert data.mean_norm2 == pytest.approx((X**2).sum() / len(X), rel=1e-13)
        for m in (1, 2, 5):
            V = rng.normal(size=(full.shape[1], m))
            close_to(data.gram_times(V, normalize, bias), full.T @ (full @ V), scale=10)
        rows = np.array([3, 17, 2, 59, 41])
        v = rng.normal(size=rows.size)
        few = full[rows]
        gram_times = data.row_gram(rows, normalize, bias)
        columns, widest = data.absolute_sums(normalize, bias)
        close_to(columns, np.abs(full).sum(axis=0))
        assert widest == pytest.approx(np.abs(full).sum(axis=1).max(), rel=1e-13)
    # The data set is closed, and somebody has changed its rows.
    entries = given.data if sp.issparse(given) else given
    kept, entries[...] = entries.copy(), 7.0
    for _ in range(2):
        close_to(gram_times(v), few @ (few.T @ v), scale=10)
    entries[...] = kept


@pytest.mark.parametrize("loss_name", ["hinge", "smoothed_hinge"])
def test_norms_that_are_not_kept_change_nothing(engine, loss_name):
    setting, found = Setting(engine, loss_name, 1), []
    W, alpha = setting.random_points()
    for keeps_norms in (True, False):
        with place_on(engine, setting.stored, 1, CUT_SMALL, keeps_norms) as data:
            problem = setting.problem_over(data)
            sums = data.sums(problem, W, data.dual(problem, alpha))
            found.append((*data.facts(problem), sums.values))
    for kept, computed in zip(*found, strict=True):
        np.testing.assert_array_equal(kept, computed)


@pytest.mark.parametrize("keeps_norms", [True, False])
@pytest.mark.parametrize("value", [np.nan, -inf, 1e200])
def test_rows_that_are_not_finite_are_refused(engine, value, keeps_norms):
    for form in ("dense-float64", "csr-float64-int32"):
        X, y = toy("hinge")
        X[[7, 20], 2] = value
        words = rf"^X must be finite \(no NaN, no inf\) and below 1e150, but row 7 holds {value!r}$"
        with (
            pytest.raises(ValueError, match=words.replace("+", r"\+")),
            place_on(engine, FORMATS[form](X), 1, CUT_SMALL, keeps_norms) as data,
        ):
            data.facts(make_problem(data.targets(y), LOSSES["hinge"](), LAM))


def test_samples_scores_and_column_norms(engine, stored, k):
    given, X = stored
    rng = np.random.default_rng(0)
    W = rng.normal(size=(X.shape[1], k))
    rows = np.array([41, 3, 59, 0, 3])
    with place_on(engine, given, 1) as data:
        close_to(data.scores(W), X @ W)
        close_to(data.column_norms2(), (X**2).sum(axis=0))
        taken = data.sample(rows)
        assert taken.dtype == np.float64
        assert sp.issparse(taken) == sp.issparse(given)
        np.testing.assert_array_equal(dense(taken), X[rows])
        blocks = data.over_blocks(lambda start, stop: np.arange(start, stop))
        np.testing.assert_array_equal(np.concatenate(blocks), np.arange(len(X)))


def test_a_subset_is_a_data_set_of_its_own(engine, stored):
    given, X = stored
    rows = np.array([41, 3, 59, 0, 8, 30])
    W = np.random.default_rng(0).normal(size=(X.shape[1], 2))
    with place_on(engine, given, 1) as data:
        with data.subset(rows) as part:
            assert (part.n, part.d) == (rows.size, X.shape[1])
            assert part.memo is not data.memo
            assert part.mean_norm2 == pytest.approx((X[rows] ** 2).sum() / rows.size, rel=1e-13)
            close_to(part.scores(W), X[rows] @ W)
            full = X[rows] / np.maximum(np.linalg.norm(X[rows], axis=1, keepdims=True), TINY)
            close_to(part.gram_times(W), full.T @ (full @ W))
            np.testing.assert_array_equal(dense(part.sample(np.arange(6))), X[rows])
        with pytest.raises(ValueError, match=CLOSED):
            part.scores(W)
        close_to(data.scores(W), X @ W)  # which is still open


def test_a_share_is_the_same_data_with_other_threads(engine, stored):
    given, X = stored
    W = np.random.default_rng(0).normal(size=(X.shape[1], 2))
    with place_on(engine, given, 2, CUT_SMALL) as data:
        jobs = data.jobs
        assert jobs == (1 if engine == "gpu" else 2)  # a device has no threads of this host
        with data.share(1) as view:
            assert (view.n, view.d, view.jobs, view.engine) == (*X.shape, 1, engine)
            assert view.tuning is data.tuning
            close_to(view.scores(W), X @ W)
        with pytest.raises(ValueError, match=CLOSED):
            view.scores(W)
        assert data.jobs == jobs
        close_to(data.scores(W), X @ W)


def test_a_share_knows_what_has_been_measured(engine):
    X, _ = toy("hinge")
    with place_on(engine, X, 2) as data, data.share(1) as view:
        assert view.memo is data.memo


# weights, closing, sharing.


@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge", "huber"])
def test_a_weight_is_as_many_copies(engine, loss_name):
    X, y = toy(loss_name)
    weight = np.random.default_rng(0).integers(0, 4, size=len(y)).astype(float)
    copies = np.repeat(np.arange(len(y)), weight.astype(int))
    form, loss = FORMATS[CASES[loss_name].form], LOSSES[loss_name]()
    W = np.random.default_rng(1).normal(size=(X.shape[1], 1))
    with place_on(engine, form(X), 1) as data, place_on(engine, form(X[copies]), 1) as copied:
        weighted = make_problem(data.targets(y, weight), loss, LAM)
        plain = make_problem(copied.targets(y[copies]), loss, LAM)
        point, other = data.dual_at(weighted, W), copied.dual_at(plain, W)
        close_to(point.fetch()[copies], other.fetch() * weight[copies, np.newaxis])
        ours, theirs = data.sums(weighted, W, point), copied.sums(plain, W, other)
        close_to(ours.values[:SUPPORT_VECTORS], theirs.values[:SUPPORT_VECTORS])
        close_to(data.combination(weighted, point), copied.combination(plain, other))
        assert data.facts(weighted).total_weight == copied.facts(plain).total_weight


def calls_of(setting):
    """A call of every public method of a data set."""
    data, problem = setting.data, setting.problem
    W, alpha = setting.random_points()
    dual, rows = data.dual(problem, alpha), np.array([1, 2])
    trainer = data.trainer(problem)
    b = np.zeros(setting.k)
    return {
        "over_blocks": lambda: data.over_blocks(lambda start, stop: None),
        "targets": lambda: data.targets(np.ones(setting.n)),
        "facts": lambda: data.facts(problem),
        "constant_sums": lambda: data.constant_sums(problem, b),
        "offset_range": lambda: data.offset_range(problem),
        "gram_times": lambda: data.gram_times(W[: setting.d]),
        "row_gram": lambda: data.row_gram(rows),
        "absolute_sums": lambda: data.absolute_sums(),
        "column_norms2": lambda: data.column_norms2(),
        "sample": lambda: data.sample(rows),
        "subset": lambda: data.subset(rows),
        "share": lambda: data.share(1),
        "scores": lambda: data.scores(W[: setting.d]),
        "dual": lambda: data.dual(problem, alpha),
        "dual_at": lambda: data.dual_at(problem, W),
        "owns": lambda: data.owns(dual),
        "joined_dual": lambda: data.joined_dual([dual]),
        "balanced": lambda: data.balanced(problem, dual),
        "sums": lambda: data.sums(problem, W, dual),
        "combination": lambda: data.combination(problem, dual),
        "point_sums": lambda: data.point_sums(problem, W, dual),
        "settled": lambda: data.settled(problem, W, np.ones(setting.k)),
        "gradient_sums": lambda: data.gradient_sums(problem, W),
        "losses_along": lambda: data.losses_along(problem, W, W, np.ones(1)),
        "newton_trainer": lambda: data.newton_trainer(problem, trainer),
        "hessian": lambda: data.hessian(problem, W),
        "rough_hessian": lambda: data.rough_hessian(problem, W),
        "hessian_times": lambda: data.hessian_times(problem, W, W),
        "trainer": lambda: data.trainer(problem),
    }


METHODS_OF_A_DATASET = sorted(
    name for name, value in vars(Dataset).items()
    if callable(value) and not name.startswith("_")
    and name not in ("close", "problems_at_once")  # which says what a data set could do
    and name not in ("own_targets", "class_totals")  # for rows that bring their labels
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS_OF_A_DATASET)
@pytest.mark.parametrize("jobs", [1, 2])
def test_closed_data_refuse_every_method(engine, method, jobs):
    setting = Setting(engine, "hinge", 1)
    setting.data = place_on(engine, setting.stored, jobs, CUT_SMALL)
    setting.problem = setting.problem_over(setting.data)
    calls = calls_of(setting)
    calls[method]()
    setting.data.close()
    with pytest.raises(ValueError, match=CLOSED):
        calls[method]()
    setting.data.close()  # once more does no harm


def test_fits_refuse_closed_data_and_what_is_settled_by_placing(engine):
    X, y = toy("hinge")
    with batchsvm.place(X, engine, n_jobs=1) as data:
        for arguments, words in (
            ({"engine": engine}, "engine must be 'auto' for placed data"),
            ({"n_jobs": 2}, "n_jobs must be None for placed data"),
        ):
            with pytest.raises(ValueError, match=words):
                batchsvm.fit(data, y, lam=LAM, **arguments)
            with pytest.raises(ValueError, match=words):
                batchsvm.fit_many(data, y, lam=LAM, **arguments)
            with pytest.raises(ValueError, match=words):
                batchsvm.sigma2(data, **arguments)
        assert batchsvm.fit(data, y, lam=LAM).status.converged
    for call in (
        lambda: batchsvm.fit(data, y, lam=LAM),
        lambda: batchsvm.fit_many(data, y, lam=LAM),
        lambda: batchsvm.path(data, y, [LAM]),
        lambda: batchsvm.certify(data, y, np.zeros(X.shape[1]), np.zeros(len(y))),
        lambda: batchsvm.plan(data, y),
    ):
        with pytest.raises(ValueError, match=CLOSED):
            call()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("engine", "storage"), dict.fromkeys(run.values[:2] for run in RUNS))
def test_fits_in_several_threads_at_once_are_those_one_after_another(engine, storage, jobs):
    X, y = toy("hinge")
    left_out = Naive, BY_CHANCE
    methods = [method for method in offered(engine, storage) if not isinstance(method, left_out)]

    def fit(data, seed):
        found = batchsvm.fit(  # not `quietly`: filters of warnings belong to all threads
            data, y, lam=LAM / (1 + seed), method=methods[seed % len(methods)],
            batch_size=[1, 6][seed % 2] if engine in HOST_ENGINES else 6, tol=1e-6, max_epochs=8,
            random_state=seed, warn=False,
        )  # fmt: skip
        return found.w, found.alpha, found.history.gap

    stored = FORMATS[FORMS[storage]](X)
    with place_on(engine, stored, jobs, CUT_SMALL, deterministic=True) as data:
        one_by_one = [fit(data, seed) for seed in range(6)]
        with ThreadPoolExecutor(4) as threads:
            at_once = list(threads.map(lambda seed: fit(data, seed), range(6)))
    for alone, together in zip(one_by_one, at_once, strict=True):
        for expected, found in zip(alone, together, strict=True):
            np.testing.assert_array_equal(found, expected)
