"""Training of the streamed engine: what it reads, in which order, and what costs no read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sources_here import LAM, is_mapped, own_problem, placed, rows_like_text, source_of

import batchsvm
from batchsvm.core.certificate import certify_point
from batchsvm.core.layout import Schedule
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.solution import Status
from batchsvm.core.training import Start, train
from batchsvm.engines import cpu
from batchsvm.engines.streamed import resident
from batchsvm.engines.streamed.resident import Resident, free_rows
from batchsvm.losses import LOSSES
from batchsvm.methods import Aggressive

X, Y = rows_like_text()


def fit(data, problem, tol=1e-3, **options):
    return train(data, problem, FitOptions(tol=tol, max_epochs=100.0, **options), Start(0))


@pytest.fixture
def orders(monkeypatch):
    """The order in which each pass has read the parts."""
    from batchsvm.engines.streamed.part_reader import PartReader

    seen, visit = [], PartReader.visit

    def watched(self, order, rows=True):
        if rows:
            seen.append(list(order))
        return visit(self, order, rows)

    monkeypatch.setattr(PartReader, "visit", watched)
    return seen


def test_certificates_cost_no_read(orders):
    with placed(source_of(X, Y)) as data:
        problem = own_problem(data)
        [found] = fit(data, problem)
        assert found.status is Status.CONVERGED
        passes = found.history.epoch[-1]
        assert data.reads == passes == len(orders)
        assert len(found.history) == passes  # of the start, and of each pass after the first
        dual = data.dual(problem, found.alpha[:, np.newaxis])
        [again] = certify_point(data, problem, found.w[:, np.newaxis], dual)
        assert data.reads == passes + 1  # sums and combination in one
        assert again.primal == pytest.approx(found.certificate.primal, rel=1e-12)
        assert again.dual == pytest.approx(found.certificate.dual, rel=1e-12)


def test_every_pass_has_an_order_of_its_own(orders):
    with placed(source_of(X, Y)) as data:
        fit(data, own_problem(data), tol=1e-4)
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len({tuple(order) for order in orders}) > len(orders) // 2


def test_several_problems_share_each_read():
    codes = np.arange(1200) % 3
    with placed(source_of(X, codes)) as data:
        problem = make_problem(data.targets(classes=3), LOSSES["hinge"](), LAM)
        found = fit(data, problem)
        assert len(found) == 3
        assert data.reads == max(solution.history.epoch[-1] for solution in found)
        for k, solution in enumerate(found):
            alone = batchsvm.fit(X, np.where(codes == k, 1, -1), lam=LAM, tol=1e-3)
            bounds = solution.certificate.bound + alone.certificate.bound
            assert abs(solution.certificate.primal - alone.certificate.primal) <= bounds


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge"])
def test_the_optimum_is_that_of_the_cpu_engine_and_d_does_not_fall(loss):
    weights = np.random.default_rng(0).integers(0, 3, size=1200).astype(float)
    with placed(source_of(X, Y, weights)) as data:
        [found] = fit(data, own_problem(data, loss), tol=1e-5)
    assert found.status is Status.CONVERGED
    assert np.all(np.diff(found.history.dual) >= -1e-13)
    here = batchsvm.fit(X, Y, loss, lam=LAM, sample_weight=weights, tol=1e-5)
    bounds = found.certificate.bound + here.certificate.bound
    assert abs(found.certificate.primal - here.certificate.primal) <= bounds
    assert np.linalg.norm(found.w - here.w) <= 2 * np.sqrt(2 * bounds / LAM)


def test_labels_of_the_source_are_those_that_a_caller_brings():
    with placed(source_of(X, Y)) as data, placed(source_of(X)) as plain:
        [ours] = fit(data, own_problem(data))
        problem = make_problem(plain.targets(Y.astype(np.int8)), LOSSES["hinge"](), LAM)
        [theirs] = fit(plain, problem)
    np.testing.assert_array_equal(ours.w, theirs.w)
    np.testing.assert_array_equal(ours.alpha, theirs.alpha)


def test_parts_on_the_disk_are_trained_on_like_parts_in_memory():
    with placed(source_of(X, Y)) as data:
        [here] = fit(data, own_problem(data))
    with placed(source_of(X, Y)) as data:
        problem, spending = own_problem(data), data.spending
        data.spending = lambda problem: spending(problem)._replace(alphas=0)
        [there] = fit(data, problem)
        assert is_mapped(there.dual.parts[0].alpha)
        assert not is_mapped(here.dual.parts[0].alpha)
    np.testing.assert_array_equal(here.alpha, there.alpha)
    assert there.alpha.any()  # whatever became of the folder


def test_where_a_pass_ends_the_point_is_that_of_its_beginning():
    with placed(source_of(X, Y)) as data:
        problem = own_problem(data)
        trainer = data.trainer(problem)
        trainer.start(Schedule(Aggressive(), 1, seed=3))
        assert not trainer.knows_point
        first = trainer.run(1200, np.array([1e-9]), StopFlag())
        assert first.iterations[0] == 1200  # all of the first pass, which starts at zero
        trainer.keep_dual(np.array([True]))
        before = trainer.best()[1].fetch().copy()
        second = trainer.run(10**6, np.array([1e-9]), StopFlag())
        assert second.iterations[0] == 2400
        assert trainer.knows_point
        reads = data.reads
        W = trainer.point().copy()
        sums, combination = trainer.sums(W, screen=True), trainer.combination().copy()
        trainer.keep_dual(np.array([True]))
        np.testing.assert_array_equal(trainer.best()[1].fetch(), before)
        assert data.reads == reads
        expected = data.point_sums(problem, W, trainer.best()[1])
        np.testing.assert_allclose(sums.values, expected[0].values, rtol=1e-12)
        np.testing.assert_allclose(combination, expected[1], rtol=1e-9, atol=1e-12)
        assert second.estimates[0] == pytest.approx(
            certify_point(data, problem, W, trainer.best()[1])[0].gap
        )
        trainer.run(2401, np.array([1e-9]), StopFlag())  # goes on from where it was
        assert not trainer.knows_point
        assert not np.array_equal(trainer.point(), W)


def test_a_certificate_in_the_midst_of_a_pass_takes_one_buffer_more():
    with placed(source_of(X, Y)) as data:
        problem = own_problem(data)
        trainer = data.trainer(problem)
        trainer.start(Schedule(Aggressive(), 1, seed=3))
        trainer.run(500, np.array([-np.inf]), StopFlag())
        W = trainer.point().copy()
        sums, combination = trainer.sums(W), trainer.combination()
        np.testing.assert_allclose(combination / (LAM * 1200), W, rtol=1e-9, atol=1e-12)
        assert sums.facts.rows == 1200
        assert len(data._reader._buffers) == 1  # the pass under way has two
        trainer.run(1200, np.array([-np.inf]), StopFlag())  # goes on with its part
        assert trainer.run(1200, np.array([-np.inf]), StopFlag()).iterations[0] == 1200
        assert len(data._reader._buffers) == 3
        trainer.keep_dual(np.array([True]))
        again = data.combination(problem, trainer.best()[1]) / (LAM * 1200)
        np.testing.assert_allclose(again, trainer.point(), rtol=1e-9, atol=1e-12)


# Rows that stay in memory.


def test_rows_that_stay_in_memory_spare_reads(monkeypatch):
    found = {}
    for visits in (0.0, 0.5):
        monkeypatch.setattr("batchsvm.engines.streamed.trainer.VISITS_PER_ROW", visits)
        with placed(source_of(X, Y)) as data:
            [solution] = fit(data, own_problem(data, lam=1e-3), tol=1e-3)
            assert solution.status is Status.CONVERGED
            found[visits] = data.reads
    assert found[0.5] <= 0.7 * found[0.0]


def test_free_rows_are_those_inside_of_the_box():
    loss, weights = LOSSES["hinge"](), np.array([1.0, 1.0, 2.0, 2.0, 0.0, 1.0])
    with cpu.place(np.ones((6, 2))) as data:
        problem = make_problem(data.targets(np.ones(6), weights), loss, LAM)
        alpha = np.array([[0.0, 1.0, 1.0, 2.0, 0.0, 0.5]]).T
        rng = np.random.default_rng(0)
        assert free_rows(problem, alpha, 10, rng).tolist() == [2, 5]
        assert free_rows(problem, alpha, 1, rng).size == 1
        assert free_rows(problem, alpha, 0, rng).size == 0
        squared = replace(problem, loss=LOSSES["squared_hinge"]())
        assert free_rows(squared, alpha, 10, rng).tolist() == [1, 2, 3, 5]
        many = make_problem(data.targets(np.ones((6, 2))), loss, LAM)
        both = np.array([[0.5, 0.5, 0.0, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5, 1.0, 0.0]]).T
        assert free_rows(many, both, 1, rng).tolist() == [1]  # free in both


@pytest.mark.parametrize("form", [np.asarray, lambda rows: X[:40]])
def test_bins_hold_the_rows_that_were_kept_last(form):
    rows = form(np.arange(80.0).reshape(40, 2) / 80)
    keeps = Resident(10**6, 2 * resident.BINS, 100.0)
    kept = {0: [1, 5], 3: [2], resident.BINS: [0, 7, 9], 2 * resident.BINS - 1: []}
    with cpu.place(rows) as data:
        targets = data.targets(np.arange(40.0), np.arange(40.0) + 1)
        for p in (0, 3, resident.BINS, 0, 2 * resident.BINS - 1):
            keeps.keep(p, data, targets, np.array(kept[p], np.int64))
        bins = keeps.some(100.0, np.random.default_rng(0))
        found = {p: own.rows[at].tolist() for own in bins for p, at in own.members()}
        assert found == {p: numbers for p, numbers in kept.items() if numbers}
        for own in bins:
            with own.placed(1, data.tuning) as placed_bin:
                ours = placed_bin.sample(np.arange(own.rows.size))
                assert abs(ours - data.sample(own.rows)).max() == 0
                np.testing.assert_array_equal(own.norms2, data.norms2[own.rows])
            np.testing.assert_array_equal(own.targets.y, own.rows)
            np.testing.assert_array_equal(own.targets.sample_weight, own.rows + 1)


def test_bins_are_visited_as_often_as_is_allowed():
    keeps, rng = Resident(10**6, 4, 100.0), np.random.default_rng(0)
    with cpu.place(np.ones((40, 2))) as data:
        for p in range(4):
            keeps.keep(p, data, data.targets(np.ones(40)), np.arange(10))
        visits = [sum(own.rows.size for own in keeps.some(5.0, rng)) for _ in range(20)]
        assert sum(visits) == 100
        assert sum(own.rows.size for own in keeps.some(1e6, rng)) == 40  # each of them once


def test_the_quota_is_within_the_budget():
    keeps = Resident(10**6, 10, 872.0)
    assert keeps.quota * 10 * (872 + resident.BYTES_PER_ROW) <= 10**6
    assert keeps.quota == 80
