"""Sparse rows of the gpu engine, on a device made of NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning
from sparse_pair import Both, D, N, run

from batchsvm.core.certificate import certify_point
from batchsvm.engines.gpu.sparse_rows import CsrRows
from batchsvm.losses import LOSSES
from batchsvm.methods import (
    Naive,
)
from helpers import FORMATS, toy
from simulated import place_simulated


@pytest.mark.parametrize("form", [name for name in FORMATS if name.startswith("csr")])
def test_passes_over_sparse_rows_are_those_of_the_reference_engine(form):
    both = Both(form=form)
    gpu, host = both.gpu, both.host
    rng = np.random.default_rng(0)
    assert (gpu.n, gpu.d, gpu.nonzeros) == (host.n, host.d, host.nonzeros)
    assert gpu.rows.longest == host.longest_row
    assert gpu.rows.nbytes == gpu.rows.values.nbytes + gpu.rows.indices.nbytes + 4 * (N + 1)
    assert gpu.rows.indices.dtype == np.int32  # half of the bytes
    assert np.allclose(gpu.norms2, host.norms2, rtol=1e-15)
    W, V = rng.normal(size=(D, 3)), rng.normal(size=(D + 1, 2))
    assert np.allclose(gpu.scores(W), host.scores(W), rtol=1e-12)
    assert np.allclose(gpu.gram_times(V, bias=0.5), host.gram_times(V, bias=0.5), rtol=1e-12)
    assert np.allclose(gpu.column_norms2(), host.column_norms2(), rtol=1e-14)
    rows = np.array([5, 3, 17, 3])
    assert np.array_equal(gpu.sample(rows).toarray(), both.X[rows])
    part = gpu.subset(rows[:3])
    assert np.array_equal(part.sample(np.arange(3)).toarray(), both.X[rows[:3]])
    assert part.rows.values.dtype == gpu.rows.values.dtype


def test_certificates_are_those_of_the_reference_engine():
    for loss_name in LOSSES:
        both = Both(loss_name)
        alpha = np.random.default_rng(2).random((N, 1)) * 0.4
        weights = both.problem.targets.weights(0, N)[:, None]
        W = np.random.default_rng(4).normal(size=(D + 1, 1))
        [here] = certify_point(
            both.gpu, both.problem, W, both.gpu.dual(both.problem, alpha * weights)
        )
        [there] = certify_point(
            both.host, both.host_problem, W, both.host.dual(both.host_problem, alpha * weights)
        )
        within = here.rounding + there.rounding
        assert abs(here.primal - there.primal) <= within
        assert abs(here.dual - there.dual) <= within
        assert here.support_vectors == there.support_vectors


def test_a_pass_in_many_blocks_that_end_within_batches(monkeypatch):
    both = Both()
    trainer = both.trainer(Naive(), 7)
    run(trainer, 9)
    W = trainer.point()
    whole, combined = trainer.sums(W), trainer.combination()
    monkeypatch.setattr("batchsvm.engines.gpu.passes.SPACE_BYTES", 8 * 5)
    assert np.allclose(trainer.sums(W).values, whole.values, rtol=1e-13)
    assert np.allclose(trainer.combination(), combined, rtol=1e-12)


def test_columns_in_a_fixed_order_give_the_same_sums():
    both = Both()
    rows = both.gpu.rows
    cut = np.array([4, -1, 0, 59, 7], np.int32)
    coefficients = np.random.default_rng(0).normal(size=(2, 5))
    plain, fixed = np.ones((2, D)), np.ones((2, D))
    rows.combine(cut, coefficients, plain)
    rows.deterministic = True
    rows.combine(cut, coefficients, fixed)
    kept = cut >= 0
    expected = 1 + coefficients[:, kept] @ both.X[cut[kept]]
    assert np.allclose(plain, expected, rtol=1e-12)
    assert np.allclose(fixed, expected, rtol=1e-12)
    assert rows.take(np.arange(3)).deterministic


def on_device(X, **changes):
    """A matrix as CuPy would hold it."""
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape", "format")}
    kind = type("csr_matrix", (SimpleNamespace,), {"__module__": "cupyx.scipy.sparse"})
    found = kind(**{**parts, **changes})
    found.tocsr = lambda: found
    return found


def test_a_matrix_of_the_device_stays_where_it_is():
    X = FORMATS["csr-float32-int64"](toy("hinge")[0])
    data = place_simulated(on_device(X))
    assert isinstance(data.rows, CsrRows)
    assert data.rows.values is X.data
    assert data.rows.indices is X.indices
    assert data.rows.starts is X.indptr
    assert data.rows.indices.dtype == np.int64
    assert np.array_equal(data.sample(np.arange(N)).toarray(), X.toarray())


@pytest.mark.parametrize(
    ("part", "place", "value", "words"),
    [
        ("indices", 4, D, rf"indices must lie between 0 and {D - 1}, not {D}$"),
        ("indices", 4, -1, rf"indices must lie between 0 and {D - 1}, not -1$"),
        ("indptr", 0, 1, "indptr must begin with 0, not 1$"),
        ("indptr", 9, 0, "indptr must not fall from one entry to the next$"),
        ("indptr", -1, 10**6, r"indptr must end at \d+ or below, the length of indices, not"),
    ],
)
def test_a_broken_matrix_of_the_device_is_refused(part, place, value, words):
    X = sp.csr_array(toy("hinge")[0])
    broken = getattr(X, part).copy()
    broken[place] = value
    with pytest.raises(ValueError, match=f"^X must be a valid CSR matrix, but its {words}"):
        place_simulated(on_device(X, **{part: broken}))


def test_parts_of_wrong_lengths_and_numbers_are_refused():
    X = sp.csr_array(toy("hinge")[0])
    with pytest.raises(ValueError, match=f"its indptr must have {N + 1} entries, not {N}$"):
        place_simulated(on_device(X, indptr=X.indptr[:-1]))
    with pytest.raises(ValueError, match="its data must have as many entries as indices"):
        place_simulated(on_device(X, data=X.data[:-1]))
    with pytest.raises(ValueError, match=r"^X must hold real numbers, not complex128$"):
        place_simulated(on_device(X, data=X.data.astype(complex)))
    with pytest.raises(ValueError, match=r"^X must be finite"):
        place_simulated(on_device(X, data=np.where(np.arange(X.nnz) == 3, np.nan, X.data)))
    with pytest.warns(DataConversionWarning, match="X is bool; it was converted to float32"):
        data = place_simulated(on_device(X, data=X.data != 0))
    assert data.norms2.sum() == X.nnz


@pytest.mark.parametrize("where", [lambda X: X, on_device], ids=["host", "device"])
def test_repeated_indices_are_added_up(where):
    rows, columns = np.array([0, 0, 1, 2, 2, 2, 2]), np.array([3, 1, 3, 4, 0, 4, 4])
    starts = np.searchsorted(rows, np.arange(4))
    values = np.array([1.0, 2.0, 7.0, 3.0, 4.0, 5.0, 6.0])
    X = sp.csr_array((values, columns, starts), shape=(3, 5))
    with pytest.warns(DataConversionWarning, match="CSR with repeated indices"):
        data = place_simulated(where(X))
    assert np.array_equal(data.sample(np.arange(3)).toarray(), X.toarray())
    assert np.array_equal(data.norms2, [5.0, 49.0, 14.0**2 + 16.0])
    assert data.nonzeros == 5


def test_indices_in_any_order_are_taken_as_they_are():
    X = sp.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3)
    )
    data = place_simulated(on_device(X))
    assert data.rows.values is X.data
    assert np.array_equal(data.scores(np.eye(3)), [[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"has .* GiB free"):
        place_simulated(sp.csr_array(toy("hinge")[0]), free=100)
