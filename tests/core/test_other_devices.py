"""Arrays that NumPy reads with help or not at all: bfloat16, and devices without an engine."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

import batchsvm
from batchsvm import BatchSVC
from batchsvm.core.arrays import other_device
from batchsvm.engines import ENGINES

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.where(X[:, 0] > 0, 1, -1)
FIT = {"lam": 0.1, "random_state": 0}
KINDS = {8: "a Metal device", 10: "a ROCm device", 99: "a device of kind 99"}


class Elsewhere:
    """An array on a device of this kind, which gives nothing away."""

    def __init__(self, values, kind=8):
        self.shape, self.dtype, self.ndim, self.kind = values.shape, values.dtype, values.ndim, kind

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **_):
        raise BufferError("not here")

    def __array__(self, *_, **__):
        raise TypeError("not here")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_x_on_another_device_is_refused(kind, engine):
    sentence = f"^X must be in host memory or on a CUDA device, not on {KINDS[kind]}$"
    for call in (batchsvm.fit, BatchSVC(engine=engine).fit):
        options = {"engine": engine} if call is batchsvm.fit else {}
        with pytest.raises(ValueError, match=sentence):
            call(Elsewhere(X, kind), Y, **options)
    with pytest.raises(ValueError, match=sentence):
        BatchSVC(**FIT).fit(X, Y).predict(Elsewhere(X, kind))


def test_labels_and_weights_on_another_device_are_refused():
    there = "one on a Metal device cannot be read from there; copy it to the host$"
    with pytest.raises(ValueError, match=f"^y must be an array of labels or numbers: {there}"):
        batchsvm.fit(X, Elsewhere(Y))
    with pytest.raises(ValueError, match=f"^sample_weight must be an array of numbers: {there}"):
        batchsvm.fit(X, Y, sample_weight=Elsewhere(np.ones(40)))


def test_tensors_without_data_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"^X must be .* not on 'meta', a device of torch$"):
        batchsvm.fit(torch.empty((40, 3), device="meta"), Y)
    with pytest.raises(ValueError, match=r"^y must be .* 'meta', a device of torch cannot be"):
        batchsvm.fit(X, torch.empty(40, device="meta"))


@pytest.mark.parametrize("kind", [1, 2, 3, 11, 13])
def test_the_host_and_cuda_devices_are_no_others(kind):
    assert other_device(Elsewhere(X, kind)) is None
    assert other_device(X) is None
    assert other_device([1.0]) is None


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_bfloat16_of_numpy_becomes_float32(engine):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    short = X.astype(bfloat16)
    with pytest.warns(DataConversionWarning, match="X is bfloat16; it was converted to float32"):
        found = batchsvm.fit(short, Y.astype(bfloat16), engine=engine, **FIT)
    plain = batchsvm.fit(short.astype(np.float32), Y, engine=engine, **FIT)
    np.testing.assert_array_equal(found.w, plain.w)
    weights = np.ones(40).astype(bfloat16)
    weighted = batchsvm.fit(X, Y, sample_weight=weights, engine=engine, **FIT)
    np.testing.assert_allclose(weighted.w, batchsvm.fit(X, Y, engine=engine, **FIT).w, atol=0.05)


def test_estimators_take_bfloat16_of_numpy():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    short = X.astype(bfloat16)
    model = BatchSVC(**FIT).fit(short, Y)
    plain = BatchSVC(**FIT).fit(short.astype(np.float32), Y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.predict(short), plain.predict(short.astype(np.float32)))
