"""A data set in parts adds up to the data set of all rows, and steps on a part are steps on the
whole."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log2

import numpy as np
import pytest
from parts_here import PartsHere, three_ways
from setting import CASES, CONSTANTS, Setting, close_to, dense

from batchsvm.core.certificate import certify_point
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import OutsideBoxError, make_problem
from batchsvm.engines import cpu
from batchsvm.engines.part_steps import PartSteps, iterations_per_visit, part_problem, part_schedule
from batchsvm.losses import LOSSES
from batchsvm.methods import Gram, Safe
from helpers import LAM, toy


def pair(loss_name, k, way):
    """The same problems on the cpu engine, and in parts."""
    setting = Setting("cpu", loss_name, k).place()
    there = PartsHere(setting.stored, three_ways(setting.n)[way])
    return setting, there, setting.problem_over(there)


@pytest.mark.parametrize("way", range(3))
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_parts_add_up_to_the_whole(loss_name, k, way):
    setting, there, problem = pair(loss_name, k, way)
    here, own = setting.data, setting.problem
    W, alpha = setting.random_points()
    dual, point = here.dual(own, alpha), there.dual(problem, alpha)
    np.testing.assert_array_equal(point.fetch(), dual.fetch())
    np.testing.assert_array_equal(point.only(k - 1).fetch(), dual.fetch()[:, k - 1 :])
    joined = there.joined_dual([point.only(k - 1), point])
    np.testing.assert_array_equal(joined.fetch(), np.column_stack([alpha[:, k - 1], alpha]))
    assert there.owns(joined)
    assert not there.owns(dual)
    ours, theirs = there.sums(problem, W, point), here.sums(own, W, dual)
    close_to(ours.values, theirs.values)
    close_to(ours.norms, theirs.norms)
    close_to(there.combination(problem, point), here.combination(own, dual))
    facts, expected = (f._replace(depth=0) for f in (there.facts(problem), here.facts(own)))
    for mine, other in zip(facts, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    both, combination = there.point_sums(problem, W, point)
    np.testing.assert_array_equal(both.values, ours.values)
    np.testing.assert_array_equal(combination, there.combination(problem, point))
    b = CONSTANTS[:k]
    for found, expected in zip(
        (*there.constant_sums(problem, b), *there.offset_range(problem)),
        (*here.constant_sums(own, b), *here.offset_range(own)),
        strict=True,
    ):
        close_to(found, expected)
    close_to(there.dual_at(problem, W).fetch(), here.dual_at(own, W).fetch())
    distance = np.full(k, 0.05)
    np.testing.assert_array_equal(
        there.settled(problem, W, distance), here.settled(own, W, distance)
    )
    close_to(there.hessian_times(problem, W, W), here.hessian_times(own, W, W))
    close_to(there.hessian(problem.only(0), W[:, :1]), here.hessian(own.only(0), W[:, :1]))
    np.testing.assert_array_equal(
        there.balanced(problem, point).fetch(), here.balanced(own, dual).fetch()
    )
    for mine, other in zip(
        certify_point(there, problem, W, point), certify_point(here, own, W, dual), strict=True
    ):
        allowed = mine.rounding + other.rounding
        assert abs(mine.gap - other.gap) <= allowed


@pytest.mark.parametrize("way", range(3))
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_passes_without_a_problem_add_up(storage, way):
    setting = Setting("cpu", "hinge", 1, storage).place()
    there, here = PartsHere(setting.stored, three_ways(setting.n)[way]), setting.data
    V = np.random.default_rng(0).normal(size=(setting.d + 1, 5))
    rows = np.array([41, 3, 59, 0, 3, 7])
    for normalize in (True, False):
        for bias in (None, 0.7):
            own = V if bias else V[:-1]
            close_to(there.gram_times(own, normalize, bias), here.gram_times(own, normalize, bias))
            few = there.row_gram(rows, normalize, bias)(V[:6, 0])
            close_to(few, here.row_gram(rows, normalize, bias)(V[:6, 0]))
            columns, widest = there.absolute_sums(normalize, bias)
            close_to(columns, here.absolute_sums(normalize, bias)[0])
            assert widest == here.absolute_sums(normalize, bias)[1]
    close_to(there.scores(V[:-1]), here.scores(V[:-1]))
    close_to(there.column_norms2(), here.column_norms2())
    np.testing.assert_array_equal(dense(there.sample(rows)), dense(here.sample(rows)))
    with there.subset(rows[:4]) as part:
        np.testing.assert_array_equal(dense(part.sample(np.arange(4))), setting.X[rows[:4]])


def test_what_needs_no_entries_does_not_ask_for_them():
    setting, there, problem = pair("smoothed_hinge", 3, 1)
    there.visits.clear()
    there.facts(problem)
    there.constant_sums(problem, CONSTANTS)
    there.offset_range(problem)
    there.balanced(problem, there.dual(problem, setting.random_points()[1]))
    assert not any(rows for _, rows in there.visits)
    there.visits.clear()
    gram_times = there.row_gram(np.arange(10))
    for _ in range(3):
        gram_times(np.ones(10))
    assert len(there.visits) == 1  # the rows are taken once


def test_the_depth_counts_the_additions_over_parts():
    X, y = toy("hinge")
    one_by_one = PartsHere(X, [slice(i, i + 1) for i in range(60)])
    problem = make_problem(one_by_one.targets(y), LOSSES["hinge"](), LAM)
    dual = one_by_one.dual(problem)
    for facts in (
        one_by_one.facts(problem),
        one_by_one.sums(problem, np.zeros((6, 1)), dual).facts,
    ):
        assert facts.depth == 1 + int(log2(60) + 1)
        assert facts.rows == 60


def test_alpha_outside_of_the_box_is_named_by_its_row_in_the_whole():
    _, there, problem = pair("hinge", 1, 1)
    alpha = np.zeros((60, 1))
    alpha[23] = 1.5
    with pytest.raises(OutsideBoxError, match=r"but alpha\[23\] is 1\.5$"):
        there.dual(problem, alpha)


# Steps.


def plain_steps(setting, w, alpha, order, beta):
    """SDCA on some rows in this order, one by one: what a part sees is multiplied by beta."""
    X, s, o, c = setting.rows(0), setting.signs(0), setting.fixed(0), setting.weights(0)
    scale = setting.lam[0] * c.sum()
    seen, w = w.copy(), w.copy()
    for i in order:
        if c[i] == 0:
            continue
        a = s[i] * (X[i] @ seen) - o[i]
        q = beta * c[i] * (X[i] @ X[i]) / scale
        new = setting.loss.dual_step(alpha[i] / c[i], a, q) * c[i]
        step = s[i] * (new - alpha[i]) / scale * X[i]
        w, seen = w + step, seen + beta * step
        alpha[i] = new
    return w


class Told:
    """The order in which a trainer visits rows, seen from outside: by alpha after each one."""

    def __init__(self, steps, rows):
        self.order, before = [], steps.alpha.copy()
        for t in range(1, rows + 1):
            steps.run(t, StopFlag())
            now = steps.alpha.copy()
            self.order += np.flatnonzero(now != before).tolist()
            before = now


@pytest.mark.parametrize("beta", [1.0, 3.0])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_steps_on_a_part_are_steps_on_the_whole(loss_name, beta):
    setting = Setting("cpu", loss_name, 1)
    setting.case = replace(CASES[loss_name], radius=inf)
    _, alpha = setting.random_points()
    alpha = alpha[:, 0]
    w = setting.w_of(0, alpha)
    rows = np.sort(np.random.default_rng(4).permutation(setting.n)[:25])
    with cpu.place(setting.stored[rows]) as part:
        problem = setting.problem_over(part, rows)
        weights = setting.weights(0)
        own = part_problem(problem, weights.sum(), weights[rows].sum(), beta)
        steps = PartSteps(part, own)
        schedule = part_schedule(Schedule(Safe(skips=False), 1, seed=9), 25, seed=5)
        there = w.copy()
        steps.start(schedule, alpha[rows], there)
        np.testing.assert_array_equal(there, w)
        order = rows[Told(steps, 25).order]
        moved, found = w + (there - w) / beta, steps.alpha.copy()
    assert order.size > 8
    expected = alpha.copy()
    w_expected = plain_steps(setting, w, expected, order, beta)
    np.testing.assert_allclose(found, expected[rows], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(moved, w_expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(moved, setting.w_of(0, expected), rtol=1e-9, atol=1e-11)
    if beta == 1.0:
        assert setting.dual(0, expected) > setting.dual(0, alpha)


def test_a_full_pass_brings_rows_of_a_part_back():
    """Rows at rest are left out, until w has moved."""
    setting = Setting("cpu", "hinge", 1)
    with cpu.place(setting.stored) as part:
        steps = PartSteps(part, setting.problem_over(part, np.arange(setting.n)))
        w = np.zeros(steps.bound.d)
        steps.start(Schedule(Safe(), 1), np.zeros(setting.n), w)
        visits = steps._trainer.visits

        def visited():
            steps.run(int(steps._trainer.state.iteration) + 1, StopFlag())
            return set(visits.order[: visits.active[0, 0]].tolist())

        steps.run(20 * setting.n, StopFlag())
        steps.full_pass(w, screen=True)
        left = visited()
        assert len(left) < setting.n
        w[:] = -10.0 * w  # now others are on the wrong side
        steps.full_pass(w, screen=True)
        steps._trainer.stepper.sampler.position[0] = setting.n
        assert visited() - left


def test_a_schedule_fits_into_a_part():
    schedule = Schedule(Gram(batches=2), 6, batches=2, recent_mean=True, seed=1)
    own = part_schedule(schedule, 4, seed=8)
    assert (own.batch_size, own.batches, own.seed, own.recent_mean) == (4, 1, 8, False)
    assert part_schedule(schedule, 30, seed=8).batches == 2
    assert iterations_per_visit(schedule, 30) == 3
    assert iterations_per_visit(Schedule(Safe(), 6), 30) == 5
    assert iterations_per_visit(Schedule(Safe(), 6), 4) == 1
