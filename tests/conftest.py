"""Problems, formats and registries that the tests run over."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import StandardScaler

from batchsvm import inputs
from batchsvm.cli import main
from batchsvm.losses import LOSSES

settings.register_profile("batchsvm", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("batchsvm")


@pytest.fixture(scope="session", autouse=True)
def seeded():
    """A fit without a seed gets seed 0: a test that passes once passes always."""
    read_seed = inputs.read_seed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "read_seed", lambda state: read_seed(0 if state is None else state))
        yield


FORMATS = {
    "dense-float64": lambda X: np.ascontiguousarray(X),
    "dense-float32": lambda X: np.ascontiguousarray(X, dtype=np.float32),
    "csr-float64-int32": lambda X: csr(X, np.float64, np.int32),
    "csr-float64-int64": lambda X: csr(X, np.float64, np.int64),
    "csr-float32-int32": lambda X: csr(X, np.float32, np.int32),
    "csr-float32-int64": lambda X: csr(X, np.float32, np.int64),
}


def csr(X, dtype, index):
    X = sp.csr_array(X.astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def toy(loss_name, n=60, d=6, seed=0):
    """A small problem with rows of many norms, a zero row, zeros, and noise in the targets.

    The values are exact in float32, so that every format holds the same data.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 2.0 ** rng.integers(-2, 2, size=(n, 1))
    X[rng.random((n, d)) < 0.3] = 0.0
    X[3] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    z = X @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    if LOSSES[loss_name].task == "classification":
        return X, np.where(z >= 0, 1.0, -1.0)
    return X, z


@pytest.fixture(params=list(LOSSES))
def loss_name(request):
    return request.param


@pytest.fixture(params=list(FORMATS))
def form(request):
    return FORMATS[request.param]


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="session")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder, in this process: its exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        err = "".join(line for line in err.splitlines(True) if "compiling" not in line)
        return left.value.code, out, err

    return run


def refused(ran):
    """The one line of an error, which is exit status 2."""
    status, out, err = ran
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1, err
    return err.removeprefix("batchsvm: ").rstrip("\n")
