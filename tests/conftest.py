"""Problems, formats and registries that the tests run over."""

from __future__ import annotations

import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import StandardScaler

from batchsvm.core import checks
from batchsvm.engines import placing
from batchsvm.engines.gpu.device import DeviceError, device_count
from batchsvm.losses import LOSSES
from helpers import FORMATS
from simulated import place_simulated

try:
    from hypothesis import settings
except ImportError:  # `make test-gpu` runs with what a machine with a device has
    pass
else:
    settings.register_profile("batchsvm", deadline=None, derandomize=True, max_examples=60)
    settings.load_profile("batchsvm")


@pytest.fixture(scope="session", autouse=True)
def seeded():
    """A fit without a seed gets seed 0: a test that passes once passes always."""
    read_seed = checks.read_seed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "read_seed", lambda state: read_seed(0 if state is None else state))
        yield


@pytest.fixture(scope="session", autouse=True)
def device():
    """Where there is no CUDA device, the gpu engine runs on a simulated one: all but its CUDA code
    is tested everywhere."""
    try:
        device_count()
    except DeviceError:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(placing.ENGINES, "gpu", place_simulated)
            yield "simulated"
    else:
        yield "cuda"


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
    from batchsvm.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        err = "".join(line for line in err.splitlines(True) if "compiling" not in line)
        return left.value.code, out, err

    return run
