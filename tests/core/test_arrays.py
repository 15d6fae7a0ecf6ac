"""Arrays of other libraries: which are on a GPU, to NumPy and back, and as data of a fit."""

from __future__ import annotations

import sys
import types
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from pandas import DataFrame, Series
from sklearn.exceptions import DataConversionWarning

import batchsvm
from batchsvm.core import data_checks
from batchsvm.core.arrays import (
    cast,
    dtype_name,
    is_device_array,
    is_foreign,
    like,
    moved,
    namespace_of,
    to_host,
)
from batchsvm.losses import Absolute
from device_arrays import FakeDeviceArray, fake_cupy_sparse

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.where(X[:, 0] > 0, 1, -1)
ON_GPU = '^X is on a GPU: use engine="gpu" or copy it to the host$'


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def strict():
    return pytest.importorskip("array_api_strict")


class OnlyDLPack:
    """An array on the host that speaks DLPack and nothing else."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OnlyCudaInterface:
    __cuda_array_interface__ = {"shape": (3,)}


class Indescribable:
    def __dlpack_device__(self):
        raise BufferError


# What they are.


@pytest.mark.parametrize("kind", [2, 13])
def test_a_device_array_is_known_by_its_device(kind):
    assert is_device_array(FakeDeviceArray(X, kind))
    assert not is_device_array(FakeDeviceArray(X, 1))


def test_sparse_matrices_of_cupy_and_the_cuda_interface_are_known():
    assert is_device_array(fake_cupy_sparse(sp.csr_array(X)))
    assert is_device_array(OnlyCudaInterface())


@pytest.mark.parametrize(
    "x", [X, X[0, 0], [1.0], (1, 2), None, "words", DataFrame(X), Series(Y), sp.csr_array(X)]
)
def test_what_is_not_an_array_of_another_library(x):
    assert not is_device_array(x)
    assert not is_foreign(x)
    assert namespace_of(x) is None
    assert to_host(x) is x


def test_what_dlpack_cannot_describe_is_no_device_array():
    assert not is_device_array(Indescribable())


def test_namespaces(torch, strict):
    assert namespace_of(torch.ones(2)) is torch
    assert namespace_of(torch.nn.Parameter(torch.ones(2))) is torch
    assert namespace_of(strict.ones(2)) is strict
    assert is_foreign(torch.ones(2))
    assert not is_device_array(torch.ones(2))


def test_names_of_types(torch, strict):
    assert dtype_name(X) == "float64"
    assert dtype_name(torch.ones(2, dtype=torch.bfloat16)) == "bfloat16"
    assert dtype_name(strict.ones(2, dtype=strict.float32)) == "float32"


# To the host.


def test_to_host_of_device_arrays():
    np.testing.assert_array_equal(to_host(FakeDeviceArray(X)), X)
    matrix = sp.csr_array(X)
    assert to_host(fake_cupy_sparse(matrix)) is matrix


def test_to_host_does_not_copy_host_memory(torch, strict):
    for there, keep in (
        (torch.from_numpy(X), X),
        (torch.from_numpy(X).requires_grad_(), X),
        (torch.from_numpy(X).T, X.T),
        (strict.asarray(X, copy=False), X),
        (OnlyDLPack(X), X),
    ):
        found = to_host(there)
        assert type(found) is np.ndarray
        assert np.shares_memory(found, X)
        np.testing.assert_array_equal(found, keep)


def test_to_host_of_another_device_of_array_api_strict(strict):
    there = strict.asarray(X, device=strict.Device("device1"))
    np.testing.assert_array_equal(to_host(there), X)


def test_bfloat16_becomes_float32(torch):
    found = to_host(torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
    assert found.dtype == np.float32
    assert found.tolist() == [1.5, -2.0]


def test_sparse_tensors_are_refused_in_one_sentence(torch):
    with pytest.raises(ValueError, match=r"must be dense, not of layout torch\.sparse_coo"):
        to_host(torch.eye(3).to_sparse())


# And back.


def test_like_is_of_the_library_and_on_the_device(torch, strict):
    other = strict.asarray([0.0], device=strict.Device("device1"))
    found = like(X, other)
    assert namespace_of(found) is strict
    assert found.device == other.device
    np.testing.assert_array_equal(to_host(found), X)
    tensor = like(X, torch.ones(1, dtype=torch.int8))
    assert tensor.dtype == torch.float64
    assert torch.equal(tensor, torch.tensor(X))


def test_like_takes_views_that_torch_cannot(torch):
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert like(frozen, torch.ones(1)).tolist() == [0.0, 1.0, 2.0]
        assert like(np.arange(3)[::-1], torch.ones(1)).tolist() == [2, 1, 0]
    assert like(np.array(2.0), torch.ones(1)).shape == ()


def test_like_leaves_words_and_numpy_alone(torch):
    words = np.array(["a", "b"])
    assert like(words, torch.ones(1)) is words
    assert like(X, Y) is X


def test_like_on_a_device_without_float64():
    def asarray(values, device):
        if values.dtype == np.float64:
            raise TypeError("no float64 here")
        return values, device

    xp = types.SimpleNamespace(asarray=asarray, __name__="small")
    template = types.SimpleNamespace(__array_namespace__=lambda: xp, device="mps:0")
    values, device = like(np.ones(2), template)
    assert (values.dtype, device) == (np.float32, "mps:0")


def test_like_enters_the_device_of_a_cupy_array(monkeypatch):
    """CuPy's functions take no device: they use the current one."""
    entered = []

    @contextmanager
    def device():
        entered.append("in")
        yield
        entered.append("out")

    def asarray(values):
        assert entered == ["in"]
        return values

    cupy = types.ModuleType("cupy")
    cupy.asarray = asarray
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    template = type("ndarray", (), {"__module__": "cupy", "device": device()})()
    assert like(Y, template) is not None
    assert entered == ["in", "out"]


def test_moved_keeps_what_is_there(torch):
    tensor = torch.ones(2)
    assert moved(tensor, torch.zeros(1)) is tensor
    assert moved(Y, X) is Y
    assert type(moved(tensor, Y)) is np.ndarray
    assert torch.equal(moved(Y, tensor), torch.tensor(Y))


def test_cast(torch):
    assert cast(X, np.float32).dtype == np.float32
    assert cast(torch.ones(1), torch.float64).dtype == torch.float64


# As data of a fit.


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("make", [FakeDeviceArray, lambda x: fake_cupy_sparse(sp.csr_array(x))])
def test_engines_of_the_host_refuse_device_arrays(engine, make):
    with pytest.raises(ValueError, match=ON_GPU):
        batchsvm.fit(make(X), Y, engine=engine)


def test_labels_weights_and_vectors_come_from_a_device():
    assert data_checks.as_labels("y", FakeDeviceArray(Y)).tolist() == Y.tolist()
    ones = FakeDeviceArray(np.ones(40, np.float32))
    assert data_checks.read_weights(ones, 40).dtype == np.float64
    np.testing.assert_array_equal(data_checks.read_vector("w", ones, 40), np.ones(40))
    np.testing.assert_array_equal(data_checks.read_offset(ones, 40), np.ones(40))
    target, _ = data_checks.read_targets(FakeDeviceArray(X[:, 1]), 40, Absolute())
    np.testing.assert_array_equal(target, X[:, 1])


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_tensors_train_as_arrays_do(torch, engine):
    options = {"lam": 0.1, "random_state": 0, "engine": engine}
    weights, offset = np.linspace(1, 2, 40), np.linspace(-0.1, 0.1, 40)
    ours = batchsvm.fit(X, Y, sample_weight=weights, offset=offset, **options)
    theirs = batchsvm.fit(
        torch.tensor(X), torch.tensor(Y), sample_weight=torch.tensor(weights),
        offset=torch.tensor(offset), **options,
    )  # fmt: skip
    np.testing.assert_array_equal(ours.w, theirs.w)
    assert theirs.classes.tolist() == [-1, 1]
    again = batchsvm.certify(
        torch.tensor(X), torch.tensor(Y), torch.tensor(theirs.w), torch.tensor(theirs.alpha),
        lam=0.1, sample_weight=torch.tensor(weights), offset=torch.tensor(offset), engine=engine,
    )  # fmt: skip
    assert again == theirs.certificate


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_x_is_taken_in_place(torch, strict, dtype):
    values = X.astype(dtype)
    for there in (torch.from_numpy(values), strict.asarray(values, copy=False), OnlyDLPack(values)):
        assert np.shares_memory(data_checks.as_matrix(there), values)


def test_half_precision_becomes_float32_with_a_warning(torch):
    for there, name in (
        (X.astype(np.float16), "float16"),
        (torch.tensor(X, dtype=torch.float16), "float16"),
        (torch.tensor(X, dtype=torch.bfloat16), "bfloat16"),
    ):
        with pytest.warns(DataConversionWarning, match=f"^X is {name}; .* to float32, which"):
            found = data_checks.as_matrix(there)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, X, rtol=0.01)


def test_tensors_of_other_types_are_treated_as_arrays_are(torch):
    with pytest.warns(DataConversionWarning, match=r"^X is int64; .* to float64, which"):
        assert data_checks.as_matrix(torch.ones(2, 2, dtype=torch.int64)).dtype == np.float64
    with pytest.raises(ValueError, match="X must hold real numbers, not complex64"):
        data_checks.as_matrix(torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="two dimensions, not shape"):
        data_checks.as_matrix(torch.ones(2))


def test_labels_are_read_without_a_loop(torch):
    y = np.arange(1000) % 2
    assert np.shares_memory(data_checks.as_labels("y", torch.from_numpy(y)), y)
