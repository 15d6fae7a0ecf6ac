"""What every engine has to pass, by being listed in `batchsvm.engines.ENGINES`.

Here are sums over the rows, certificates and dual points of a `Dataset`, against plain NumPy, the
textbook formulas of `oracle.py`, and the reference engine.  `conformance_passes.py` has its other
passes, and data sets that share or close; `conformance_trainer.py` a `Trainer`,
`conformance_ends.py` how training ends, and
`conformance_training.py` the optima that it comes to.  The problems are those of `setting.py`; `K`
is 1 and 3.  What engines of this host offer beyond that is in `test_host_training.py`.

pytest collects these files by their names (`python_files` in pyproject.toml).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from setting import CASES, CONSTANTS, LAMS, Setting, close_to

import oracle
from batchsvm.core.certificate import SUPPORT_VECTORS, certify_point
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.losses import LOSSES
from helpers import HOST_ENGINES, LAM, toy


def test_every_loss_has_a_case():
    assert set(CASES) == set(LOSSES)


# What is additive over rows.


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
        deepest_sum = max(sums.facts.depth, others[0].facts.depth)
        sums, facts = sums.plus(others[0]), facts.plus(others[1])
        assert (facts.depth, sums.facts.depth) == (deepest + 1, deepest_sum + 1)
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


# Certificates.


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
        assert_same_certificate(mine, other)


def assert_same_certificate(mine, other):
    """Equal to the sum of both roundings: products of other shapes round differently."""
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
            [mine] = certify_point(data, own, W[:, [k]], point)
            assert_same_certificate(mine, together[k])
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


# Dual points.


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
        if setting.loss.lower > -inf:
            assert np.all(inside[:, k] >= setting.loss.lower * c)
        if setting.loss.upper < inf:
            assert np.all(inside[:, k] <= setting.loss.upper * c)
        assert not inside[c == 0, k].any()
    np.testing.assert_allclose(inside, alpha, rtol=2e-12, atol=0)
    # What came from an engine is taken as it is; one may still put it into the box when it is read.
    as_it_is = data.dual(problem, off, project=False).fetch()
    assert np.all((as_it_is == off) | (np.abs(as_it_is - inside) <= 2 * np.spacing(np.abs(inside))))


def test_dual_points_far_outside_are_refused(setting):
    data, problem, last = setting.data, setting.problem, setting.k - 1
    loss, weights = setting.loss, setting.weights(setting.k - 1)
    heavy = int(np.flatnonzero(weights > 0)[7])
    wrong = []
    if loss.lower > -inf:
        wrong.append(loss.lower * weights[heavy] - 0.01)
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
            assert view.owns(turned.only(0))
            assert data.owns(view.dual(setting.problem, alpha))
        with data.subset(np.arange(20)) as part:
            assert not part.owns(dual)
        with place_on(engine, setting.stored, 1) as other:
            assert engine in HOST_ENGINES or not other.owns(dual)  # those are plain arrays


# What is proven of single rows.


def test_settled_rows_are_those_of_the_reference(tested_engine, loss_name, k):
    found = []
    for name in (tested_engine, "reference"):
        setting = Setting(name, loss_name, k).place()
        W, _ = setting.random_points()
        with setting.data as data:
            near = [data.settled(setting.problem, W, np.full(k, at)) for at in (0.0, 0.05, inf)]
            found.append(near)
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == (setting.n, k)
        assert ours.dtype == np.int8
        np.testing.assert_array_equal(ours, theirs)
    exact, near, anywhere = found[0]
    assert np.all((near == exact) | (near == -1))
    assert np.all(anywhere == -1)
    if loss_name in ("hinge", "squared_hinge", "smoothed_hinge", "epsilon_insensitive"):
        assert len(np.unique(near)) > 1
