"""What several fits on the same device data share: cuts and Gram matrices."""

from __future__ import annotations

from threading import Thread

import numpy as np
import pytest

from batchsvm.engines import place_on
from batchsvm.engines.gpu.batches import batches_of
from helpers import toy


def test_gram_matrices_are_shared_once_they_are_computed(device):
    if device != "simulated":
        pytest.skip("the interleaving is that of NumPy")
    X, _ = toy("hinge")
    with place_on("gpu", X, 1) as data:
        batches = batches_of(data, 32, seed=0)
        compute, seen, threads = batches.compute_gram, [], []

        def another():
            seen.append(np.array(batches.gram("float64", 1)[0]))

        def slowly(cut, precision, found):
            found[:] = np.nan
            if not threads:  # another fit comes while this one computes
                threads.append(Thread(target=another))
                threads[0].start()
                threads[0].join(timeout=0.2)
            compute(cut, precision, found)

        batches.compute_gram = slowly
        expected = batches.gram("float64", 1)[0]
        threads[0].join()
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(seen[0], expected)
