"""The compile cache and its one line; losses from outside the package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numba
import numpy as np
import pytest

import batchsvm
from batchsvm import compiled
from batchsvm.core.solution import Status
from batchsvm.losses import LOSSES
from batchsvm.losses.elementary import exp, log
from batchsvm.losses.smoothing import Smoothed
from helpers import toy

FIT = """
import sys
import numpy as np, batchsvm
X = np.random.default_rng(0).normal(size=(100, 5))
s = batchsvm.fit(X, np.sign(X[:, 0]), lam=0.1, random_state=0)
print(s.certificate.primal)
"""


def run(tmp_path, code=FIT, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_first_fit_says_that_it_compiles_and_the_second_does_not(tmp_path):
    cold, warm = run(tmp_path), run(tmp_path)
    assert cold.stderr.count("\n") == 1
    assert "compiling" in cold.stderr
    assert "once" in cold.stderr
    assert str(compiled.cache_folder().name) in cold.stderr
    assert warm.stderr == ""
    assert warm.stdout == cold.stdout


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal on POSIX")
@pytest.mark.parametrize("module", ["batchsvm.engines.cpu.serial", "elsewhere"])
def test_ctrl_c_waits_until_our_kernels_are_compiled(module, ctrl_c):
    kernel = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    event = SimpleNamespace(data={"dispatcher": kernel})
    listener, before = compiled._CtrlCAfterCompiling(), signal.getsignal(signal.SIGINT)
    for _ in range(2):  # compiling a kernel compiles what it calls
        listener.on_start(event)
    if module == "elsewhere":
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
    listener.on_end(event)
    with pytest.raises(KeyboardInterrupt) if module != "elsewhere" else nullcontext():
        listener.on_end(event)
    assert signal.getsignal(signal.SIGINT) is before
    listener.on_start(event)
    listener.on_end(event)  # once is enough


def test_the_clock_stands_still_while_kernels_are_compiled(monkeypatch):
    now, listener = [100.0], compiled._CompileTime()
    fake = SimpleNamespace(perf_counter=lambda: now[0], monotonic=lambda: now[0])
    monkeypatch.setattr(compiled, "time", fake)
    monkeypatch.setattr(compiled, "_compile_time", listener)
    began = compiled.clock()
    for step, happens in ((1, listener.on_start), (5, listener.on_start), (1, listener.on_end),
                          (2, listener.on_end), (4, None)):  # fmt: skip
        now[0] += step
        if happens is not None:
            happens(None)
    assert compiled.clock() - began == 1 + 4  # from the first start to the last end are 8


def test_numba_tells_the_clock_what_it_compiles():
    before = compiled._compile_time.seconds
    assert numba.njit(lambda x: x + 1.0)(1.0) == 2.0
    assert compiled._compile_time.seconds > before


@pytest.mark.parametrize("intercept", [None, "free"])
def test_fits_tell_the_time_by_that_clock(intercept, monkeypatch):
    monkeypatch.setattr("batchsvm.core.loop.clock", lambda: 7.0)
    monkeypatch.setattr("batchsvm.core.intercept.clock", lambda: 7.0)
    X, y = toy("hinge")
    [solution] = batchsvm.fit_many(X, y[:, np.newaxis], intercept=intercept, random_state=0)
    assert not solution.history.seconds.any()
    assert not solution.history.certify_seconds.any()


def test_an_unwritable_cache_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    done = run(tmp_path / "file" / "below")
    assert float(done.stdout) > 0


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two files in the place of ours, with a cache of its own."""
    package = tmp_path / "batchsvm"
    for folder in ("displays", "losses"):
        (package / folder).mkdir(parents=True)
    (package / "losses" / "regression.py").write_text("1")
    (package / "displays" / "report.py").write_text("1")
    monkeypatch.setattr(compiled, "PACKAGE", package)
    monkeypatch.setattr(compiled.config, "CACHE_DIR", str(tmp_path / "cache"))
    return package


def test_the_cache_folder_changes_with_the_compiled_sources_alone(package):
    folder = compiled.cache_folder.__wrapped__
    before = folder()
    (package / "displays" / "report.py").write_text("2")
    assert folder() == before
    (package / "losses" / "regression.py").write_text("2")
    assert folder() != before


def test_every_file_that_is_compiled_counts():
    package = Path(batchsvm.__file__).parent
    counted = {path for glob in compiled.COMPILED_SOURCES for path in package.glob(glob)}
    for source in package.rglob("*.py"):
        text = source.read_text()
        if "@Kernel" in text or "struct_methods(" in text or "numba" in text.split('"""')[-1]:
            assert source in counted, source
    for struct_of in ("engines/averaging.py", "methods/blocks.py", "losses/regression.py"):
        assert package / struct_of in counted


def test_old_cache_folders_are_removed_and_nothing_else(package, tmp_path):
    cache = tmp_path / "cache"
    strangers = [cache / "batchsvm-notes", cache / "0123456789abcdef", cache / "other"]
    for k, folder in enumerate(strangers):
        folder.mkdir(parents=True)
        os.utime(folder, (k, k))
    old = [cache / f"batchsvm-{k:016x}" for k in range(7)]
    for k, folder in enumerate(old):
        folder.mkdir()
        (folder / "kernel.nbi").write_text("x")
        os.utime(folder, (k + 1, k + 1))
    current = compiled.cache_folder.__wrapped__()
    left = {folder for folder in cache.iterdir() if folder not in strangers}
    assert left == {current, *old[-compiled.KEPT_FOLDERS :]}
    assert all(folder.exists() for folder in strangers)


KERNEL = """
from batchsvm.compiled import Kernel

@Kernel
def double(x):
    return 2 * x

print(double(21), double(0.5))
"""


def damage(content, how):
    if how == "empty":
        return b""
    if how == "cut":
        return content[: len(content) // 2]
    if how == "other":
        return b"not a cache file" * 10
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("suffix", "how"),
    [
        ("nbi", "empty"),
        ("nbc", "cut"),
        ("nbc", "bit"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in [
                ("nbi", "cut"),
                ("nbi", "bit"),
                ("nbi", "other"),
                ("nbc", "empty"),
                ("nbc", "other"),
            ]
        ),
    ],
)
def test_a_damaged_cache_file_is_compiled_anew(tmp_path, suffix, how):
    script = tmp_path / "script.py"
    script.write_text(KERNEL)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run():
        done = subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def files():
        found = sorted((tmp_path / "cache").rglob(f"*double*.{suffix}"))
        return {path: path.read_bytes() for path in found}

    assert run() == "42 1.0\n"
    whole = files()
    assert len(whole) == (1 if suffix == "nbi" else 2)
    for path, content in whole.items():
        path.write_bytes(damage(content, how))
    assert run() == "42 1.0\n"
    mended = files()
    assert all(compiled._is_whole(path) for path in mended)
    stamps = {path: path.stat().st_mtime_ns for path in mended}
    assert run() == "42 1.0\n"  # from the cache
    assert {path: path.stat().st_mtime_ns for path in mended} == stamps


def test_importing_leaves_numbas_own_settings_alone():
    code = "import numba, batchsvm; print(repr(numba.config.CACHE_DIR))"
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "''"


class LeastSquares(NamedTuple):
    """a^2/2, written outside the package as docs/add_a_loss.md says."""

    scale: float = 1.0

    task = "regression"
    lower = -np.inf
    upper = np.inf
    lipschitz = np.inf

    def value(self, a):
        return 0.5 * self.scale * a * a

    def subgradient(self, a):
        return self.scale * a

    def conjugate(self, alpha):
        return 0.5 * alpha * alpha / self.scale

    def dual_step(self, alpha, a, q):
        return (q * alpha - a) / (q + 1.0 / self.scale)


def test_a_loss_from_outside_is_found_wherever_it_is():
    class Holder(NamedTuple):
        loss: object

    Holder.__module__ = "batchsvm.somewhere"
    for loss in (LeastSquares(), Smoothed(LeastSquares(), 0.1)):
        assert compiled._is_foreign(loss)
        assert compiled._is_foreign(Holder(loss))
    for loss in (LOSSES["hinge"](), Smoothed(LOSSES["hinge"](), 0.1)):
        assert not compiled._is_foreign(loss)
        assert not compiled._is_foreign(Holder(loss))
    assert not compiled._is_foreign(Holder(None))


@pytest.mark.parametrize("method", ["safe", "aggressive", "pegasos"])
def test_a_loss_from_outside_the_package_works_and_is_not_cached(method):
    X, y = toy("huber")
    lam = 1.0
    tol = 0.2 if method == "pegasos" else 1e-9
    solution = batchsvm.fit(
        X, y, LeastSquares(), lam, method, tol=tol, max_epochs=5000, random_state=0
    )
    ridge = np.linalg.solve(X.T @ X / 60 + lam * np.eye(6), X.T @ y / 60)
    optimum = 0.5 * np.mean((X @ ridge - y) ** 2) + lam / 2 * ridge @ ridge
    assert solution.certificate.dual <= optimum + 1e-12
    assert optimum <= solution.certificate.primal + 1e-12
    if method != "pegasos":
        np.testing.assert_allclose(solution.w, ridge, atol=1e-4)
    cached = [path.name for path in Path(compiled.cache_folder()).rglob("*.nbi")]
    assert cached
    from batchsvm.engines.cpu.batches import sdca_aggressive, sdca_fixed_beta
    from batchsvm.engines.cpu.pegasos import pegasos

    for kernel in (sdca_fixed_beta, sdca_aggressive, pegasos):
        assert not any("LeastSquares" in str(signature) for signature in kernel._cached.signatures)


class OwnLogistic(NamedTuple):
    """The logistic loss, written outside the package."""

    newton_steps: int = 8

    task = "classification"
    smooth = True
    corners = False
    lower = 0.0
    upper = 1.0
    lipschitz = 1.0

    def value(self, a):
        return log(1.0 + exp(-np.abs(a))) + np.maximum(-a, 0.0)

    def subgradient(self, a):
        small = exp(-np.abs(a))
        return -np.maximum(1.0 * (a <= 0.0), small) / (1.0 + small)

    def second_derivative(self, a):
        small = exp(-np.abs(a))
        return small / (1.0 + small) ** 2

    def conjugate(self, alpha):
        rest = (1.0 - alpha) * log(1.0 - alpha + 1.0 * (alpha >= 1.0))
        return alpha * log(alpha + 1.0 * (alpha <= 0.0)) + rest

    def dual_step(self, alpha, a, q):
        u = -a + 0.0 * alpha
        for _ in range(self.newton_steps):
            share = 1.0 / (1.0 + exp(-u))
            u = u - (u + a + q * (share - alpha)) / (1.0 + q * share * (1.0 - share))
        return 1.0 / (1.0 + exp(-u))


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("method", ["auto", "newton"])
def test_a_loss_from_outside_may_call_exp_and_log(method, engine):
    X, y = toy("logistic", 200)
    options = {"lam": 0.01, "tol": 1e-9, "method": method, "engine": engine, "random_state": 0}
    own = batchsvm.fit(X, y, OwnLogistic(), **options)
    ours = batchsvm.fit(X, y, "logistic", **options)
    assert own.status is ours.status is Status.CONVERGED
    assert own.certificate.primal == pytest.approx(ours.certificate.primal, rel=1e-8)
