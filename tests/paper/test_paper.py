"""The paper's own statements, each as a test; docs/maths.md maps them to the code."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from test_methods import quietly

import batchsvm
import oracle
from batchsvm.core.theory import Constants, pegasos_iterations, sdca_iterations
from batchsvm.losses import LOSSES, Hinge
from batchsvm.methods import METHODS, Aggressive, Naive, Pegasos, Safe


def unit_rows(n, d, seed, shared=0.0):
    """Rows of unit norm; `shared` adds a common direction, which makes them correlated."""
    X = np.random.default_rng(seed).normal(size=(n, d)) + shared
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def signs(n, seed):
    return np.where(np.random.default_rng(seed).random(n) < 0.5, 1.0, -1.0)


def subsets(n, b):
    return [np.array(A) for A in combinations(range(n), b)]


class TestTwoIdenticalExamples:
    """Section 4.1: Q = [[1, 1], [1, 1]], lambda = 1/n = 1/2, b = 2."""

    X, y, lam = np.array([[1.0], [1.0]]), np.array([1.0, 1.0]), 0.5

    def run(self, method, iterations, **kwargs):
        return quietly(
            self.X, self.y, lam=self.lam, method=method, batch_size=2, tol=0,
            max_epochs=iterations, **kwargs,
        )  # fmt: skip

    @pytest.mark.parametrize("engine", ["cpu", "reference"])
    def test_naive_alternates_between_two_points_of_dual_zero(self, engine):
        alpha = np.zeros(2)
        seen = []
        for _ in range(6):
            kept = []
            self.run(
                "naive", 1, initial=(np.zeros(1), alpha), engine=engine,
                callback=lambda c, kept=kept: kept.append((c.w.copy(), c.certificate.dual)),
            )  # fmt: skip
            w, dual = kept[-1]
            seen.append((float(w[0]), dual))
            alpha = np.full(2, float(w[0]) * self.lam)  # w = 1/(lam n) (a + a) = 2 a
        assert [w for w, _ in seen] == [2.0, 0.0, 2.0, 0.0, 2.0, 0.0]
        assert [dual for _, dual in seen] == [0.0] * 6

    @pytest.mark.parametrize("method", ["safe", "aggressive"])
    @pytest.mark.parametrize("engine", ["cpu", "reference"])
    def test_safe_and_aggressive_reach_the_optimum(self, method, engine):
        solution = self.run(method, 50, engine=engine)
        np.testing.assert_allclose(solution.alpha, [0.5, 0.5], atol=1e-12)
        assert solution.certificate.dual == pytest.approx(0.25, abs=1e-12)
        assert solution.certificate.primal == pytest.approx(0.25, abs=1e-12)

    def test_sigma2_is_one_and_beta_is_b(self):
        assert batchsvm.sigma2(self.X) == pytest.approx(1.0)
        assert batchsvm.beta_b(2, 2, 1.0) == pytest.approx(2.0)


class TestBeta:
    """Eq. (betab) and the remarks after Theorem 1."""

    @pytest.mark.parametrize("sigma2", [0.01, 0.3, 1.0])
    def test_beta_of_one_is_one(self, sigma2):
        assert batchsvm.beta_b(1, 100, sigma2) == 1.0

    def test_beta_lies_between_one_and_b(self):
        for sigma2 in np.linspace(0.01, 1, 23):
            for b in range(1, 101):
                assert 1.0 <= batchsvm.beta_b(b, 100, sigma2) <= b + 1e-9

    def test_orthogonal_rows_never_interact(self):
        X = np.diag([0.5, 1.0, 2.0, 3.0])
        assert batchsvm.sigma2(X) == pytest.approx(1 / 4)
        for b in range(1, 5):
            assert batchsvm.beta_b(b, 4, batchsvm.sigma2(X)) == pytest.approx(1.0)

    def test_collinear_rows_give_beta_b(self):
        X = np.outer(np.arange(1.0, 11.0), [3.0, -4.0])
        for b in range(1, 11):
            assert batchsvm.beta_b(b, 10, batchsvm.sigma2(X)) == pytest.approx(b)

    def test_batches_up_to_one_over_sigma2_have_beta_at_most_two(self):
        for n, sigma2 in [(1000, 0.05), (20242, 1 / 38.6), (50, 0.5)]:
            assert batchsvm.beta_b(int(1 / sigma2), n, sigma2) <= 2.0

    def test_population_beta_is_the_limit(self):
        assert batchsvm.beta_b(8, np.inf, 0.1) == pytest.approx(1.7)
        assert batchsvm.beta_b(8, 10**9, 0.1) == pytest.approx(1.7, rel=1e-6)


class TestLemmas:
    """By enumeration of all subsets A of size b."""

    n, d = 6, 4

    @pytest.mark.parametrize("b", range(1, 7))
    @pytest.mark.parametrize("seed", range(3))
    def test_lemma_1(self, b, seed):
        rng = np.random.default_rng(seed)
        X = unit_rows(self.n, self.d, seed, shared=0.5)
        Q, v = X @ X.T, rng.normal(size=self.n)
        mean = np.mean([v[A] @ Q[np.ix_(A, A)] @ v[A] for A in subsets(self.n, b)])
        share = (b - 1) / (self.n - 1)
        equal = b / self.n * ((1 - share) * (np.diag(Q) @ v**2) + share * (v @ Q @ v))
        assert mean == pytest.approx(equal)
        beta = batchsvm.beta_b(b, self.n, batchsvm.sigma2(X))
        assert mean <= b / self.n * beta * (v @ v) + 1e-12
        # The leading eigenvector reaches the bound, since all Q_ii are 1.
        v = np.linalg.eigh(Q)[1][:, -1]
        mean = np.mean([v[A] @ Q[np.ix_(A, A)] @ v[A] for A in subsets(self.n, b)])
        assert mean == pytest.approx(b / self.n * beta)

    @pytest.mark.parametrize("b", range(1, 7))
    @pytest.mark.parametrize("loss_name", ["hinge", "logistic", "absolute", "quantile", "huber"])
    def test_lemma_2(self, b, loss_name):
        # For an L-Lipschitz loss the bound is L^2 beta_b / b.
        loss = LOSSES[loss_name]()
        X = unit_rows(self.n, self.d, 1, shared=0.5)
        beta = batchsvm.beta_b(b, self.n, batchsvm.sigma2(X))
        for seed in range(5):
            rng = np.random.default_rng(seed)
            w, y = rng.normal(size=self.d), signs(self.n, seed)
            a = y * (X @ w) if loss.task == "classification" else X @ w - y
            sign = y if loss.task == "classification" else 1.0
            chi = -loss.subgradient(a) * sign
            norms = [np.sum((X[A].T @ chi[A] / b) ** 2) for A in subsets(self.n, b)]
            assert np.mean(norms) <= loss.lipschitz**2 * beta / b + 1e-12

    @pytest.mark.parametrize("b", range(1, 7))
    def test_lemma_3(self, b, loss_name):
        # In the general form of the appendix: rows of any norm, any loss.
        lam, n = 0.2, self.n
        rng = np.random.default_rng(4)
        X = unit_rows(n, self.d, 2, shared=0.5) * rng.uniform(0.5, 3, size=(n, 1))
        y = signs(n, 3)
        loss = LOSSES[loss_name]()
        bottom, top = max(loss.lower, -3.0), min(loss.upper, 3.0)
        alpha, other = (rng.uniform(bottom, top, size=n) for _ in range(2))
        delta = other - alpha

        def D(alpha):
            return oracle.dual(X, y, alpha, loss_name, lam)

        # H: as D(alpha + delta), with beta_b sum ||x_i||^2 delta_i^2 for delta' Q delta.
        sign = y if loss.task == "classification" else np.ones(n)
        quadratic = np.sum((X.T @ (sign * delta)) ** 2)
        beta = batchsvm.beta_b(b, n, batchsvm.sigma2(X))
        separable = beta * np.sum(np.sum(X**2, axis=1) * delta**2)
        H = D(alpha + delta) + (quadratic - separable) / (2 * lam * n**2)

        def censored(A):
            inside = np.zeros(n)
            inside[A] = delta[A]
            return inside

        mean = np.mean([D(alpha + censored(A)) for A in subsets(n, b)])
        assert mean >= (1 - b / n) * D(alpha) + b / n * H - 1e-12

    def test_lemma_4_expected_rise_of_the_dual(self):
        # The appendix' lemma on one safe step, in expectation over all batches, s in [0, 1].
        n, lam, b = self.n, 0.2, 3
        X, y = unit_rows(n, self.d, 5, shared=0.5), signs(n, 5)
        beta = batchsvm.beta_b(b, n, batchsvm.sigma2(X))
        alpha = np.random.default_rng(0).random(n)
        w = oracle.w_of_alpha(X, y, alpha, "hinge", lam)
        a = y * (X @ w)
        new = np.array([Hinge().dual_step(alpha[i], a[i], beta / (lam * n)) for i in range(n)])

        def D(alpha):
            return oracle.dual(X, y, alpha, "hinge", lam)

        rises = []
        for A in subsets(n, b):
            moved = alpha.copy()
            moved[A] = new[A]
            rises.append(D(moved) - D(alpha))
        gap = oracle.primal(X, y, w, "hinge", lam) - D(alpha)
        chi = (a < 1).astype(float)
        G = np.mean((chi - alpha) ** 2)
        for s in np.linspace(0, 1, 11):
            bound = b * (s / n * gap - (s / n) ** 2 * beta / (2 * lam) * G)
            assert np.mean(rises) >= bound - 1e-12


class TestTheorems:
    """The bounds hold in the mean over seeds, with the paper's sampling and averages."""

    n, d, lam = 80, 10, 0.05

    def data(self):
        X = unit_rows(self.n, self.d, 0, shared=0.3)
        y = np.where(X @ np.random.default_rng(1).normal(size=self.d) > 0, 1.0, -1.0)
        y[::7] *= -1
        return X, y

    def run(self, method, b, iterations, seed):
        X, y = self.data()
        seen = []
        quietly(
            X, y, lam=self.lam, method=method, batch_size=b, tol=0, averaging="tail",
            max_epochs=iterations * b / self.n, random_state=seed,
            callback=lambda c: seen.append(c.certificate),
        )  # fmt: skip
        return seen[-1]

    @pytest.mark.parametrize("b", [1, 8, 40])
    def test_theorem_1(self, b):
        X, y = self.data()
        optimum = batchsvm.fit(X, y, lam=self.lam, tol=1e-9).certificate.primal
        beta = batchsvm.beta_b(b, self.n, batchsvm.sigma2(X))
        T = 16_000  # enough for the bound to say something: w = 0 is further off
        runs = [self.run(Pegasos(sampling="subsets"), b, T, seed).primal for seed in range(20)]
        bound = beta / b * 30 / (self.lam * T)
        assert bound < 0.2 * (1 - optimum)
        assert np.mean(runs) - optimum <= bound
        assert np.mean(runs) >= optimum - 1e-9

    @pytest.mark.parametrize("b", [1, 8, 40])
    def test_theorem_2(self, b):
        X, _ = self.data()
        beta = batchsvm.beta_b(b, self.n, batchsvm.sigma2(X))
        eps = 0.05
        counts = sdca_iterations(beta, b, self.n, eps, Constants(self.lam, Hinge()))
        # Averaging over the second half: T/2 >= T0 leaves a tail that is long enough too.
        T = 2 * max(counts.T0, counts.T - counts.T0)
        gaps = [self.run(Safe(sampling="subsets"), b, T, seed).gap for seed in range(20)]
        assert np.mean(gaps) <= eps

    def test_counts_are_the_formulas(self):
        beta, b, n, lam, eps = 3.0, 16, 1000, 0.02, 0.01
        counts = sdca_iterations(beta, b, n, eps, Constants(lam, Hinge()))
        t0 = np.ceil(n / b * np.log(2 * lam * n / beta))
        T0 = t0 + np.ceil(beta / b * (4 / (lam * eps) - 2 * n / beta))
        T = T0 + np.ceil(max(np.ceil(n / b), beta / b / (lam * eps)))
        assert counts == (t0, T0, T)
        assert pegasos_iterations(beta, b, eps, Constants(lam, Hinge())) == np.ceil(
            beta / b * 30 / (lam * eps)
        )

    def test_losses_that_are_not_lipschitz_have_no_counts(self):
        loss = batchsvm.losses.SquaredHinge()
        assert pegasos_iterations(1.0, 1, 0.1, Constants(0.1, loss)) == np.inf
        assert sdca_iterations(1.0, 1, 10, 0.1, Constants(0.1, loss)).T == np.inf


class TestCorrelatedData:
    """Sections 4.1 and 5: with a large b, naive fails where aggressive converges."""

    n, b, lam = 400, 200, 1e-2

    def data(self):
        X = unit_rows(self.n, 20, 0, shared=1.0)
        y = np.where(X @ np.random.default_rng(1).normal(size=20) > 0.5, 1.0, -1.0)
        assert 1 / batchsvm.sigma2(X) < 3
        return X, y

    def test_naive_fails_and_aggressive_and_safe_converge(self):
        X, y = self.data()
        run = {
            name: quietly(
                X, y, lam=self.lam, method=METHODS[name](sampling="subsets"), batch_size=self.b,
                tol=1e-3, max_epochs=2000, random_state=0,
            )
            for name in ("naive", "safe", "aggressive")
        }  # fmt: skip
        assert not run["naive"].status.converged
        assert run["naive"].history.gap[-1] > 0.1
        assert run["safe"].status.converged
        assert run["aggressive"].status.converged
        assert run["aggressive"].history.iteration[-1] < run["safe"].history.iteration[-1]

    def test_a_crude_sigma2_is_enough_for_aggressive(self):
        # Section 4.3: beta_b only bounds the adaptive beta.
        X, y = self.data()
        for sigma2 in (batchsvm.sigma2(X), 1.0):
            method = Aggressive(sigma2=sigma2)
            solution = quietly(
                X, y, lam=self.lam, method=method, batch_size=self.b, tol=1e-3, random_state=0
            )
            assert solution.status.converged

    def test_aggressive_beta_stays_between_1_and_beta_b(self):
        X, y = self.data()
        solution = quietly(X, y, lam=self.lam, method="aggressive", batch_size=self.b, tol=1e-4)
        beta = batchsvm.beta_b(self.b, self.n, solution.plan.sigma2)
        assert solution.history.beta[0] == pytest.approx(beta)
        assert solution.history.beta.min() >= 1.0
        assert solution.history.beta.max() <= beta * (1 + 1e-12)
        assert solution.history.beta[-1] < beta

    def test_with_batches_of_one_the_rules_are_one_method(self):
        X, y = self.data()
        runs = [
            quietly(X, y, lam=self.lam, method=rule(), batch_size=1, tol=1e-4, random_state=0)
            for rule in (Naive, Safe, Aggressive)
        ]
        for other in runs[1:]:
            np.testing.assert_array_equal(runs[0].w, other.w)
        assert runs[2].history.refused[-1] == 0
