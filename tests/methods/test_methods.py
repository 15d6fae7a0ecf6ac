"""Every method x loss x storage x type: converges, is certified rightly, stays feasible."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import batchsvm
import oracle
from batchsvm.core import checks
from batchsvm.core.loop import Loop
from batchsvm.losses import LOSSES
from batchsvm.methods import Aggressive, Naive, Pegasos, Safe
from helpers import FORMATS, HOST_METHODS, LAM, grid, quietly, toy

# Pegasos converges like 1/t, and its dual point with it.
TOL = {**dict.fromkeys(HOST_METHODS, 1e-6), "pegasos": 0.1}


@pytest.mark.parametrize(("method", "loss_name", "stored"), grid(HOST_METHODS, LOSSES, FORMATS))
def test_reaches_its_gap_and_certifies_the_truth(method, loss_name, stored):
    form = FORMATS[stored]
    X, y = toy(loss_name)
    # Pegasos' steps are not bounded on a loss that is not Lipschitz: give it more lam.
    steep = LOSSES[loss_name]().lipschitz == inf
    lam = 1.0 if method == "pegasos" and steep else LAM
    solution = batchsvm.fit(
        form(X), y, loss_name, lam, method, batch_size=3, tol=TOL[method], max_epochs=20000,
        random_state=1,
    )  # fmt: skip
    certificate = solution.certificate
    assert solution.status is batchsvm.Status.CONVERGED
    assert solution.w.dtype == solution.alpha.dtype == np.float64

    expected_primal = oracle.primal(X, y, solution.w, loss_name, lam)
    expected_dual = oracle.dual(X, y, solution.alpha, loss_name, lam)
    assert certificate.primal == pytest.approx(expected_primal, abs=1e-12)
    assert certificate.dual == pytest.approx(expected_dual, abs=1e-12)
    assert certificate.gap == certificate.primal - certificate.dual
    assert certificate.bound >= certificate.gap
    assert certificate.relative_gap == certificate.bound / certificate.primal
    assert certificate.relative_gap <= TOL[method]
    assert certificate.support_vectors == np.count_nonzero(solution.alpha)
    assert batchsvm.certify(form(X), y, solution.w, solution.alpha, loss_name, lam) == certificate

    loss = LOSSES[loss_name]()
    assert solution.alpha.min() >= loss.lower
    assert solution.alpha.max() <= loss.upper
    if method != "pegasos":
        w = oracle.w_of_alpha(X, y, solution.alpha, loss_name, lam)
        # They may be of different checkpoints.
        distance = np.sqrt(2 * certificate.bound / lam)
        assert np.linalg.norm(solution.w - w) <= 2 * distance + 1e-11


@pytest.mark.parametrize("batch_size", [1, 2, 17, 59, 60])
@pytest.mark.parametrize("method", HOST_METHODS)
def test_any_batch_size_from_1_to_n(method, batch_size):
    X, y = toy("hinge")
    solution = quietly(
        X, y, lam=LAM, method=method, batch_size=batch_size, tol=1e-3, max_epochs=400
    )
    blocks = 2 if method == "blocks" else 1
    assert solution.batch_size == -(-batch_size // blocks) * blocks
    if method in ("safe", "aggressive"):
        assert solution.status.converged
    w = oracle.w_of_alpha(X, y, solution.alpha, "hinge", LAM)
    if method != "pegasos":
        np.testing.assert_allclose(solution.w, w, atol=1e-12)


@pytest.mark.parametrize("sampling", ["permutation", "subsets"])
def test_aggressive_never_lets_the_dual_fall(loss_name, sampling):
    X, y = toy(loss_name)
    method = Aggressive(sampling=sampling)
    duals = []
    initial = None
    for seed in range(40):  # one iteration a fit, so that every step is looked at
        solution = quietly(
            X, y, loss_name, LAM, method, 20, tol=0, max_epochs=20 / 60, initial=initial,
            random_state=seed,
        )  # fmt: skip
        duals.append(oracle.dual(X, y, solution.alpha, loss_name, LAM))
        initial = solution
    assert np.diff(duals).min() >= -1e-14
    assert duals[-1] > duals[0]


@pytest.mark.parametrize("method", HOST_METHODS)
def test_the_same_seed_gives_the_same_run(method):
    X, y = toy("logistic")
    runs = [
        quietly(X, y, "logistic", LAM, method, 4, tol=0, max_epochs=7, random_state=seed)
        for seed in (5, 5, 6)
    ]
    np.testing.assert_array_equal(runs[0].w, runs[1].w)
    np.testing.assert_array_equal(runs[0].alpha, runs[1].alpha)
    np.testing.assert_array_equal(runs[0].history.gap, runs[1].history.gap)
    assert not np.array_equal(runs[0].w, runs[2].w)


def test_generators_and_random_states_seed_a_run():
    X, y = toy("hinge")
    for make in (np.random.default_rng, np.random.RandomState):
        one, two = (batchsvm.fit(X, y, lam=LAM, random_state=make(3)) for _ in range(2))
        np.testing.assert_array_equal(one.w, two.w)


def test_without_a_seed_runs_differ():
    import importlib.util

    spec = importlib.util.find_spec(checks.__name__)
    fresh = importlib.util.module_from_spec(spec)  # conftest.py seeds the other one
    spec.loader.exec_module(fresh)
    assert fresh.read_seed(None) != fresh.read_seed(None)


@pytest.mark.parametrize("method", ["naive", "safe", "aggressive"])
@pytest.mark.parametrize("averaging", ["tail", "decay"])
def test_averaged_alpha_is_the_mean_of_the_iterates(method, averaging, monkeypatch):
    X, y = toy("hinge")
    n, b, T = 60, 6, 250
    common = {"lam": LAM, "method": method, "batch_size": b, "tol": 0, "max_epochs": T * b / n}
    iterates = certified_alphas(monkeypatch, X, y, checkpoints=range(1, T + 1), **common)
    assert len(iterates) == T + 1
    averaged = certified_alphas(monkeypatch, X, y, averaging=averaging, **common)[-1]
    if averaging == "tail":
        expected = np.mean(iterates[T // 2 : T], axis=0)
    else:
        expected = iterates[0]
        for alpha in iterates[:T]:
            expected = 0.9 * expected + 0.1 * alpha
    np.testing.assert_allclose(averaged, expected, atol=1e-13)


def certified_alphas(monkeypatch, X, y, **kwargs):
    """alpha at every certificate of a run, not only the best one."""
    kept = []
    original = Loop._tell

    def record(self, certificates, W):
        kept.append(self.trainer.state.alpha_of(0, X.shape[0]).copy())
        original(self, certificates, W)
        self.statuses[0] = None  # and go on, whatever it says

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_tell", record)
        quietly(X, y, **kwargs)
    return kept


def pegasos_by_hand(X, y, lam, batches, radius=np.inf):
    """Algorithm 1 as it is printed; returns all iterates w^(1), ..., w^(T+1)."""
    w = [np.zeros(X.shape[1])]
    for t, A in enumerate(batches, start=1):
        eta = 1 / (lam * t)
        plus = [i for i in A if y[i] * (X[i] @ w[-1]) < 1]
        new = (1 - eta * lam) * w[-1] + eta / len(A) * sum(
            (y[i] * X[i] for i in plus), np.zeros(X.shape[1])
        )
        norm = np.linalg.norm(new)
        w.append(new if norm <= radius else new * (radius / norm))
    return w


@pytest.mark.parametrize("averaging", [None, "tail", "decay"])
@pytest.mark.parametrize("radius", [np.inf, 0.8])
def test_pegasos_is_algorithm_1(averaging, radius):
    from batchsvm.engines.sampling import draw_batch, make_sampler

    X, y = toy("hinge")
    n, b, T, seed = 60, 4, 150, 9
    sampler = make_sampler("subsets", n, b, seed)
    batches = []
    for _ in range(T):
        start = draw_batch(sampler)
        batches.append(sampler.order[start : start + b].copy())
    w = pegasos_by_hand(X, y, LAM, batches, radius)
    if averaging is None:
        expected = w[T]
    elif averaging == "tail":
        expected = np.mean(w[T // 2 : T], axis=0)  # w^(T/2 + 1) to w^(T)
    else:
        expected = w[0]
        for iterate in w[:T]:
            expected = 0.9 * expected + 0.1 * iterate
    seen = []
    method = Pegasos(sampling="subsets", radius=radius)
    quietly(
        X, y, lam=LAM, method=method, batch_size=b, tol=0, max_epochs=T * b / n,
        averaging=averaging, random_state=seed, callback=lambda c: seen.append(c.w.copy()),
    )  # fmt: skip
    np.testing.assert_allclose(seen[-1], expected, atol=1e-12)


def test_projected_pegasos_is_certified_on_the_ball():
    X, y = toy("hinge")
    radius = 0.5
    free = batchsvm.fit(X, y, lam=LAM, tol=1e-9, random_state=0)
    assert np.linalg.norm(free.w) > radius
    solution = batchsvm.fit(
        X, y, lam=LAM, method=Pegasos(radius=radius), tol=0.02, max_epochs=5000, random_state=0
    )
    assert np.linalg.norm(solution.w) <= radius * (1 + 1e-12)
    assert solution.certificate.dual >= free.certificate.primal  # the ball costs something
    again = batchsvm.certify(X, y, solution.w, solution.alpha, lam=LAM, radius=radius)
    assert again == solution.certificate


@pytest.mark.parametrize("rule", [Naive, Safe, Aggressive])
def test_the_literal_step_needs_short_rows_and_agrees_on_rows_of_unit_norm(rule):
    X, y = toy("hinge")
    with pytest.raises(ValueError, match="norm at most 1"):
        batchsvm.fit(X, y, method=rule(step="literal"))
    X[3] = 1.0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    runs = [
        quietly(
            X, y, lam=LAM, method=rule(step=step), batch_size=5, tol=0, max_epochs=5, random_state=0
        )
        for step in ("general", "literal")
    ]
    np.testing.assert_allclose(runs[0].w, runs[1].w, atol=1e-12)
    X[::2] *= 0.5  # shorter rows: the literal step is shorter than it need be
    general, literal = (  # in the mean: a short step may be lucky in its order
        np.mean([
            quietly(
                X, y, lam=LAM, method=rule(step=step), batch_size=1, tol=0, max_epochs=1,
                random_state=seed,
            ).certificate.dual
            for seed in range(30)
        ])
        for step in ("general", "literal")
    )  # fmt: skip
    assert general > literal


def test_sampling_with_replacement_is_for_pegasos_or_single_rows():
    X, y = toy("hinge")
    pegasos = Pegasos(sampling="replacement")
    assert quietly(X, y, lam=LAM, method=pegasos, batch_size=7, tol=0.3).status.converged
    assert quietly(
        X, y, lam=LAM, method=Safe(sampling="replacement"), batch_size=1
    ).status.converged
    with pytest.raises(ValueError, match="leave its box"):
        batchsvm.fit(X, y, method=Safe(sampling="replacement"), batch_size=2)
