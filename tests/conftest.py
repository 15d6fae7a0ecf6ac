"""Problems, formats and registries that the tests run over."""

from __future__ import annotations

import os
import signal

import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import StandardScaler

from batchsvm.core import checks
from batchsvm.engines import placing
from batchsvm.engines.gpu.device import DeviceError, device_count
from batchsvm.engines.ray import placing as ray_placing
from batchsvm.losses import LOSSES
from helpers import FORMATS
from simulated import place_simulated
from small_cluster import HAS_RAY, MISSING, ReusedActors, place_on_small_cluster, small_cluster
from small_parts import place_in_small_parts

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


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, also in a job in the background, where a shell has it
    ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
        if os.environ.get("BATCHSVM_OWN_ALLOCATIONS"):
            # For `make sanitize-gpu`: in memory that CuPy shares out, a wrong address is not seen.
            import cupy

            cupy.cuda.set_allocator(None)
        yield "cuda"


@pytest.fixture(scope="session", autouse=True)
def small_parts():
    """The problems of tests are small, and so are the parts that the streamed engine cuts them
    into."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(placing.ENGINES, "streamed", place_in_small_parts)
        yield


@pytest.fixture(scope="session", autouse=True)
def few_workers():
    """The ray engine has two workers, small parts, and workers that are used again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(placing.ENGINES, "ray", place_on_small_cluster)
        patch.setattr(ray_placing, "Actors", ReusedActors)
        yield


@pytest.fixture(scope="session")
def _cluster():
    with small_cluster():
        yield


@pytest.fixture(autouse=True)
def cluster(request):
    """Tests of the ray engine share a cluster; they are skipped where Ray is not installed."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and "ray" in [
        v for v in callspec.params.values() if isinstance(v, str)
    ]:
        if not HAS_RAY:
            pytest.skip(MISSING)
        request.getfixturevalue("_cluster")


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
