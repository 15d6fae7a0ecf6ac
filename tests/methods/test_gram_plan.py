"""The stream, the plan and the parameters of `methods/gram.py`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.engines import batch_order
from batchsvm.engines.batch_order import BatchOrder
from batchsvm.methods import Gram
from helpers import LAM, placed, quietly, toy

TINY = 1e-300


@pytest.fixture
def one_cut(monkeypatch):
    """Few batches keep their rows too, as many batches do."""
    monkeypatch.setattr(batch_order, "FEW_BATCHES", 0)


def test_few_batches_are_cut_anew_in_each_epoch_and_many_are_not():
    for n, anew in ((64 * 3, True), (65 * 3, False)):
        order, epochs = batch_order.BatchOrder(n, 3, 1, seed=0), []
        for _ in range(2):
            cut = []
            while not cut or not order.epoch_is_over:
                [number] = order.upcoming(1)
                cut.append(frozenset(order.batch(number).tolist()))
            assert sorted(row for batch in cut for row in batch) == list(range(n))
            epochs.append(set(cut))
        assert (epochs[0] != epochs[1]) == anew


@pytest.mark.usefixtures("one_cut")
def test_batches_keep_their_rows_and_come_once_per_epoch():
    order = BatchOrder(60, 7, 4, seed=8)
    rng = np.random.default_rng(8)
    np.testing.assert_array_equal(order.rows, rng.permutation(60))
    assert order.count == 9
    assert [order.batch(k).size for k in range(9)] == [7] * 8 + [4]
    np.testing.assert_array_equal(np.concatenate([order.batch(k) for k in range(9)]), order.rows)
    for _ in range(3):
        expected = rng.permutation(9)
        rounds = [order.upcoming(1), order.upcoming(1)]
        assert not order.epoch_is_over
        rounds.append(order.upcoming(5))
        assert order.epoch_is_over
        assert [len(numbers) for numbers in rounds] == [4, 4, 1]
        np.testing.assert_array_equal(np.concatenate(rounds), expected)


def test_epochs_count_the_rows_of_all_batches_of_a_round():
    X, y = toy("hinge")
    run = quietly(X, y, lam=LAM, method=Gram(batches=3), batch_size=10, tol=0, max_epochs=7)
    assert (run.batch_size, run.plan.batches) == (10, 3)
    assert run.history.iteration[-1] == 14
    assert run.history.epoch[-1] == 7
    more = quietly(X, y, lam=LAM, method=Gram(batches=50), batch_size=40, tol=0, max_epochs=7)
    assert more.plan.batches == 2  # there are no more
    assert more.history.iteration[-1] == more.history.epoch[-1] == 7


def test_the_plan_says_how_many_batches_and_why():
    X, y = toy("hinge")
    alone = quietly(X, y, lam=LAM, method="gram").plan
    assert (alone.batch_size, alone.batches, alone.workers) == (60, 1, 1)
    assert "gram, batches of 60 rows, one thread: the steps of a batch are serial steps" in str(
        alone
    )
    three = quietly(X, y, lam=LAM, method=Gram(batches=3), batch_size=8).plan
    words = "batches of 8 rows, 3 batches at once, one thread: 3 batches at once take"
    assert words in str(three)

    def auto(data, jobs, **tuning):
        with placed(data, jobs, **tuning) as there:
            return quietly(there, y, lam=LAM, method="gram", batch_size=8, max_epochs=2).plan

    shared = auto(X, 2, min_parallel_nonzeros=0)
    assert (shared.batches, shared.workers) == (2, 2)
    assert "each of 2 threads has a batch of its own" in shared.reason
    assert auto(X, 1, min_parallel_nonzeros=0).batches == 1
    little = auto(X, 2)
    assert (little.batches, little.workers) == (1, 1)
    assert "so little data (360 non-zeros)" in little.reason
    wide = sp.csr_array(X)
    wide.resize((60, 5000))
    thin = auto(wide, 2, min_parallel_nonzeros=0)
    assert thin.batches == 1
    assert "adding up w costs more" in thin.reason
    many = quietly(np.tile(X, (4, 1)), np.tile(y, 4), lam=LAM, method="gram").plan
    assert many.batch_size == 64


@pytest.mark.parametrize("method", [Gram(), Gram(batches=3, sweeps=2)])
def test_a_model_file_keeps_the_method(method, tmp_path):
    X, y = toy("hinge")
    solution = quietly(X, y, lam=LAM, method=method, batch_size=8, random_state=0)
    solution.save(tmp_path / "model")
    again = batchsvm.load(tmp_path / "model")
    assert again.method == "gram"
    assert again.method_parameters["batches"] == method.batches
    assert again.method_parameters["sweeps"] == method.sweeps


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": Gram(batches=0)}, "batches must be 'auto' or a positive integer up to 65536"),
        ({"method": Gram(batches="all")}, "batches must be 'auto' or a positive integer"),
        ({"method": Gram(batches=1.5)}, "batches must be 'auto' or a positive integer"),
        ({"method": Gram(batches=True)}, "batches must be 'auto' or a positive integer"),
        ({"method": Gram(sweeps=0)}, "sweeps must be an integer between 1 and 1000, not 0"),
        ({"method": Gram(sweeps="2")}, "sweeps must be an integer between 1 and 1000"),
        ({"method": Gram(sampling="subsets")}, 'sampling must be "permutation" for gram'),
        ({"method": "gram", "averaging": "tail"}, "averaging must be None for gram, not 'tail'"),
    ],
)
def test_what_gram_does_not_take(arguments, message):
    X, y = toy("hinge")
    with pytest.raises(ValueError, match=message) as refused:
        batchsvm.fit(X, y, **arguments)
    assert "\n" not in str(refused.value)
