"""Gram: a batch takes the steps of serial SDCA, and several at once never let D fall."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize, minimize_scalar

import batchsvm
import oracle
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.engines import ENGINES, batch_order, place_on
from batchsvm.losses import LOSSES
from batchsvm.methods import Gram, joint_theta, next_joint_beta
from batchsvm.methods.gram import GAMMA, LARGEST_FIRST_BETA
from gpu.pairs import loss_of
from helpers import LAM, grid, placed, quietly, signs_and_offsets, toy

TINY = 1e-300

# A round of the streamed engine is one within a part.
IN_ONE_PART = [name for name in ENGINES if name != "streamed"]


@pytest.fixture
def one_cut(monkeypatch):
    """Few batches keep their rows too, as many batches do."""
    monkeypatch.setattr(batch_order, "FEW_BATCHES", 0)


def batches_of(n, b, seed, epochs):
    """The batches of some epochs, written down once more."""
    rng = np.random.default_rng(seed)
    rows, count = rng.permutation(n), -(-n // b)
    return [rows[k * b : (k + 1) * b] for _ in range(epochs) for k in rng.permutation(count)]


# One batch at a time.


@pytest.mark.usefixtures("one_cut")
@pytest.mark.parametrize(
    ("engine", "loss_name"),
    [
        *((engine, name) for engine in ("reference", "gpu") for name in LOSSES),
        ("cpu", "hinge"),
        ("cpu", "huber"),
    ],
)
def test_one_batch_at_a_time_is_serial_sdca(engine, loss_name):
    X, y = toy(loss_name)
    n, b, bias, offset, seed = 60, 7, 0.5, 0.2, 3
    loss = loss_of(loss_name) if engine == "gpu" else LOSSES[loss_name]()
    c = np.random.default_rng(1).integers(0, 4, size=n) / 2
    rows = np.column_stack([X, np.full(n, bias)])
    s, o = signs_and_offsets(loss, y)
    w, alpha, N = np.zeros(7), np.zeros(n), c.sum()
    for batch in batches_of(n, b, seed, epochs=2):
        for i in batch:
            a = s[i] * (rows[i] @ w + offset) - o[i]
            q = max(rows[i] @ rows[i] * c[i] / (LAM * N), TINY)
            new = float(loss.dual_step(alpha[i], a, q))
            w += s[i] * c[i] * (new - alpha[i]) / (LAM * N) * rows[i]
            alpha[i] = new
    seen = []
    solution = quietly(
        X, y, loss, LAM, "gram", b, tol=0, max_epochs=18 * b / n, random_state=seed,
        engine=engine, bias=bias, offset=offset, sample_weight=c,
        callback=lambda checkpoint: seen.append(checkpoint.w), precision="float64",
    )  # fmt: skip
    assert solution.history.iteration[-1] == 18
    np.testing.assert_allclose(seen[-1], w, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(solution.alpha, c * alpha, rtol=1e-9, atol=1e-11)
    assert solution.history.beta[-1] == 1
    assert solution.history.refused[-1] == 0


def best_dual(X, y, loss_name, rows):
    """max D over the alphas of these rows, the others being zero, by L-BFGS-B.

    alpha is the difference of two variables, so that |alpha| is smooth in them.
    """
    loss, n = LOSSES[loss_name](), len(y)
    inside = 1e-12 if loss_name == "logistic" else 0.0  # its conjugate is steep at the bounds

    def alpha_of(pair):
        alpha = np.zeros(n)
        alpha[rows] = pair[: len(rows)] - pair[len(rows) :]
        return alpha

    def minus_dual(pair):
        alpha = alpha_of(pair)
        value = oracle.dual(X, y, alpha, loss_name, LAM)
        if loss_name != "epsilon_insensitive":
            return -value
        overlap = np.minimum(pair[: len(rows)], pair[len(rows) :]).sum()
        return -value + 2 * loss.epsilon * overlap / n  # epsilon (p + q) in the place of |p - q|

    top = None if loss.upper == inf else loss.upper - inside
    bounds = [(inside, top)] * len(rows) + [(0.0, max(-loss.lower, 0.0))] * len(rows)
    start = np.concatenate([np.full(len(rows), 0.25), np.zeros(len(rows))])
    for _ in range(4):
        found = minimize(
            minus_dual, start, bounds=bounds, method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 10**7, "ftol": 1e-15, "gtol": 1e-10},
        )  # fmt: skip
        start = found.x
    return -found.fun


@pytest.mark.parametrize("b", [20, 60])
def test_many_sweeps_maximise_the_dual_over_the_batch(loss_name, b):
    X, y = toy(loss_name)
    solution = quietly(
        X, y, loss_name, LAM, Gram(sweeps=1000), b, tol=0, max_epochs=b / 60, random_state=2,
        engine="reference",
    )  # fmt: skip
    assert solution.history.iteration[-1] == 1
    rows = batches_of(60, b, seed=2, epochs=1)[0]
    assert set(np.flatnonzero(solution.alpha)) <= set(rows)
    found = oracle.dual(X, y, solution.alpha, loss_name, LAM)
    # SciPy's optimizer comes less close where the conjugate has a kink and no bound.
    rel = 1e-4 if loss_name == "squared_epsilon_insensitive" else 1e-5
    assert found == pytest.approx(best_dual(X, y, loss_name, rows), rel=rel, abs=1e-9)
    once = quietly(X, y, loss_name, LAM, Gram(), b, tol=0, max_epochs=b / 60, random_state=2)
    assert oracle.dual(X, y, once.alpha, loss_name, LAM) < found


@pytest.mark.parametrize("batches", [1, 4])
def test_it_converges_where_naive_batches_of_the_same_size_fail(batches):
    rng = np.random.default_rng(0)
    X = 1.0 + 0.2 * rng.normal(size=(512, 8))
    y = np.where((X - 1.0) @ rng.normal(size=8) > 0, 1.0, -1.0)
    assert batchsvm.sigma2(X) > 0.9
    common = {"lam": 0.03, "batch_size": 64, "tol": 1e-3, "max_epochs": 300, "random_state": 0}
    naive = quietly(X, y, method="naive", **common)
    gram = quietly(X, y, method=Gram(batches=batches), **common)
    assert not naive.status.converged
    assert gram.status.converged


# Several at once.


def alike(loss_name, n=45):
    """Rows much alike, so that batches repeat each other's steps."""
    rng = np.random.default_rng(4)
    X = 1.0 + 0.3 * rng.normal(size=(n, 3))
    y = 2.0 + X @ [0.5, -1.0, 1.0] + rng.normal(size=n)
    weight = rng.integers(0, 4, size=n) / 2
    if LOSSES[loss_name].task == "classification":
        return X, np.where(rng.random(n) < 0.7, 1.0, -1.0), weight
    return X, y, weight


class Rounds:
    """A trainer that is moved round by round, and what a round should do."""

    LAM, B, S, SEED, SWEEPS = 0.1, 7, 3, 1, 2

    def __init__(self, data, X, y, loss_name, c):
        self.X, self.y, self.c, self.name, self.loss = X, y, c, loss_name, LOSSES[loss_name]()
        self.trainer = data.trainer(make_problem(data.targets(y, c), self.loss, self.LAM))
        self.trainer.start(
            Schedule(
                Gram(sweeps=self.SWEEPS), self.B, workers=data.jobs, seed=self.SEED, batches=self.S,
                precision="float64",
            )
        )  # fmt: skip
        self.count = 0

    def set_beta(self, beta):
        """As the next round will use it."""
        group = getattr(self.trainer, "trainers", None)
        state = group[0].state if group else self.trainer.state
        if hasattr(state.beta, "shape"):  # an array, of NumPy or of a device
            state.beta[:] = beta
        else:
            state.beta = beta

    def point(self):
        self.trainer.keep_dual(np.ones(1, np.bool_))
        return self.trainer.point()[:, 0].copy(), self.trainer.best()[1].fetch()[:, 0].copy()

    def step(self):
        self.count += 1
        return self.trainer.run(self.count, np.array([-inf]), StopFlag())

    def dual(self, alpha):
        return oracle.dual(self.X, self.y, alpha, self.name, self.LAM, self.c)

    def apart(self, w, alpha, beta, batch):
        """What a batch does to alpha and to w, by a w of its own whose part beyond the start counts
        beta times."""
        alpha, far, lam_n = alpha.copy(), w.copy(), self.LAM * self.c.sum()
        s, o = signs_and_offsets(self.loss, self.y)
        for i in [*batch] * self.SWEEPS:
            c, x = self.c[i], self.X[i]
            old = alpha[i] / c if c else 0.0
            q = max(beta * (x @ x) * c / lam_n, TINY)
            new = float(self.loss.dual_step(old, s[i] * (x @ far) - o[i], q))
            far += beta * s[i] * c * (new - old) / lam_n * x
            alpha[i] = c * new
        return alpha, (far - w) / beta


WHERE = [("cpu", 1), ("cpu", 2), ("reference", 1), ("gpu", 1)]


@pytest.mark.usefixtures("one_cut")
@pytest.mark.parametrize(("engine", "jobs"), WHERE)
@pytest.mark.parametrize("loss_name", ["hinge", "smoothed_hinge", "squared_hinge", "huber"])
def test_a_round_goes_as_far_as_the_dual_rises(engine, jobs, loss_name):
    X, y, c = alike(loss_name)
    rounds = [
        batches[k : k + Rounds.S]
        for epoch in range(4)
        for batches in [batches_of(45, Rounds.B, Rounds.SEED, 4)[7 * epoch : 7 * epoch + 7]]
        for k in range(0, 7, Rounds.S)
    ]
    shortened, beta = 0, 1.0
    with place_on(engine, X, jobs) as data:
        run = Rounds(data, X, y, loss_name, c)
        run.set_beta(beta)  # too little at first, so that the first steps overshoot
        for batches in rounds:
            w, alpha = run.point()
            assert run.trainer.beta[0] == pytest.approx(beta, rel=1e-9)
            refused = int(run.trainer.refused[0])
            run.step()
            merged, moves = alpha.copy(), []
            for batch in batches:
                own, move = run.apart(w, alpha, beta, batch)
                merged[batch] = own[batch]
                moves.append(move)
            found = minimize_scalar(
                lambda t, a=alpha, m=merged: -run.dual(a + t * (m - a)), bounds=(0, 1),
                method="bounded", options={"xatol": 1e-12},
            )  # fmt: skip
            theta = 1.0 if run.dual(merged) >= -found.fun else found.x
            after_w, after = run.point()
            scale = np.abs(merged - alpha).max()
            np.testing.assert_allclose(after, alpha + theta * (merged - alpha), atol=1e-6 * scale)
            np.testing.assert_allclose(
                after_w, oracle.w_of_alpha(X, y, after, loss_name, run.LAM, c), atol=1e-11
            )
            assert run.dual(after) >= run.dual(alpha) - 1e-14
            assert run.trainer.refused[0] == refused + (theta < 1)
            shortened += theta < 1
            total, apart = np.sum(moves, axis=0), sum(m @ m for m in moves)
            if apart > 0:  # a round may move nothing
                beta = beta**0.9 * np.clip(total @ total / apart, 1, Rounds.S) ** 0.1
    assert 0 < shortened < len(rounds)


@pytest.mark.parametrize("engine", IN_ONE_PART)
def test_the_dual_never_falls(engine, loss_name):
    X, y, c = alike(loss_name)
    with place_on(engine, X, 1) as data:
        run = Rounds(data, X, y, loss_name, c)
        run.set_beta(1.0)
        duals = [run.dual(run.point()[1])]
        for _ in range(40):
            run.step()
            duals.append(run.dual(run.point()[1]))
    assert np.diff(duals).min() >= -1e-14
    assert duals[-1] > duals[0]


def test_beta_follows_rho_and_stays_between_1_and_the_batches():
    assert GAMMA == 0.9
    assert next_joint_beta(2.0, 3.0, 2.0, 4) == pytest.approx(2.0**0.9 * 1.5**0.1)
    assert next_joint_beta(2.0, 1.0, 2.0, 4) == pytest.approx(2.0**0.9)
    assert next_joint_beta(2.0, 50.0, 2.0, 4) == pytest.approx(2.0**0.9 * 4**0.1)
    assert next_joint_beta(2.0, 0.0, 0.0, 4) == 2.0
    assert LARGEST_FIRST_BETA == 4.0
    assert [Gram().first_beta(9.0, batches) for batches in (1, 3, 16)] == [1.0, 3.0, 4.0]


def test_theta_is_that_of_the_parabola():
    assert joint_theta(1.0, 4.0, 0.0, 4) == 0.25
    assert joint_theta(1.0, 4.0, 2.0, 4) == pytest.approx(2.0 / 6.0)
    assert joint_theta(3.0, 2.0, 1.0, 4) == 1.0
    assert joint_theta(0.0, 0.0, 0.0, 4) == 1.0
    assert joint_theta(0.0, 1.0, 0.0, 4) == 0.125  # no less, whatever rounding says


# The engines agree.


@pytest.mark.parametrize(
    ("loss_name", "stored", "batches", "sweeps"),
    grid(LOSSES, ["dense", "csr"], [1, 3], [1, 2]),
)
def test_engines_do_the_same(loss_name, stored, batches, sweeps):
    """Batches and their order are those of NumPy's generator, on every engine."""
    X, y = toy(loss_name)
    weights = np.random.default_rng(0).integers(0, 3, size=60).astype(float)
    theirs, *others = (
        quietly(
            sp.csr_array(X) if stored == "csr" else X, y, loss_name, LAM,
            Gram(batches=batches, sweeps=sweeps), 7, tol=0, max_epochs=3, engine=engine,
            random_state=5, sample_weight=weights, precision="float64",
        )
        for engine in ("reference", "cpu", *(["gpu"] if stored == "dense" else []))
    )  # fmt: skip
    for ours in others:
        np.testing.assert_allclose(ours.w, theirs.w, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(ours.alpha, theirs.alpha, rtol=1e-9, atol=1e-11)
        for column in ("iteration", "epoch", "beta", "refused", "primal", "dual"):
            np.testing.assert_allclose(
                getattr(ours.history, column), getattr(theirs.history, column),
                rtol=1e-9, atol=1e-11,
            )  # fmt: skip


@pytest.mark.parametrize("bias", [None, 0.7])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_threads_and_matrices_that_are_not_kept_change_no_bit(form, bias):
    X, y = toy("hinge")
    runs = []
    for jobs, kept in ((1, 2**20), (2, 2**20), (3, 2**20), (2, 0)):
        with placed(form(X), jobs, max_gram_bytes=kept) as data:
            runs.append(
                quietly(
                    data, y, lam=0.01, method=Gram(batches=3), batch_size=7, tol=1e-6, bias=bias,
                    max_epochs=20, random_state=4,
                )
            )  # fmt: skip
    assert [run.plan.workers for run in runs] == [1, 2, 3, 2]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.w, runs[0].w)
        np.testing.assert_array_equal(run.alpha, runs[0].alpha)
        np.testing.assert_array_equal(run.history.gap, runs[0].history.gap)
        np.testing.assert_array_equal(run.history.beta, runs[0].history.beta)


@pytest.mark.usefixtures("one_cut")
@pytest.mark.parametrize("engine", IN_ONE_PART)
def test_the_estimate_is_of_the_rows_as_each_round_found_them(engine):
    X, y, c = alike("hinge")
    with place_on(engine, X, 1) as data:
        problem = make_problem(data.targets(y, c), LOSSES["hinge"](), LAM)
        trainer = data.trainer(problem)
        trainer.start(Schedule(Gram(), 9, batches=5, precision="float64"))  # a round is an epoch
        before = inf
        for epoch in range(1, 4):
            w, dual = trainer.point()[:, 0].copy(), trainer.best()[1]
            alpha = dual.fetch()[:, 0].copy()
            found = trainer.run(epoch, np.array([inf]), StopFlag())
            gap = oracle.primal(X, y, w, "hinge", LAM, c) - oracle.dual(
                X, y, alpha, "hinge", LAM, c
            )
            expected = gap
            if engine != "gpu" and gap < before < inf:  # host engines put it forward by an epoch
                part = gap / before
                expected *= part * np.log(1 / part) / (1 - part)
            assert found.estimates[0] == pytest.approx(expected, rel=1e-9)
            before = gap
            trainer.keep_dual(np.ones(1, np.bool_))
