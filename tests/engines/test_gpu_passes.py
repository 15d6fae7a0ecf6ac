"""Passes over all rows on a device, in more than one block, against the cpu engine."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.core.certificate import certify_point
from batchsvm.core.layout import Schedule
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.engines.gpu import passes
from batchsvm.losses import LOSSES
from batchsvm.methods import Aggressive, Gram
from helpers import FORMATS, toy


@pytest.mark.parametrize("form", ["dense-float32", "csr-float64-int32"])
@pytest.mark.parametrize("k", [1, 3, 7])  # few problems are multiplied in another way
@pytest.mark.parametrize("space", [2**29, 8 * 1000, 8 * 333])  # blocks begin within batches
def test_certificates_do_not_depend_on_blocks(form, k, space, monkeypatch):
    monkeypatch.setattr(passes, "SPACE_BYTES", space)
    X, y = toy("hinge", n=700, d=9)
    rng = np.random.default_rng(0)
    Y = np.asfortranarray(np.column_stack([y * rng.choice([-1, 1], 700) for _ in range(k)]))
    alpha, W = np.asfortranarray(rng.random((700, k))), rng.normal(size=(9, k))
    found = []
    for engine in ("gpu", "cpu"):
        with place_on(engine, FORMATS[form](X), 1) as data:
            problem = make_problem(data.targets(Y), LOSSES["hinge"](), 0.1)
            found.append(certify_point(data, problem, W, data.dual(problem, alpha)))
    for gpu, cpu in zip(*found, strict=True):
        assert abs(gpu.primal - cpu.primal) <= gpu.primal_rounding + cpu.primal_rounding
        assert abs(gpu.dual - cpu.dual) <= gpu.dual_rounding + cpu.dual_rounding
        assert gpu.support_vectors == cpu.support_vectors
        assert gpu.rounding < 1e-12


def test_a_trainer_knows_how_deep_its_sums_are(monkeypatch):
    """Blocks of few rows are added up one by one: the bound on rounding has to know of it."""
    monkeypatch.setattr(passes, "SPACE_BYTES", 8 * 10)
    X, y = toy("hinge", n=700, d=9)
    with place_on("gpu", X, 1) as data:
        problem = make_problem(data.targets(y), LOSSES["hinge"](), 0.1)
        for method in (Gram(), Aggressive()):
            trainer = data.trainer(problem)
            trainer.start(Schedule(method, 64, beta_b=2.0))
            _, dual = trainer.best()
            sums = trainer.sums(trainer.point())
            assert sums.facts.depth == data.sums(problem, trainer.point(), dual).facts.depth
            assert sums.facts.depth >= 700 / 10  # the number of blocks


def test_rows_are_given_back_when_what_was_put_off_fails():
    def fails():
        raise MemoryError("the device is full")

    data = place_on("gpu", toy("hinge")[0], 1)
    data.later_work.append(fails)
    with pytest.raises(MemoryError, match="is full"):
        data.close()
    assert not data.is_open
    assert "rows" not in vars(data)


def test_the_gram_matrix_of_a_sample_waits_until_the_device_is_at_work():
    """And is there after the data set is closed, whether or not anything was trained."""
    X, y = toy("hinge")
    v = np.arange(1.0, 6.0)
    for trains in (True, False):
        data = place_on("gpu", sp.csr_array(X), 1)
        gram_times = data.row_gram(np.arange(5), normalize=False)
        assert len(data.later_work) == 1
        if trains:
            batchsvm.fit(data, y, lam=0.1, warn=False)
            assert not data.later_work
        rows = weakref.ref(data.rows)
        data.close()
        gc.collect()
        assert rows() is None  # though the plan of a fit keeps the function
        np.testing.assert_allclose(gram_times(v), X[:5] @ (X[:5].T @ v))
