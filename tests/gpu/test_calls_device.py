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
from batchsvm.engines.gpu.device import LARGE_BYTES, device_of  # noqa: E402
from batchsvm.engines.gpu.sparse_read import OF_NO_ROW  # noqa: E402
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
                facts = device.upload(OF_NO_ROW)
                device.kernels.csr_check(*map(device.upload, parts), facts)
                found.append(device.to_host(facts))
        assert np.array_equal(*found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("size", [1, LARGE_BYTES // 8, LARGE_BYTES + 12345])
def test_uploads_in_blocks(dtype, size):
    values = np.random.default_rng(0).integers(0, 2**20, size).astype(dtype)
    with device_of() as device:
        found = device.upload_large(values)
        assert found.dtype == dtype
        assert np.array_equal(device.to_host(found), values)


def test_a_broken_matrix_of_the_host_is_refused():
    X = text_like(50, 30, 5)[0]
    X.indices = X.indices.astype(np.int64)
    X.indices[3] = 2**32
    with pytest.raises(ValueError, match=f"indices must lie between 0 and 29, not {2**32}"):
        place(X, 1)
