"""Where a certificate is likely, the pass over all rows makes both of its halves."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
import scipy.sparse as sp

from batchsvm.core.certificate import certify_point, certify_zero
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.losses import Hinge, Huber, Logistic
from batchsvm.methods import Safe
from helpers import HOST_ENGINES, LAM, placed, toy


@pytest.mark.parametrize(
    "tuning",
    [{}, {"max_fused_columns": 0, "max_exchanged_columns": 0}, {"max_block_rows": 7}],
    ids=["fused", "apart", "blocks"],
)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("stored", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_both_halves_are_those_of_two_passes(stored, jobs, tuning):
    X, y = toy("hinge")
    weight = np.linspace(0.5, 2.0, len(y))
    rng = np.random.default_rng(0)
    W = rng.normal(size=(X.shape[1] + 1, 1))
    alpha = weight[:, np.newaxis] * rng.integers(0, 2, size=(len(y), 1))
    with placed(stored(X), jobs, min_parallel_nonzeros=0, **tuning) as data:
        problem = make_problem(data.targets(y, weight), Hinge(), LAM, bias=0.5)
        dual = data.dual(problem, alpha)
        sums, combination = data.point_sums(problem, W, dual)
        apart = data.sums(problem, W, dual)
        np.testing.assert_array_equal(combination, data.combination(problem, dual))
    np.testing.assert_array_equal(sums.values, apart.values)
    np.testing.assert_array_equal(sums.norms, apart.norms)
    rows = np.hstack([X, np.full((len(y), 1), 0.5)])
    np.testing.assert_allclose(combination[:, 0], rows.T @ (alpha[:, 0] * y), atol=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Logistic()])
@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_a_trainer_combines_only_where_a_certificate_is_likely(engine, loss):
    X, y = toy("hinge")
    with place_on(engine, X, 1) as data:
        trainer = data.trainer(make_problem(data.targets(y), loss, LAM))
        trainer.start(Schedule(Safe(), 1))
        own = getattr(trainer, "trainers", [trainer])[0]
        screens = isinstance(loss, Hinge)  # whose first pass brings rows back
        for until, target, fused in ((60, inf, not screens), (120, -inf, False), (180, inf, True)):
            own.run(until, np.array([target]), StopFlag())
            own.sums(own.point(), screen=True)
            assert (own._combination is not None) == fused
            alpha = own.bound.examples["alpha"]
            np.testing.assert_allclose(
                own.combination()[:, 0], X.T @ (alpha * y), rtol=1e-12, atol=1e-13
            )


def test_passes_over_few_columns_are_shared_sooner():
    X, _ = toy("hinge")
    for few, workers in ((X.shape[1], 2), (X.shape[1] - 1, 1)):
        with placed(X, 2, min_shared_pass_nonzeros=X.size, max_exchanged_columns=few) as data:
            assert data.pass_pool.size == workers
    with placed(X, 2, min_shared_pass_nonzeros=X.size + 1) as data:
        assert data.pass_pool.size == 1


# At the start, w = 0.


def test_which_offsets_are_exact():
    X, y = toy("hinge")
    with placed(X) as data:
        labels, numbers = data.targets(y), data.targets(X[:, 0])
        shifted = data.targets(y, offset=X[:, 0])
        assert make_problem(labels, Hinge(), LAM).has_exact_offsets
        assert make_problem(labels, Hinge(), LAM, offset=0.1).has_exact_offsets
        assert not make_problem(shifted, Hinge(), LAM).has_exact_offsets
        assert not make_problem(shifted, Hinge(), LAM, offset=0.1).has_exact_offsets
        assert make_problem(numbers, Huber(), LAM).has_exact_offsets
        assert not make_problem(numbers, Huber(), LAM, offset=0.1).has_exact_offsets


@pytest.mark.parametrize("engine", HOST_ENGINES)
@pytest.mark.parametrize("loss", [Hinge(), Logistic()])
def test_zero_is_certified_without_a_pass_where_offsets_are_exact(engine, loss):
    X, y = toy("hinge")
    W = np.zeros((X.shape[1] + 1, 1))
    with place_on(engine, X, 1) as data:
        problem = make_problem(data.targets(y), loss, LAM, bias=1.0, offset=0.3)
        [by_a_pass] = certify_point(data, problem, W, data.dual(problem))
        found = certify_zero(problem, data.facts(problem), len(W))[0]
    assert found.primal == pytest.approx(by_a_pass.primal, rel=1e-14)
    assert found.dual == by_a_pass.dual == 0.0
    assert found.bound == pytest.approx(by_a_pass.bound, rel=1e-12)
    truth = np.mean(loss.value(0.3 * y))
    assert found.primal == pytest.approx(truth, rel=1e-14)
