"""Launches of several epochs, checks of sparse matrices and uploads in blocks, on a CUDA device.

Skipped where there is no device.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

cupy = pytest.importorskip("cupy")

from test_sparse_device import Pair, close, compare_states, text_like  # noqa: E402

from batchsvm.core.parallel import StopFlag  # noqa: E402
from batchsvm.engines.gpu.dataset import place  # noqa: E402
from batchsvm.engines.gpu.device import device_of  # noqa: E402
from batchsvm.engines.gpu.sparse_read import CsrFact  # noqa: E402
from batchsvm.engines.gpu.sparse_rows import CsrRows  # noqa: E402
from batchsvm.engines.gpu.uploads import LARGE_BYTES  # noqa: E402
from batchsvm.methods import Aggressive, Naive, Pegasos, Safe  # noqa: E402
from simulated import SimulatedDevice  # noqa: E402


@pytest.mark.parametrize("method", [Naive(), Aggressive(), Pegasos()])
@pytest.mark.parametrize("b", [64, 350, 700])  # of 700 rows: one batch is an epoch, too
def test_launches_of_several_epochs(method, b):
    device, simulated = Pair("csr-float32-int32").trainers(method, b, "float64")
    for until in (3, 20, 100):
        for trainer in (device, simulated):
            trainer.run(until, np.array([-np.inf]), StopFlag())
        compare_states(device, simulated, 1e-7)


@pytest.mark.parametrize("b", [64, 700])
def test_a_launch_ends_with_the_first_epoch_within_the_target(b):
    pair = Pair("csr-float32-int32")
    device, simulated = pair.trainers(Safe(), b, "float64", beta_b=float(b))
    for target in (0.5, 0.2, 0.1):
        shown = [t.run(4000, np.array([target]), StopFlag()) for t in (device, simulated)]
        assert shown[0].iterations == shown[1].iterations
        assert shown[0].estimates[0] <= target
        close("estimate", shown[0].estimates, shown[1].estimates, 1e-7)
    compare_states(device, simulated, 1e-7)


@pytest.mark.parametrize("kinds", [(np.int32, np.int32), (np.int64, np.int32), (np.int64,) * 2])
def test_what_is_found_of_sparse_rows(kinds):
    X = text_like(3000, 700, 30)[0]
    X = sp.csr_array(sp.vstack([X[:1000], sp.csr_array((5, 700)), X[1000:]]))
    indices, starts = X.indices.astype(kinds[0]), X.indptr.astype(kinds[1])
    changed = indices.copy()
    changed[[10, 20000]] = 10**6, -3
    falling = starts.copy()
    falling[7] = 2**30
    cases = (indices, starts), (indices[::-1].copy(), starts), (changed, starts), (indices, falling)
    for parts in cases:
        found = []
        for device in (device_of(), SimulatedDevice()):
            with device:
                facts, norms2 = device.xp.zeros(len(CsrFact), np.int64), device.xp.empty(X.shape[0])
                arrays = (device.upload(array) for array in (X.data, *parts))
                rows = CsrRows(device, *arrays, X.shape[1], X.nnz)
                device.kernels.csr_check(rows, norms2, facts)
                found.append((device.to_host(facts), device.to_host(norms2)))
        (facts, norms2), (simulated, expected) = found
        largest = CsrFact.LARGEST_NORM2
        assert np.array_equal(facts[:largest], simulated[:largest])
        assert facts.view(np.float64)[largest] == norms2.max()
        close("norms2", norms2, expected, 1e-14)


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
def test_a_norm_that_is_not_finite_is_the_largest(bad):
    X = text_like(300, 70, 10)[0]
    X.data[1234] = bad
    with pytest.raises(ValueError, match="X must be finite"):
        place(X, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("size", [1, LARGE_BYTES // 8, LARGE_BYTES + 12345])
def test_uploads_in_blocks(dtype, size):
    values = np.random.default_rng(0).integers(0, 2**20, size).astype(dtype)
    with device_of() as device:
        few = np.arange(7)
        found, *others = device.upload_large(values, few, values[::-1])
        assert found.dtype == dtype
        assert np.array_equal(device.to_host(found), values)
        assert np.array_equal(device.to_host(others[0]), few)
        assert np.array_equal(device.to_host(others[1]), values[::-1])


def test_small_uploads_do_not_overwrite_each_other():
    """The buffer that they go through is used again, many times over."""
    with device_of() as device:
        sent = [np.full(1 + number % 900, number, np.float64) for number in range(3000)]
        found = [device.upload(array) for array in sent]
        for array, there in zip(sent, found, strict=True):
            assert np.array_equal(device.to_host(there), array)
        assert device.upload(np.array(2.5)).shape == ()
        assert device.upload(np.zeros((0, 3))).shape == (0, 3)
        assert device.upload(np.arange(6).reshape(2, 3).T, np.float32).dtype == np.float32


def test_a_broken_matrix_of_the_host_is_refused():
    X = text_like(50, 30, 5)[0]
    X.indices = X.indices.astype(np.int64)
    X.indices[3] = 2**32
    with pytest.raises(ValueError, match=f"indices must lie between 0 and 29, not {2**32}"):
        place(X, 1)
