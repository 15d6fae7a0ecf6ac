"""What a fit takes beside the data: vectors, and work that does not grow with the columns."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.methods import Aggressive, Gram, Safe
from helpers import HOST_METHODS, one_problem, quietly


def text_like(n, d, seed=0):
    rng = np.random.default_rng(seed)
    data = sp.random_array((n, d), density=20 / d, format="csr", rng=rng)
    return data, np.where(rng.random(n) < 0.5, 1.0, -1.0)


@pytest.mark.parametrize(("n", "d"), [(200_000, 300), (2_000, 400_000)])
@pytest.mark.parametrize("method", ["auto", *HOST_METHODS])
def test_memory_is_six_and_a_half_vectors_beside_the_data(method, n, d):
    if method == "blocks" and d > n:
        pytest.skip("blocks are for data with few columns: each of them has a w of its own")
    data, y = text_like(n, d)
    b = "auto" if method == "auto" else 8
    arguments = {"lam": 1e-3, "tol": 0, "max_epochs": 1, "batch_size": b, "random_state": 0}
    quietly(data[:1000], y[:1000], method=method, **arguments)  # compile what will be used
    tracemalloc.start()
    quietly(data, y, method=method, **arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Blocks of rows and the sample that sigma^2 is measured on do not grow with the data.
    matrices = 8 * n * b if method == "gram" else 0  # kept, up to `max_gram_bytes`
    assert peak <= 8 * 6.5 * (n + d) + 2**21 + matrices


def test_the_work_of_an_iteration_does_not_grow_with_the_columns():
    # No O(d): the kernels touch nothing outside the rows they visit.
    d = 50_000
    sparse = sp.csr_array(sp.random_array((40, 30), density=0.3, rng=np.random.default_rng(0)))
    sparse.resize((40, d))
    y = np.where(np.arange(40) % 2, 1, -1)
    for method in (Safe(), Aggressive(), Gram()):
        with batchsvm.place(sparse) as data:
            trainer = data.trainer(one_problem(data, y, lam=0.01))
            trainer.start(Schedule(method, batch_size=4, beta_b=2.0))
            trainer.state.w[30:] = np.nan  # any pass over all of w would spread this
            trainer.run(50, np.zeros(1), StopFlag())
            assert np.isfinite(trainer.state.w[:30]).all()
            assert np.isfinite(trainer.bound.examples["alpha"]).all()
            assert np.isnan(trainer.state.w[30:]).all()
