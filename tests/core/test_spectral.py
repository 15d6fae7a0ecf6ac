"""sigma^2, its bounds and their failure probability; the plan."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.core import spectral
from batchsvm.core.planning import spectral_batch_size
from batchsvm.core.tuning import Tuning
from batchsvm.engines.cpu.dataset import place
from helpers import FORMATS, toy


def large(n=1500, d=400, seed=0):
    """Sparse rows with a slowly decaying spectrum and some common columns."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.05, format="csr", rng=rng)
    X.data = rng.random(X.data.size)
    return X


def exact(X):
    X = np.asarray(X.toarray() if sp.issparse(X) else X, float)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    unit = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)
    return np.linalg.norm(unit, 2) ** 2 / X.shape[0]


def test_exact_on_small_data_in_every_format(form):
    X, _ = toy("hinge")
    assert batchsvm.sigma2(form(X)) == pytest.approx(exact(X), rel=1e-6)
    assert batchsvm.sigma2(form(X.T.copy())) == pytest.approx(exact(X.T), rel=1e-6)
    assert batchsvm.sigma2(form(X)).failure_probability == 0


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_lanczos_is_an_upper_bound_and_a_close_one(form):
    X = large()
    found = batchsvm.sigma2(form(X.toarray()))
    assert "Lanczos" in found.how
    assert exact(X) <= found <= 1.3 * exact(X)


@pytest.mark.parametrize("method", ["lanczos", "sample"])
def test_bounds_fail_no_more_often_than_stated(method):
    # Bounds with a failure probability of 0.2, on 200 random starts each.
    X = large(600, 300)
    truth = exact(X)
    failures = sum(
        batchsvm.sigma2(
            X, method, failure_probability=0.2, sampled_rows=100, random_state=seed
        ) < truth
        for seed in range(200)
    )  # fmt: skip
    assert failures <= 0.2 * 200


def test_lanczos_without_its_correction_is_no_bound():
    # Ritz values are below the eigenvalue; the margin is what makes a bound of them.
    X = large(600, 300)
    data, question = batchsvm.place(X), spectral.SpectralQuery("lanczos")
    for seed in range(20):
        ritz, _ = spectral._lanczos(data, question, 6, np.random.default_rng(seed))
        assert ritz / 600 <= exact(X) * (1 + 1e-12)
    slow, _ = spectral._lanczos(data, question, 1, np.random.default_rng(0))
    assert slow / 600 < 0.9 * exact(X)


def test_an_estimate_is_close_and_claims_nothing():
    X = large(20_000, 500)
    found = batchsvm.sigma2(X, "estimate")
    assert 0.5 * exact(X) < found < 2 * exact(X)
    assert np.isnan(found.failure_probability)
    assert "sigma^2 about" in str(batchsvm.plan(X, sigma2=found))


def test_an_estimate_of_rows_that_are_all_zero():
    assert batchsvm.sigma2(sp.csr_array((20_000, 2000)), "estimate") == 1 / 20_000


def test_a_larger_sample_is_closer():
    X = large(8000, 300)
    found = [batchsvm.sigma2(X, "sample", sampled_rows=m) for m in (100, 1000, 7999)]
    assert found[0] > found[1] > found[2] >= exact(X)
    assert batchsvm.sigma2(X, "sample", sampled_rows=10**6) <= found[2]


def test_the_crude_bound_is_an_upper_bound_in_one_pass():
    for X in (large(), toy("hinge")[0], np.ones((5, 3))):
        assert exact(X) * (1 - 1e-12) <= batchsvm.sigma2(X, "crude") <= 1


def test_without_normalising():
    X, _ = toy("hinge")
    with pytest.raises(ValueError, match="norm at most 1"):
        batchsvm.sigma2(X, normalize=False)
    X /= np.linalg.norm(X, axis=1).max()
    found = batchsvm.sigma2(X, normalize=False)
    assert found == pytest.approx(np.linalg.norm(X, 2) ** 2 / len(X))


def test_all_zero_data():
    assert batchsvm.sigma2(np.zeros((10, 3))) == pytest.approx(0.1)
    assert batchsvm.beta_b(10, 10, 0.1) == 1.0


def test_the_same_seed_gives_the_same_bound_and_it_survives_pickling():
    X = large()
    one, two = batchsvm.sigma2(X, random_state=1), batchsvm.sigma2(X, random_state=1)
    assert one == two
    again = pickle.loads(pickle.dumps(one))
    assert (again, again.how, again.failure_probability) == (one, one.how, one.failure_probability)


@pytest.mark.parametrize(("n", "sigma2"), [(1000, 0.05), (1000, 1.0), (1000, 0.001), (7, 0.3)])
def test_recommended_batch_is_the_largest_with_beta_at_most_two(n, sigma2):
    b = spectral_batch_size(n, sigma2)
    assert batchsvm.beta_b(b, n, sigma2) <= 2 + 1e-9
    assert b == n or batchsvm.beta_b(b + 1, n, sigma2) > 2


def test_the_plan():
    X = large()
    plan = batchsvm.plan(X, lam=1e-3, tol=1e-2)
    assert [row.b for row in plan.table][:4] == [1, 2, 4, 8]
    assert plan.table[-1].b == plan.n == 1500
    assert plan.batch_size in [row.b for row in plan.table]
    for row in plan.table:
        assert row.beta_b == pytest.approx(batchsvm.beta_b(row.b, plan.n, plan.sigma2))
        assert row.speedup == pytest.approx(row.b / row.beta_b)
        assert row.t0 <= row.T0 < row.T
    assert plan.table[0].speedup == 1
    assert np.all(np.diff([row.pegasos_T for row in plan.table]) < 0)
    text = str(plan)
    what = "serial SDCA, then Newton's method if needed, one thread"
    assert f"training: {what}: {plan.reason}" in text
    assert plan.sigma2.how in text
    assert "in iterations (not in seconds)" in text
    assert all(str(forecast) in text for forecast in plan.times)
    assert "Theorems" not in text
    worst = plan.describe(theory=True)
    assert "Theorems 1 and 2" in worst
    assert f"{plan.table[0].pegasos_T:,}" in worst
    assert plan.batch_limit == spectral_batch_size(1500, plan.sigma2) > 1
    assert plan.batch_limit in [row.b for row in plan.table]


@pytest.mark.parametrize(
    "asked",
    [{}, {"method": "safe"}, {"method": "aggressive", "batch_size": 7}, {"bias": 2.0},
     {"loss": "logistic", "lam": 1e-6}, {"loss": "squared_hinge"}, {"n_jobs": 2},
     {"method": "gram"}, {"lam": 1e-7}],
    ids=str,
)  # fmt: skip
def test_the_plan_is_what_a_fit_does(asked):
    X, y = toy("hinge", n=300)
    fitted = {"lam": 1e-2, "random_state": 5, "max_epochs": 100, "warn": False} | asked
    solution = batchsvm.fit(X, y, **fitted)
    plan = batchsvm.plan(X, y, **({"lam": 1e-2, "max_epochs": 100} | asked))
    assert plan == solution.plan
    ended = (solution.method.name, solution.batch_size)
    assert ended in [(plan.method, plan.batch_size), (plan.fallback, len(y))]
    assert plan.is_trial == (asked == {"lam": 1e-7})
    assert plan.sigma2.how == solution.plan.sigma2.how


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_plan_of_many_classes_divides_the_threads(k):
    X, y = toy("hinge", n=300)
    labels = y if k == 1 else np.arange(300) % max(k, 3)
    eager = Tuning(min_parallel_nonzeros=0, min_rows_per_block=1)
    with place(X, jobs=4, tuning=eager) as data:
        plan = batchsvm.plan(data, labels, lam=1.0)
        fitted = batchsvm.fit_many(data, labels, lam=1.0, random_state=0)
        assert plan == fitted[0].plan
        assert plan.workers == 4 // (1 if k == 1 else max(k, 3))


@pytest.mark.parametrize(
    ("loss", "asked"),
    [("absolute", {}), ("huber", {"lam": 1e-7}), ("hinge", {"averaging": "tail"}),
     ("hinge", {"max_epochs": 3, "lam": 1e-9}), ("quantile", {"lam": 1e-9})],
)  # fmt: skip
def test_the_plan_knows_weights_offsets_and_limits(loss, asked):
    X, y = toy(loss, n=300)
    rng = np.random.default_rng(0)
    both = {
        "loss": loss, "lam": 1e-2, "sample_weight": rng.uniform(0, 2, 300),
        "offset": rng.normal(size=300), "bias": 1.0,
    } | asked  # fmt: skip
    assert batchsvm.plan(X, y, **both) == batchsvm.fit(X, y, warn=False, **both).plan


def test_the_plan_of_an_intercept():
    X, y = toy("hinge", n=300)
    for intercept in ("penalised", "free"):
        asked = {"intercept": intercept, "scaling": 2.0, "lam": 1e-2}
        plan = batchsvm.plan(X, y, **asked)
        [solution] = batchsvm.fit_many(X, y, random_state=0, **asked)
        assert plan == solution.plan
        assert plan.d == 7
    for wrong in ({"bias": 1.0}, {"offset": np.ones(300)}):
        with pytest.raises(ValueError, match="must be None if intercept is given"):
            batchsvm.plan(X, y, intercept="free", **wrong)


def test_the_plan_refuses_what_a_fit_refuses():
    X, y = toy("hinge")
    for asked, words in [
        ({"batch_size": 61}, "batch_size must be"),
        ({"method": "unheard"}, "method must be"),
        ({"precision": "tf32"}, "precision must be"),
        ({"bias": -1.0}, "bias must be"),
    ]:
        with pytest.raises(ValueError, match=words):
            batchsvm.plan(X, y, **asked)


def test_the_plan_of_a_regression_needs_y():
    X, y = toy("huber")
    with pytest.raises(ValueError, match="y must be given"):
        batchsvm.plan(X, loss="huber")
    assert batchsvm.plan(X, y, loss="huber").table[0].T > 0


def test_a_fit_explains_its_batch_size():
    X, y = toy("hinge")
    auto = batchsvm.fit(X, y, lam=0.05)
    assert auto.batch_size == auto.plan.batch_size == 1
    assert "one thread" in auto.plan.reason
    safe = batchsvm.fit(X, y, lam=0.05, method="safe")
    assert safe.batch_size == spectral_batch_size(60, safe.plan.sigma2) > 1
    assert "beta_b <= 2" in safe.plan.reason
    asked = batchsvm.fit(X, y, lam=0.05, method="safe", batch_size=3)
    assert asked.plan.batch_size == 3
    assert "asked" in asked.plan.reason


def counting(monkeypatch):
    """Estimates of sigma^2 are counted in the list that this returns."""
    made, estimate = [], spectral._estimate
    monkeypatch.setattr(spectral, "_estimate", lambda *given: made.append(1) or estimate(*given))
    return made


def labelled():
    """Rows of which sigma^2 is estimated, and labels."""
    X = large()
    return X, np.where(np.arange(X.shape[0]) % 3 == 0, 1.0, -1.0)


def test_a_fit_on_one_thread_estimates_sigma2_when_its_plan_is_asked(monkeypatch):
    X, y = labelled()
    expected, made = batchsvm.sigma2(X, "estimate"), counting(monkeypatch)
    solution = batchsvm.fit(X, y, lam=0.01)
    assert not made
    X.data[:] = 7.0  # the rows that it needs have been taken, and the data set of `fit` is closed
    assert solution.plan.sigma2 == solution.plan.sigma2 == expected
    assert len(made) == 1
    assert pickle.loads(pickle.dumps(solution.plan)).sigma2.how == expected.how
    assert len(made) == 1


def test_an_estimate_that_was_interrupted_is_made_again(monkeypatch):
    X, y = labelled()
    expected, made = batchsvm.sigma2(X, "estimate"), counting(monkeypatch)
    plan = batchsvm.fit(X, y, lam=0.01).plan
    root, calls = spectral.sqrt, []

    def interrupted(value):
        calls.append(value)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return root(value)

    monkeypatch.setattr(spectral, "sqrt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _ = plan.sigma2
    assert plan.sigma2 == expected
    assert len(made) == 2


def test_threads_that_ask_one_plan_share_one_estimate(monkeypatch):
    X, y = labelled()
    expected, made = batchsvm.sigma2(X, "estimate"), counting(monkeypatch)
    plan = batchsvm.fit(X, y, lam=0.01).plan
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: plan.sigma2, range(64)))
    assert found == [expected] * 64
    assert len(made) == 1
