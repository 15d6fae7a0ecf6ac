"""What every engine has to pass, by being listed in `batchsvm.engines.ENGINES`.

The first half is about a `Dataset`: sums over rows against plain NumPy, against the textbook
formulas of `oracle.py`, and against the reference engine.  The second half trains.  Each loss
comes with one storage, and with some of weights, bias, offset and radius, so that all of them
occur and few kernels are compiled; `K` is 1 and 3.

pytest collects this file by its name (`python_files` in pyproject.toml).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from threading import Timer

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

import batchsvm
import oracle
from batchsvm.core.certificate import SUPPORT_VECTORS, certify_point
from batchsvm.core.layout import Schedule
from batchsvm.core.loop import Loop
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem, make_problem
from batchsvm.core.solution import Status
from batchsvm.core.training import Start, train
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines import ENGINES, place_on
from batchsvm.engines.protocol import Dataset
from batchsvm.losses import LOSSES, TINY
from batchsvm.methods import Aggressive, Blocks, Gram, Guarded, Naive, Pegasos, Safe
from helpers import FORMATS, HOST_ENGINES, LAM, quietly, toy

CLOSED = "^this data set is closed: place X again to use it$"
# Threads, many small blocks of rows, and more columns than workers exchange.
CUT_SMALL = Tuning(min_parallel_nonzeros=0, max_block_rows=16, max_exchanged_columns=4)
LAMS = np.array([LAM, 0.02, 0.3])
CONSTANTS = np.array([-0.37, 0.21, 1.13])  # away from all kinks
HARD = 1e-5  # a lam with which no run comes to its end while a test lasts
ENDLESS = {"tol": 0.0, "max_epochs": 1e6}


@dataclass(frozen=True)
class Case:
    """How the problems of one loss are stated."""

    form: str
    bias: float | None = None
    weighted: bool = False
    offset: bool = False
    radius: float = inf
    jobs: int = 1


CASES = {
    "hinge": Case("dense-float64", jobs=2),
    "smoothed_hinge": Case("csr-float32-int32", bias=0.5, weighted=True),
    "squared_hinge": Case("csr-float64-int32", weighted=True, offset=True),
    "logistic": Case("dense-float32", bias=2.0, radius=0.8),
    "absolute": Case("csr-float64-int32", radius=1.0, jobs=2),
    "epsilon_insensitive": Case("dense-float64", bias=1.5, weighted=True),
    "quantile": Case("csr-float32-int32", weighted=True, offset=True, radius=2.0),
    "huber": Case("dense-float32", bias=0.25, offset=True),
}


class Setting:
    """K problems of a case on an engine, and the same in plain arrays."""

    def __init__(self, engine: str, loss_name: str, k: int, rows=None) -> None:
        self.engine, self.loss_name, self.k, self.case = engine, loss_name, k, CASES[loss_name]
        self.loss = LOSSES[loss_name]()
        X, y = toy(loss_name)
        rng = np.random.default_rng(5)
        n = len(y)
        self.columns = self._targets(X, y, rng)
        self.weight = rng.integers(0, 4, size=(n, k)) / 2 if self.case.weighted else None
        self.offset = rng.normal(size=(n, k)) if self.case.offset else None
        rows = np.arange(n) if rows is None else rows
        self._take(rows)
        self.stored, self.X = FORMATS[self.case.form](X[rows]), X[rows]
        self.n, self.d = self.X.shape
        self.lam = LAMS[:k]
        spread = np.arange(k) / 4  # every problem has its own bias and its own constant
        self.bias = None if self.case.bias is None else self.case.bias + spread
        self.constant = 0.2 - spread if self.case.offset else np.zeros(k)

    def _targets(self, X, y, rng):
        noise = rng.normal(size=(len(y), 2))
        columns = np.column_stack([y, X @ rng.normal(size=(X.shape[1], 2)) + noise])
        if self.loss.task == "classification":
            columns = np.where(columns >= 0, 1.0, -1.0)
        return columns[:, : self.k]

    def _take(self, rows):
        self.columns = self.columns[rows]
        self.weight = None if self.weight is None else self.weight[rows]
        self.offset = None if self.offset is None else self.offset[rows]

    def place(self) -> Setting:
        jobs = self.case.jobs
        self.data = place_on(
            self.engine, self.stored, jobs, CUT_SMALL if jobs > 1 else DEFAULT_TUNING
        )
        self.problem = self.problem_over(self.data)
        return self

    def problem_over(self, data, rows=None) -> Problem:
        """These problems over all or some of the rows."""
        columns = (self.columns, self.weight, self.offset)
        kept = (None if column is None else column[slice(None) if rows is None else rows]
                for column in columns)  # fmt: skip
        targets = data.targets(*(None if column is None else self._thin(column) for column in kept))
        return make_problem(
            targets, self.loss, self.lam, self.bias, self.constant, self.case.radius
        )

    def _thin(self, column):
        return np.asfortranarray(column) if self.k > 1 else np.ascontiguousarray(column[:, 0])

    # The same in plain arrays.

    @property
    def p(self) -> int:
        return self.d + (self.bias is not None)

    def rows(self, k: int) -> np.ndarray:
        """X of problem k, with its constant column."""
        if self.bias is None:
            return self.X
        return np.column_stack([self.X, np.full(self.n, self.bias[k])])

    def signs(self, k: int) -> np.ndarray:
        return np.ones(self.n) if self.loss.task == "regression" else self.columns[:, k]

    def fixed(self, k: int) -> np.ndarray:
        """o_i of problem k."""
        given = np.zeros(self.n) if self.offset is None else self.offset[:, k]
        y = self.columns[:, k] if self.loss.task == "regression" else 0.0
        return y - self.signs(k) * (given + self.constant[k])

    def weights(self, k: int) -> np.ndarray:
        return np.ones(self.n) if self.weight is None else self.weight[:, k]

    def responses(self, k: int, w) -> np.ndarray:
        return self.signs(k) * (self.rows(k) @ w) - self.fixed(k)

    def values(self, k: int, a) -> np.ndarray:
        return oracle.VALUES[self.loss_name](a, *oracle.DEFAULTS.get(self.loss_name, ()))

    def primal(self, k: int, w) -> float:
        c = self.weights(k)
        return c @ self.values(k, self.responses(k, w)) / c.sum() + self.lam[k] / 2 * w @ w

    def dual(self, k: int, alpha) -> float:
        c, lam = self.weights(k), self.lam[k]
        relative = np.divide(alpha, c, out=np.zeros(self.n), where=c > 0)
        arguments = oracle.DEFAULTS.get(self.loss_name, ())
        conjugates = c * oracle.CONJUGATES[self.loss_name](relative, *arguments)
        u = np.linalg.norm(self.rows(k).T @ (alpha * self.signs(k))) / c.sum()
        r = min(u / lam, self.case.radius)  # the norm of the w that is best for this alpha
        return (alpha @ self.fixed(k) - conjugates.sum()) / c.sum() - (r * u - lam / 2 * r * r)

    def random_points(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(W, alpha): W in the ball, alpha in the box and partly at its corners."""
        rng = np.random.default_rng(seed)
        W = rng.normal(size=(self.p, self.k))
        W *= 0.9 * min(self.case.radius, 1.5) / np.linalg.norm(W, axis=0)
        lower, upper = self.loss.lower, min(self.loss.upper, 3.0)
        relative = lower + (upper - lower) * rng.random((self.n, self.k))
        relative[rng.random((self.n, self.k)) < 0.3] = 0.0
        at_bound = rng.random((self.n, self.k)) < 0.2
        relative[at_bound] = self.loss.upper if self.loss.upper < inf else 0.0
        alpha = np.column_stack([relative[:, k] * self.weights(k) for k in range(self.k)])
        return W, np.asfortranarray(alpha)


@pytest.fixture(params=list(ENGINES))
def engine(request):
    return request.param


@pytest.fixture(params=[name for name in ENGINES if name != "reference"])
def tested_engine(request):
    """An engine to be compared with the reference."""
    return request.param


@pytest.fixture(params=list(CASES))
def loss_name(request):
    return request.param


@pytest.fixture(params=[1, 3])
def k(request):
    return request.param


@pytest.fixture
def setting(engine, loss_name, k):
    found = Setting(engine, loss_name, k).place()
    with found.data:
        yield found


@pytest.fixture(params=["dense-float64", "dense-float32", "csr-float64-int32", "csr-float32-int32"])
def stored(request):
    """X in one storage, and in plain float64."""
    X, _ = toy("hinge")
    return FORMATS[request.param](X), X


def close_to(found, expected, scale=1.0):
    """Equal but for the rounding of sums in float64."""
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * scale)


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


# A data set: what is additive over rows.


def splits(setting):
    """Ways to cut the rows: one row alone and the rest, and three parts in no order."""
    order = np.random.default_rng(1).permutation(setting.n)
    heavy = np.all([setting.weights(k) > 0 for k in range(setting.k)], axis=0)
    alone = np.flatnonzero(heavy)[:1]
    rest = np.setdiff1d(order, alone)
    return [[alone, rest], [np.sort(order[:20]), order[20:33], order[33:]]]


@pytest.mark.parametrize("split", [0, 1])
def test_sums_facts_and_combinations_add_up_over_rows(setting, split):
    data, problem = setting.data, setting.problem
    W, alpha = setting.random_points()
    b = CONSTANTS[: setting.k]
    dual = data.dual(problem, alpha)
    whole = data.sums(problem, W, dual), data.facts(problem), data.combination(problem, dual)
    constants = data.constant_sums(problem, b)
    parts = []
    for rows in splits(setting)[split]:
        with data.subset(rows) as part:
            own = setting.problem_over(part, rows)
            point = part.dual(own, np.asfortranarray(alpha[rows]))
            parts.append(
                (
                    part.sums(own, W, point),
                    part.facts(own),
                    part.combination(own, point),
                    part.constant_sums(own, b),
                )
            )
    sums, facts, combination, constant = parts[0]
    for others in parts[1:]:
        deepest = max(facts.depth, others[1].depth)
        sums, facts = sums.plus(others[0]), facts.plus(others[1])
        assert facts.depth == sums.facts.depth == deepest + 1
        combination = combination + others[2]
        constant = [mine + theirs for mine, theirs in zip(constant, others[3], strict=True)]
    close_to(sums.values, whole[0].values)
    close_to(sums.norms, whole[0].norms)
    for found in (facts, sums.facts):
        for ours, expected in zip(found._replace(depth=0), whole[1]._replace(depth=0), strict=True):
            close_to(ours, expected)
        assert found.rows == setting.n
        assert found.longest_row == whole[1].longest_row
    close_to(combination, whole[2])
    for ours, expected in zip(constant, constants, strict=True):
        close_to(ours, expected)


def test_a_part_that_weighs_nothing_adds_nothing(engine):
    X, y = toy("hinge")
    weight = np.ones((len(y), 2), order="F")
    weight[:10, 1] = 0.0  # of the second problem
    W = np.random.default_rng(0).normal(size=(X.shape[1], 2))
    first, rest = np.arange(10), np.arange(10, len(y))
    found = []
    with place_on(engine, X, 1) as data:
        for rows in (first, rest, np.arange(len(y))):
            with data.subset(rows) as part:
                targets = part.targets(y[rows], np.asfortranarray(weight[rows]))
                problem = make_problem(targets, LOSSES["hinge"](), LAM)
                dual = part.dual_at(problem, W)
                found.append((part.sums(problem, W, dual), part.combination(problem, dual)))
    (light, nothing), (heavy, most), (whole, everything) = found
    assert not light.values[:, 1].any()
    assert not nothing[:, 1].any()
    close_to(light.plus(heavy).values, whole.values)
    close_to(nothing + most, everything)


def test_facts_are_those_of_the_rows(setting):
    facts = setting.data.facts(setting.problem)
    assert facts.rows == setting.n
    filled = (setting.X != 0).sum(axis=1).max() + (setting.bias is not None)
    assert filled <= facts.longest_row <= setting.p
    for k in range(setting.k):
        c, X = setting.weights(k), setting.rows(k)
        norms2 = (X**2).sum(axis=1)
        assert facts.total_weight[k] == pytest.approx(c.sum(), rel=1e-14)
        assert facts.largest_weight[k] == c.max()
        assert facts.largest_norm2[k] == pytest.approx(norms2.max(), rel=1e-14)
        at_zero = setting.primal(k, np.zeros(setting.p))
        assert facts.primal_at_zero[k] == pytest.approx(at_zero, rel=1e-13)
        longest = norms2.max() * (c.max() / c.mean()) ** 2
        assert facts.radius2[k] == pytest.approx(longest, rel=1e-13)


def test_constants_are_those_of_a_constant_prediction(setting):
    b = CONSTANTS[: setting.k]
    found = setting.data.constant_sums(setting.problem, b)
    low, high = setting.data.offset_range(setting.problem)
    for k in range(setting.k):
        c, s = setting.weights(k), setting.signs(k)
        fixed = setting.fixed(k) + s * setting.constant[k]  # `problem.offset` is not in it
        step = 1e-6
        values = [c @ setting.values(k, s * b_ - fixed) for b_ in b[k] + step * np.arange(-1, 2)]
        assert found.losses[k] == pytest.approx(values[1], rel=1e-13)
        assert found.slopes[k] == pytest.approx((values[2] - values[0]) / (2 * step), abs=1e-4)
        assert found.weights[k] == pytest.approx(c.sum())
        fixed = fixed[c > 0]
        assert (low[k], high[k]) == pytest.approx((fixed.min(), fixed.max()), abs=1e-14)


# A data set: certificates.


def test_primal_and_dual_are_those_of_the_textbook(setting):
    W, alpha = setting.random_points()
    dual = setting.data.dual(setting.problem, alpha)
    found = certify_point(setting.data, setting.problem, W, dual)
    assert len(found) == setting.k
    plain = not (setting.case.offset or setting.case.radius < inf)
    for k, certificate in enumerate(found):
        w, c = W[:, k], setting.weights(k)
        assert certificate.primal == pytest.approx(setting.primal(k, w), rel=1e-13)
        assert certificate.dual == pytest.approx(setting.dual(k, alpha[:, k]), rel=1e-12, abs=1e-13)
        assert certificate.gap == certificate.primal - certificate.dual
        assert certificate.support_vectors == np.count_nonzero(alpha[:, k])
        assert 0 < certificate.rounding < 1e-10
        if plain:
            arguments = setting.rows(k), setting.columns[:, k]
            name, lam = setting.loss_name, setting.lam[k]
            assert certificate.primal == pytest.approx(oracle.primal(*arguments, w, name, lam, c))
            expected = oracle.dual(*arguments, alpha[:, k], name, lam, c)
            assert certificate.dual == pytest.approx(expected)


def test_sums_tell_the_gap_of_a_point_that_belongs_together(setting):
    """Where w is w(alpha), and no radius confines it, they say what the certificate will."""
    data, problem = setting.data, replace(setting.problem, radius=inf)
    _, alpha = setting.random_points()
    dual = data.dual(problem, alpha)
    weight = data.facts(problem).total_weight
    W = data.combination(problem, dual) / (problem.lam * weight)
    sums = data.sums(problem, W, dual)
    found = certify_point(data, problem, W, dual)
    close_to(sums.primals(problem.lam), [certificate.primal for certificate in found])
    close_to(sums.gaps(problem.lam), [certificate.gap for certificate in found])
    close_to(sums.norms, np.linalg.norm(W, axis=0))


def test_sums_and_certificates_are_those_of_the_reference(tested_engine, loss_name, k):
    found = []
    for name in (tested_engine, "reference"):
        setting = Setting(name, loss_name, k).place()
        W, alpha = setting.random_points()
        with setting.data as data:
            dual = data.dual(setting.problem, alpha)
            sums = data.sums(setting.problem, W, dual)
            combination = data.combination(setting.problem, dual)
            found.append((sums, combination, certify_point(data, setting.problem, W, dual)))
    (ours, our_combination, our_certificates), (theirs, combination, certificates) = found
    close_to(ours.values, theirs.values)
    np.testing.assert_array_equal(ours.values[SUPPORT_VECTORS], theirs.values[SUPPORT_VECTORS])
    close_to(ours.norms, theirs.norms)
    close_to(our_combination, combination)
    close_to(ours.primals(LAMS), theirs.primals(LAMS))
    close_to(ours.gaps(LAMS), theirs.gaps(LAMS))
    for mine, other in zip(our_certificates, certificates, strict=True):
        allowed = mine.rounding + other.rounding
        assert abs(mine.primal - other.primal) <= allowed
        assert abs(mine.dual - other.dual) <= allowed
        assert abs(mine.gap - other.gap) <= allowed
        assert mine.support_vectors == other.support_vectors


def test_several_problems_are_each_of_them_alone(engine, loss_name):
    setting = Setting(engine, loss_name, 3).place()
    W, alpha = setting.random_points()
    with setting.data as data:
        problem = setting.problem
        dual = data.dual(problem, alpha)
        together = certify_point(data, problem, W, dual)
        at = data.dual_at(problem, W).fetch()
        for k in range(3):
            own = problem.only(k)
            assert (own.k, own.targets.k) == (1, 1)
            point = data.dual(own, alpha[:, [k]])
            assert certify_point(data, own, W[:, [k]], point) == together[k : k + 1]
            close_to(data.dual_at(own, W[:, [k]]).fetch()[:, 0], at[:, k])


def test_codes_are_columns_of_each_class_against_the_rest(engine):
    X, _ = toy("hinge")
    codes = np.random.default_rng(0).integers(0, 3, size=len(X))
    columns = np.where(codes[:, np.newaxis] == np.arange(3), 1.0, -1.0)
    W = np.random.default_rng(1).normal(size=(X.shape[1], 3))
    with place_on(engine, X, 1) as data:
        found = []
        for targets in (data.targets(codes, classes=3), data.targets(np.asfortranarray(columns))):
            assert targets.k == 3
            problem = make_problem(targets, LOSSES["hinge"](), LAM)
            dual = data.dual_at(problem, W)
            found.append((dual.fetch(), data.sums(problem, W, dual).values))
    for by_code, by_column in zip(*found, strict=True):
        np.testing.assert_array_equal(by_code, by_column)
    assert len(np.unique(found[0][1][0])) == 3


# A data set: dual points.


def test_dual_points_are_put_into_the_box(setting):
    data, problem = setting.data, setting.problem
    _, alpha = setting.random_points()
    zero = data.dual(problem).fetch()
    assert zero.shape == (setting.n, setting.k)
    assert not zero.any()
    np.testing.assert_allclose(data.dual(problem, alpha).fetch(), alpha, rtol=1e-15, atol=0)
    off = alpha * (1 + 1e-12)  # by rounding alone
    inside = data.dual(problem, off).fetch()
    for k in range(setting.k):
        c = setting.weights(k)
        assert np.all(inside[:, k] >= setting.loss.lower * c)
        if setting.loss.upper < inf:
            assert np.all(inside[:, k] <= setting.loss.upper * c)
        assert not inside[c == 0, k].any()
    np.testing.assert_allclose(inside, alpha, rtol=2e-12, atol=0)
    np.testing.assert_array_equal(data.dual(problem, off, project=False).fetch(), off)


def test_dual_points_far_outside_are_refused(setting):
    data, problem, last = setting.data, setting.problem, setting.k - 1
    loss, weights = setting.loss, setting.weights(setting.k - 1)
    heavy = int(np.flatnonzero(weights > 0)[7])
    wrong = [loss.lower * weights[heavy] - 0.01]
    if loss.upper < inf:
        wrong.append(loss.upper * weights[heavy] + 0.01)
    for value in wrong:
        alpha = np.zeros((setting.n, setting.k), order="F")
        alpha[heavy, last] = value
        box = rf"weight times \[{loss.lower:g}, {loss.upper:g}\]"
        words = (
            rf"^alpha must lie in the dual's box, {box}, but alpha\[{heavy}\] is {float(value)!r}$"
        )
        with pytest.raises(ValueError, match=words):
            data.dual(problem, alpha)
    if (weights == 0).any():
        alpha = np.zeros((setting.n, setting.k), order="F")
        alpha[np.flatnonzero(weights == 0)[0], last] = 0.01
        with pytest.raises(ValueError, match="alpha must lie in the dual's box"):
            data.dual(problem, alpha)


def test_the_dual_point_of_a_primal_point_is_feasible_and_below(setting):
    data, problem = setting.data, setting.problem
    W, alpha = setting.random_points()
    found = data.dual_at(problem, W)
    at = found.fetch()
    for k in range(setting.k):
        c, a, step = setting.weights(k), setting.responses(k, W[:, k]), 1e-6
        slopes = (setting.values(k, a + step) - setting.values(k, a - step)) / (2 * step)
        smooth = np.abs(np.abs(a) - 1) > 1e-4  # kinks of all losses but the next one
        smooth &= np.abs(np.abs(a) - 0.1) > 1e-4
        np.testing.assert_allclose(at[smooth, k], -(c * slopes)[smooth], atol=1e-6)
        relative = np.divide(at[:, k], c, out=np.zeros(setting.n), where=c > 0)
        assert relative.min() >= setting.loss.lower
        assert relative.max() <= setting.loss.upper
    np.testing.assert_array_equal(data.dual(problem, at).fetch(), at)  # in the box as it is
    other = setting.random_points(seed=1)[0]
    for point in (W, other):  # weak duality, whatever w and alpha
        for dual in (found, data.dual(problem, alpha)):
            for certificate in certify_point(data, problem, point, dual):
                assert certificate.gap >= -certificate.rounding


def test_balanced_points_sum_to_zero_exactly(setting):
    data, problem = setting.data, setting.problem
    for seed in range(3):
        _, alpha = setting.random_points(seed)
        found = data.balanced(problem, data.dual(problem, alpha)).fetch()
        for k in range(setting.k):
            signs = setting.signs(k)
            total = sum(Fraction(s) * Fraction(a) for s, a in zip(signs, found[:, k], strict=True))
            assert total == 0
            assert np.all(found[:, k] * alpha[:, k] >= 0)
            assert np.all(np.abs(found[:, k]) <= np.abs(alpha[:, k]))
            before = signs * alpha[:, k]
            lighter = np.sign(before) == -np.sign(before.sum())  # these stay where they are
            np.testing.assert_allclose(found[lighter, k], alpha[lighter, k], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(data.dual(problem, found).fetch(), found)
    zero = data.balanced(problem, data.dual(problem)).fetch()
    assert not zero.any()


# A data set: second derivatives.


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


# A data set: passes that need no problem.


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
        close_to(data.row_gram_times(rows, v, normalize, bias), few @ (few.T @ v), scale=10)
        columns, widest = data.absolute_sums(normalize, bias)
        close_to(columns, np.abs(full).sum(axis=0))
        assert widest == pytest.approx(np.abs(full).sum(axis=1).max(), rel=1e-13)


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
        with data.share(1) as view:
            assert (view.n, view.d, view.jobs, view.engine) == (*X.shape, 1, engine)
            assert view.tuning is data.tuning
            close_to(view.scores(W), X @ W)
        with pytest.raises(ValueError, match=CLOSED):
            view.scores(W)
        assert data.jobs == 2
        close_to(data.scores(W), X @ W)


def test_a_share_knows_what_has_been_measured(engine):
    X, _ = toy("hinge")
    with place_on(engine, X, 2) as data, data.share(1) as view:
        assert view.memo is data.memo


# A data set: weights, closing, sharing.


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
        options = FitOptions(method=Safe(), batch_size=1, tol=1e-8, max_epochs=1e5)
        [one] = train(data, weighted, options, Start(0))
        [many] = train(copied, plain, options, Start(0))
    assert one.status.converged
    assert many.status.converged
    assert one.certificate.primal == pytest.approx(many.certificate.primal, abs=1e-6)
    np.testing.assert_allclose(one.w, many.w, atol=1e-3)


def calls_of(setting):
    """A call of every public method of a data set."""
    data, problem = setting.data, setting.problem
    W, alpha = setting.random_points()
    dual, rows = data.dual(problem, alpha), np.array([1, 2])
    b = np.zeros(setting.k)
    return {
        "over_blocks": lambda: data.over_blocks(lambda start, stop: None),
        "targets": lambda: data.targets(np.ones(setting.n)),
        "facts": lambda: data.facts(problem),
        "constant_sums": lambda: data.constant_sums(problem, b),
        "offset_range": lambda: data.offset_range(problem),
        "gram_times": lambda: data.gram_times(W[: setting.d]),
        "row_gram_times": lambda: data.row_gram_times(rows, np.ones(2)),
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
        "settled": lambda: data.settled(problem, W, np.ones(setting.k)),
        "hessian": lambda: data.hessian(problem, W),
        "hessian_times": lambda: data.hessian_times(problem, W, W),
        "trainer": lambda: data.trainer(problem),
    }


METHODS_OF_A_DATASET = sorted(
    name for name, value in vars(Dataset).items()
    if callable(value) and not name.startswith("_") and name != "close"
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
def test_fits_in_several_threads_at_once_are_those_one_after_another(engine, jobs):
    X, y = toy("hinge", n=200)

    def fit(data, seed):
        method = [Safe(), Aggressive(), Blocks(blocks=2), Gram(batches=2), Guarded()][seed % 5]
        found = batchsvm.fit(  # not `quietly`: filters of warnings belong to all threads
            data, y, lam=LAM / (1 + seed), method=method, batch_size=[1, 6][seed % 2], tol=1e-6,
            max_epochs=10, random_state=seed, warn=False,
        )  # fmt: skip
        return found.w, found.alpha, found.history.gap

    with place_on(engine, X, jobs, CUT_SMALL) as data:
        one_by_one = [fit(data, seed) for seed in range(6)]
        with ThreadPoolExecutor(4) as threads:
            at_once = list(threads.map(lambda seed: fit(data, seed), range(6)))
    for alone, together in zip(one_by_one, at_once, strict=True):
        for expected, found in zip(alone, together, strict=True):
            np.testing.assert_array_equal(found, expected)


# Training.


def train_all(data, problem, options, seed=0, stop=None, alpha=None):
    """A solution for each problem: all at once, or each on its own where that is what the engine
    can do; problem k has the seed + k."""
    if data.problems_at_once() >= problem.k:
        return train(data, problem, options, Start(seed, alpha), stop)
    return [
        train(
            data, problem.only(k), options,
            Start(seed + k, None if alpha is None else alpha[:, [k]]), stop,
        )[0]
        for k in range(problem.k)
    ]  # fmt: skip


# Where problems differ in their bias, and so in sigma^2, that is given.
PAIRS = {
    "hinge": (Guarded(), 7, None),
    "smoothed_hinge": (Naive(), 1, "tail"),
    "squared_hinge": (Blocks(blocks=3), 9, None),
    "logistic": (Aggressive(sigma2=0.6, rounds=2), 7, "decay"),
    "absolute": (Gram(batches=3), 8, None),
    "epsilon_insensitive": (Safe(sigma2=0.6), 7, "tail"),
    "quantile": (Pegasos(radius=2.0), 5, None),
    "huber": (Safe(sampling="subsets"), 1, None),
}


def test_runs_are_those_of_the_reference_seed_by_seed(tested_engine, loss_name, k):
    # Few epochs: at the optimum only rounding moves, and beta follows that noise.
    method, batch_size, averaging = PAIRS[loss_name]
    options = FitOptions(
        method=method, batch_size=batch_size, tol=0.0, max_epochs=3.0, averaging=averaging
    )
    found = []
    for name in (tested_engine, "reference"):
        setting = Setting(name, loss_name, k).place()
        radius = getattr(method, "radius", inf)
        with setting.data as data:
            problem = replace(setting.problem, radius=radius)
            found.append(train_all(data, problem, options, seed=11))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.w, theirs.w, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(ours.alpha, theirs.alpha, rtol=1e-8, atol=1e-10)
        for column in ("iteration", "epoch", "beta", "refused", "primal", "dual"):
            np.testing.assert_allclose(
                getattr(ours.history, column), getattr(theirs.history, column),
                rtol=1e-8, atol=1e-10,
            )  # fmt: skip
        assert ours.history.iteration[-1] > 0
        assert np.abs(ours.w).max() > 1e-3
    assert len({tuple(solution.w) for solution in found[0]}) == k


def independent_solution(X, y, loss_name):
    """w of scikit-learn, for the lam of the tests."""
    arguments = {"C": 1 / (LAM * len(y)), "tol": 1e-9, "max_iter": 1_000_000}
    if loss_name == "logistic":
        model = LogisticRegression(fit_intercept=False, **arguments)
    elif loss_name == "epsilon_insensitive":
        model = LinearSVR(epsilon=0.1, fit_intercept=False, random_state=0, **arguments)
    else:
        model = LinearSVC(
            loss=loss_name, dual=True, fit_intercept=False, random_state=0, **arguments
        )
    return model.fit(X, y).coef_.ravel()


@pytest.mark.parametrize("loss_name", ["hinge", "logistic", "squared_hinge", "epsilon_insensitive"])
def test_the_certified_optimum_is_that_of_another_solver(engine, loss_name):
    X, y = toy(loss_name)
    solution = batchsvm.fit(
        FORMATS[CASES[loss_name].form](X), y, loss_name, LAM, tol=1e-6, max_epochs=10_000,
        random_state=0, engine=engine,
    )  # fmt: skip
    at_zero = oracle.primal(X, y, np.zeros(X.shape[1]), loss_name, LAM)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap <= 1e-6
    other = oracle.primal(X, y, independent_solution(X, y, loss_name), loss_name, LAM)
    ours = oracle.primal(X, y, solution.w, loss_name, LAM)
    assert ours == pytest.approx(other, abs=1e-6 * at_zero)
    assert oracle.dual(X, y, solution.alpha, loss_name, LAM) <= other + 1e-12


@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge", "epsilon_insensitive", "quantile"])
def test_screening_does_not_change_the_optimum(engine, loss_name):
    X, y = toy(loss_name, n=100)
    lam, tol = 0.2, 1e-6
    found = [
        batchsvm.fit(
            FORMATS[CASES[loss_name].form](X), y, loss_name, lam, Safe(skips=skips), batch_size=1,
            tol=tol, max_epochs=10_000, random_state=0, engine=engine,
        )
        for skips in (True, False)
    ]  # fmt: skip
    for solution in found:
        assert solution.status is Status.CONVERGED
    screened, plain = found
    at_zero = oracle.primal(X, y, np.zeros(X.shape[1]), loss_name, lam)
    # P is strongly convex: w is no further from the optimum than the gap allows.
    allowed = 2 * np.sqrt(2 * tol * at_zero / lam)
    assert np.linalg.norm(screened.w - plain.w) <= allowed
    assert screened.certificate.primal == pytest.approx(plain.certificate.primal, abs=tol * at_zero)
    assert screened.history.iteration[-1] != plain.history.iteration[-1]  # it did leave rows out


def visits_of(trainer, k):
    """The order of visits of problem k."""
    return (trainer.trainers[k] if hasattr(trainer, "trainers") else trainer).visits


@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge", "absolute", "huber"])
def test_a_full_pass_keeps_every_row_that_would_move(engine, loss_name, k):
    if engine not in HOST_ENGINES:
        pytest.skip("this engine does not show which rows it visits")
    setting = Setting(engine, loss_name, k).place()
    with setting.data as data:
        problem = replace(setting.problem, radius=inf)
        numbers = range(k) if data.problems_at_once() < k else [None]
        for number in numbers:
            own = problem if number is None else problem.only(number)
            trainer = data.trainer(own)
            trainer.start(Schedule(Safe(), 1, seed=3))
            trainer.run(6 * setting.n, np.full(own.k, -inf), StopFlag())
            everything = np.ones(own.k, np.bool_)
            trainer.keep_dual(everything)
            alpha = trainer.best()[1].fetch()
            for j in range(own.k):
                visits_of(trainer, j).keep[:] = False
            W = trainer.point()
            trainer.sums(W, screen=True)
            for j in range(own.k):
                keep = visits_of(trainer, j).keep
                at = j if number is None else number
                c, norms2 = setting.weights(at), (setting.rows(at) ** 2).sum(axis=1)
                q = np.maximum(norms2 * c / (setting.lam[at] * c.sum()), TINY)
                relative = np.divide(alpha[:, j], c, out=np.zeros(setting.n), where=c > 0)
                a = setting.responses(at, W[:, j])
                moved = setting.loss.dual_step(relative, a, q)
                moves = (np.abs(moved - relative) > 1e-12) & (c > 0)
                assert moves.any()
                assert keep[moves].all()
                assert loss_name == "huber" or not keep.all()  # few of those rest at a corner


@pytest.mark.parametrize("where", ["callback", "thread"])
@pytest.mark.parametrize("method", [Safe(), Pegasos(), Blocks(blocks=2), Gram()])
def test_a_stop_flag_ends_training_with_a_certified_point(engine, k, method, where):
    setting = Setting(engine, "hinge", k).place()
    stop, timers = StopFlag(), []

    def callback(_, seen):
        if where == "callback" and seen.iteration > 0:
            stop.set()
        elif where == "thread" and not timers:
            timers.append(Timer(0.05, stop.set))
            timers[0].start()

    options = FitOptions(method=method, batch_size=4, callback=callback, **ENDLESS)
    with setting.data as data:
        problem = replace(setting.problem, lam=np.full(k, HARD))
        began = time.monotonic()
        found = train_all(data, problem, options, stop=stop)
        assert time.monotonic() - began < 20
        assert_interrupted(data, problem, found)
        assert where == "thread" or len(found[0].history) > 1


@pytest.mark.parametrize("method", [Safe(), Pegasos(), Blocks(blocks=2), Gram()])
def test_ctrl_c_ends_training_with_a_certified_point(engine, k, method):
    setting = Setting(engine, "hinge", k).place()

    def callback(_, seen):
        if seen.iteration > 0:
            raise KeyboardInterrupt

    options = FitOptions(method=method, batch_size=4, callback=callback, **ENDLESS)
    with setting.data as data:
        problem = replace(setting.problem, lam=np.full(k, HARD))
        found = train_all(data, problem, options)
        assert_interrupted(data, problem, found)
        assert len(found[0].history) > 1


def assert_interrupted(data, problem, solutions):
    assert len(solutions) == problem.k
    for k, solution in enumerate(solutions):
        own = problem.only(k)
        assert solution.status is Status.INTERRUPTED
        dual = data.dual(own, solution.alpha[:, np.newaxis])
        np.testing.assert_array_equal(dual.fetch()[:, 0], solution.alpha)  # in its box
        [again] = certify_point(data, own, solution.w[:, np.newaxis], dual)
        allowed = again.rounding + solution.certificate.rounding
        assert abs(again.gap - solution.certificate.gap) <= allowed
        assert solution.certificate.gap <= 1.0  # that of the starting point


def test_ctrl_c_before_anything_is_certified_is_raised(engine):
    setting = Setting(engine, "hinge", 1).place()

    def press(_):
        raise KeyboardInterrupt

    with setting.data as data:
        trainer = data.trainer(setting.problem)
        trainer.start(Schedule(Safe(), 1))
        loop = Loop(data, setting.problem, trainer, 1, FitOptions(**ENDLESS))
        loop._keep = lambda *_: press(None)
        with pytest.raises(KeyboardInterrupt):
            loop.train(False, StopFlag())


def test_a_run_looks_at_the_stop_flag_and_at_who_is_done(engine, k):
    setting = Setting(engine, "hinge", k).place()
    stopped = StopFlag()
    stopped.set()
    with setting.data as data:
        problem = setting.problem if data.problems_at_once() >= k else setting.problem.only(0)
        trainer = data.trainer(problem)
        trainer.start(Schedule(Safe(skips=False), 1))
        going = np.full(problem.k, -inf)
        progress = trainer.run(50, going, stopped)
        np.testing.assert_array_equal(progress.iterations, 0)
        done = going.copy()
        done[0] = np.nan
        progress = trainer.run(50, done, StopFlag())
        np.testing.assert_array_equal(progress.iterations, [0, *[50] * (problem.k - 1)])
        progress = trainer.run(130, going, StopFlag())
        np.testing.assert_array_equal(progress.iterations, 130)
        np.testing.assert_array_equal(progress.estimates, inf)  # no epoch showed a gap below
        progress = trainer.run(10**6, np.full(problem.k, 0.5), StopFlag())
        assert np.all(progress.iterations < 10**6)
        assert np.all(progress.estimates <= 0.5)


def test_a_stop_flag_is_seen_within_a_run(engine):
    X, y = toy("hinge", n=500)
    stop = StopFlag()
    with place_on(engine, X, 1, replace(DEFAULT_TUNING, max_call_nonzeros=10_000)) as data:
        problem = make_problem(data.targets(y), LOSSES["hinge"](), LAM)
        trainer = data.trainer(problem)
        trainer.start(Schedule(Safe(skips=False), 1))
        timer = Timer(0.02, stop.set)
        timer.start()
        until = 5000 if engine == "reference" else 10**9
        progress = trainer.run(until, np.array([-inf]), stop)
        timer.join()
    assert progress.iterations[0] < until


def test_what_a_trainer_shows_of_its_problems(engine, loss_name, k):
    setting = Setting(engine, loss_name, k).place()
    with setting.data as data:
        problem = setting.problem if data.problems_at_once() >= k else setting.problem.only(k - 1)
        first = 0 if problem.k == k else k - 1
        trainer = data.trainer(problem)
        for ours, expected in zip(trainer.facts, data.facts(problem), strict=True):
            np.testing.assert_array_equal(ours, expected)
        trainer.start(Schedule(Blocks(blocks=2), 6, recent_mean=True, seed=1))
        assert trainer.survives_exceptions
        assert not trainer.point().any()
        assert trainer.recent_mean() is None
        trainer.run(40, np.full(problem.k, -inf), StopFlag())
        shape = setting.p, problem.k
        W, combination = trainer.point(), trainer.combination()
        assert W.shape == trainer.iterate().shape == trainer.recent_mean().shape == shape
        assert trainer.beta.shape == trainer.refused.shape == (problem.k,)
        assert np.all(trainer.beta >= 1)
        weight = data.facts(problem).total_weight
        np.testing.assert_allclose(W, combination / (problem.lam * weight), rtol=1e-9, atol=1e-12)
        before = [array.copy() for array in trainer.best()[:1]] + [trainer.best()[1].fetch().copy()]
        nobody = np.zeros(problem.k, np.bool_)
        trainer.keep_primal(W, nobody)
        trainer.keep_dual(nobody)
        np.testing.assert_array_equal(trainer.best()[0], before[0])
        np.testing.assert_array_equal(trainer.best()[1].fetch(), before[1])
        last = nobody.copy()
        last[-1] = True
        trainer.keep_primal(2 * W, last)
        trainer.keep_dual(last)
        best, dual = trainer.best()
        np.testing.assert_array_equal(best[:, -1], 2 * W[:, -1])
        np.testing.assert_array_equal(best[:, :-1], before[0][:, :-1])
        alpha = dual.fetch()
        np.testing.assert_array_equal(alpha[:, :-1], 0)
        at = first + problem.k - 1
        signed = alpha[:, -1] * setting.signs(at)
        close_to(setting.rows(at).T @ signed, combination[:, -1])
        # The full pass of a trainer is that of the data set.
        trainer.keep_dual(np.ones(problem.k, np.bool_))
        ours, theirs = trainer.sums(W), data.sums(problem, W, trainer.best()[1])
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.norms, theirs.norms)


@pytest.mark.parametrize("loss_name", ["hinge", "logistic", "huber"])
def test_training_starts_from_a_dual_point(engine, loss_name, k):
    setting = Setting(engine, loss_name, k).place()
    with setting.data as data:
        problem = replace(setting.problem, radius=inf)
        exact = FitOptions(method=Safe(), batch_size=1, tol=1e-7, max_epochs=1e5)
        first = train_all(data, problem, exact)
        assert all(solution.status.converged for solution in first)
        alpha = np.asfortranarray(np.column_stack([solution.alpha for solution in first]))
        for method, b in ((Safe(), 1), (Aggressive(), 5), (Blocks(blocks=2), 8), (Gram(), 8)):
            options = replace(exact, method=method, batch_size=b, tol=2e-7)
            again = train_all(data, problem, options, seed=5, alpha=alpha)
            for before, after in zip(first, again, strict=True):
                assert after.status is Status.CONVERGED
                assert after.history.iteration.tolist() == [0]
                np.testing.assert_array_equal(after.alpha, before.alpha)
                np.testing.assert_allclose(after.w, before.w, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("loss_name", ["hinge", "huber"])
def test_dual_points_are_taken_apart_and_put_together(engine, loss_name):
    setting = Setting(engine, loss_name, 3).place()
    _, alpha = setting.random_points()
    with setting.data as data:
        dual = data.dual(setting.problem, alpha)
        alpha = dual.fetch().copy()
        parts = [dual.only(k) for k in range(3)]
        for k, part in enumerate(parts):
            np.testing.assert_array_equal(part.fetch(), alpha[:, [k]])
            assert data.owns(part)
            own = setting.problem.only(k)
            close_to(data.combination(own, part), data.combination(setting.problem, dual)[:, [k]])
        np.testing.assert_array_equal(data.joined_dual(parts).fetch(), alpha)
        turned = data.joined_dual([parts[2], parts[0]])
        np.testing.assert_array_equal(turned.fetch(), alpha[:, [2, 0]])
        np.testing.assert_array_equal(turned.only(1).fetch(), alpha[:, [0]])
        with data.share(1) as view:
            assert view.owns(dual)
        with data.subset(np.arange(20)) as part:
            assert not part.owns(dual)


def test_a_dual_point_stays_as_it_is_while_others_train_from_it(engine, k):
    setting = Setting(engine, "hinge", k).place()
    with setting.data as data:
        problem = setting.problem if data.problems_at_once() >= k else setting.problem.only(0)
        options = FitOptions(method=Safe(), batch_size=1, tol=0.0, max_epochs=2.0)
        solutions = train(data, problem, options, Start(0))
        dual = data.joined_dual([solution.dual for solution in solutions])
        before = dual.fetch().copy()
        assert before.any()
        by_handle = train(data, problem, options, Start(1, dual))
        np.testing.assert_array_equal(dual.fetch(), before)
        by_array = train(data, problem, options, Start(1, before))
        for k_, (one, other) in enumerate(zip(by_handle, by_array, strict=True)):
            np.testing.assert_array_equal(solutions[k_].alpha, before[:, k_])
            np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-9, atol=1e-12)
            assert not np.array_equal(one.alpha, before[:, k_])


@pytest.mark.parametrize("averaging", [None, "tail", "decay"])
@pytest.mark.parametrize("method", [Pegasos(), Safe(), Guarded(), Aggressive(), Blocks(blocks=2)])
def test_a_trainer_stands_at_its_dual_point_before_the_first_iteration(engine, method, averaging):
    setting = Setting(engine, "hinge", 1).place()
    with setting.data as data:
        problem = setting.problem
        _, alpha = setting.random_points()
        for dual in (None, data.dual(problem, alpha)):
            trainer = data.trainer(problem)
            trainer.start(Schedule(method, 4, beta_b=2.0, averaging=averaging), dual)
            expected = data.combination(problem, data.dual(problem) if dual is None else dual)
            close_to(trainer.combination(), expected)
            w = expected / (problem.lam * setting.n)
            close_to(trainer.point(), w)
            close_to(trainer.iterate(), w)
            assert trainer.refused.tolist() == [0]
            if isinstance(method, Pegasos):
                assert np.isnan(trainer.beta).all()
            else:
                assert trainer.beta.tolist() == [method.first_beta(2.0)]
            progress = trainer.run(1, np.array([-inf]), StopFlag())
            assert progress.iterations.tolist() == [1]


@pytest.mark.parametrize(("method", "beta"), [(Naive, 1.0), (Safe, 3.0), (Guarded, 1.0)])
@pytest.mark.parametrize("step", ["general", "literal"])
def test_a_step_is_that_of_the_paper(engine, method, beta, step):
    """Eq. (MBalphai): divided by beta ||x_i||^2, or by beta alone."""
    X, y = toy("hinge")
    X = X / np.linalg.norm(X, axis=1).max()
    n, lam = len(y), 5e-4
    with place_on(engine, X, 1) as data:
        problem = make_problem(data.targets(y), LOSSES["hinge"](), lam)
        trainer = data.trainer(problem)
        start = 0.02 * Setting(engine, "hinge", 1).random_points()[1]
        trainer.start(Schedule(method(step=step), n, beta_b=3.0), data.dual(problem, start))
        w = trainer.point()[:, 0].copy()
        trainer.run(1, np.array([-inf]), StopFlag())
        trainer.keep_dual(np.ones(1, np.bool_))
        alpha = trainer.best()[1].fetch()[:, 0]
    norms2 = (X**2).sum(axis=1) if step == "general" else np.ones(n)
    with np.errstate(divide="ignore"):  # row 3 is zero
        free = start[:, 0] + (1 - y * (X @ w)) * lam * n / (beta * norms2)
    np.testing.assert_allclose(alpha, np.clip(free, 0.0, 1.0), rtol=1e-11, atol=1e-13)
    inside = (alpha > 0) & (alpha < 1) & (alpha != start[:, 0])
    assert inside.sum() > 10  # at a bound, steps of all lengths are the same


@pytest.mark.parametrize("averaging", ["tail", "decay"])
@pytest.mark.parametrize(
    ("method", "batch_size"),
    [(Safe(), 1), (Guarded(), 4), (Aggressive(), 4), (Pegasos(), 4), (Pegasos(radius=0.3), 4)],
)
def test_the_point_is_the_average_that_was_asked_for(engine, method, batch_size, averaging):
    setting = Setting(engine, "hinge", 1).place()
    with setting.data as data:
        problem = replace(setting.problem, radius=getattr(method, "radius", inf))
        trainer = data.trainer(problem)
        trainer.start(Schedule(method, batch_size, beta_b=2.0, averaging=averaging, seed=4))
        seen = []

        def expected():
            if averaging == "tail":
                return np.mean(seen, axis=0)
            mean = seen[0]
            for w in seen:
                mean = 0.9 * mean + 0.1 * w
            return mean

        for t in range(1, 31):
            seen.append(trainer.iterate().copy())  # an iterate counts before it is changed
            trainer.run(t, np.array([-inf]), StopFlag())
            np.testing.assert_allclose(trainer.point(), expected(), rtol=1e-9, atol=1e-12)
            if not isinstance(method, Pegasos):
                w = trainer.combination() / (problem.lam * setting.n)
                np.testing.assert_allclose(trainer.point(), w, rtol=1e-9, atol=1e-12)
            if t == 20 and averaging == "tail":
                trainer.restart_average()
                seen.clear()
                close_to(trainer.point(), trainer.iterate())
        trainer.keep_dual(np.ones(1, np.bool_))
        dual = trainer.best()[1]
        np.testing.assert_array_equal(data.dual(problem, dual.fetch()).fetch(), dual.fetch())
        assert not np.allclose(trainer.point(), trainer.iterate(), rtol=1e-3)


@pytest.mark.parametrize("method", [Safe(), Pegasos(), Guarded(), Blocks(blocks=2), Gram()])
def test_what_a_trainer_kept_certifies_to_the_best_of_the_loop(engine, method, k):
    setting = Setting(engine, "hinge", k).place()
    with setting.data as data:
        problem = setting.problem if data.problems_at_once() >= k else setting.problem.only(0)
        trainer = data.trainer(problem)
        trainer.start(Schedule(method, 4, beta_b=2.0, seed=2))
        options = FitOptions(tol=0.0, max_epochs=12.0, checkpoints=range(5, 100, 5))
        loop = Loop(data, problem, trainer, 4, options)
        loop.train(False, StopFlag())
        found = certify_point(data, problem, *trainer.best())
        for k_, (again, best) in enumerate(zip(found, loop.best, strict=True)):
            assert again == best if data.deterministic else again.gap == pytest.approx(best.gap)
            assert best.gap == loop.history(k_).gap.min()
            assert best.gap < loop.history(k_).gap[0]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    "method", [Pegasos(), Safe(), Guarded(), Aggressive(), Blocks(blocks=2), Gram(batches=2)]
)
def test_the_same_seed_gives_the_same_bits(engine, method, jobs):
    X, y = toy("hinge")
    with place_on(engine, X, jobs, CUT_SMALL, deterministic=True) as data:
        assert data.deterministic
        first, second, other = (
            quietly(
                data, y, lam=LAM, method=method, batch_size=6, tol=1e-9, max_epochs=5,
                random_state=seed,
            )
            for seed in (7, 7, 8)
        )  # fmt: skip
        np.testing.assert_array_equal(first.w, second.w)
        np.testing.assert_array_equal(first.alpha, second.alpha)
        np.testing.assert_array_equal(first.history.gap, second.history.gap)
        assert not np.array_equal(first.alpha, other.alpha)


# Many problems.


def as_single_fits(X, columns, lams, weights=None, **options):
    return [
        quietly(
            X, columns[k], lam=lams[k], random_state=20 + k,
            sample_weight=None if weights is None else weights[k], **options,
        )
        for k in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["labels", "columns", "lams", "weights"])
@pytest.mark.parametrize("method", ["auto", Guarded()])
def test_many_problems_are_as_many_single_fits(engine, kind, method):
    loss_name = "huber" if kind == "columns" else "hinge"
    X, y = toy(loss_name)
    rng = np.random.default_rng(2)
    options = {"loss": loss_name, "method": method, "tol": 1e-6, "max_epochs": 8, "engine": engine}
    if method != "auto":
        options["batch_size"] = 5
    lams, weights = [LAM] * 3, None
    if kind == "labels":
        targets = rng.integers(0, 3, size=len(y))
        columns = [np.where(targets == k, 1.0, -1.0) for k in range(3)]
    elif kind == "columns":
        targets = np.column_stack([y, y[::-1], y**2])
        columns = list(targets.T)
    else:
        targets = np.column_stack([y] * 3) if kind == "weights" else y
        columns = [y] * 3
        if kind == "lams":
            lams = [0.3, LAM, 0.01]
        else:
            weights = rng.integers(0, 3, size=(len(y), 3)).astype(float)
    together = batchsvm.fit_many(
        X, targets, lam=lams, sample_weight=weights, random_state=20, n_jobs=2, warn=False,
        **options,
    )  # fmt: skip
    single = as_single_fits(X, columns, lams, None if weights is None else weights.T, **options)
    assert len(together) == 3
    for ours, alone in zip(together, single, strict=True):
        assert ours.lam == alone.lam
        if engine in HOST_ENGINES:
            np.testing.assert_array_equal(ours.w, alone.w)
            np.testing.assert_array_equal(ours.alpha, alone.alpha)
            np.testing.assert_array_equal(ours.history.gap, alone.history.gap)
            assert ours.certificate == alone.certificate
        else:
            np.testing.assert_allclose(ours.w, alone.w, rtol=1e-8, atol=1e-10)
    assert len({tuple(solution.w) for solution in together}) == 3
