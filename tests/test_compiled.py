"""The compile cache and its one line; losses from outside the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import batchsvm
from batchsvm import compiled
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


def test_an_unwritable_cache_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    done = run(tmp_path / "file" / "below")
    assert float(done.stdout) > 0


def test_the_cache_folder_changes_with_the_source(tmp_path, monkeypatch):
    package = tmp_path / "batchsvm"
    package.mkdir()
    (package / "losses.py").write_text("1")
    monkeypatch.setattr(compiled, "PACKAGE", package)
    folder = compiled.cache_folder.__wrapped__
    before = folder()
    assert folder() == before
    (package / "losses.py").write_text("2")
    assert folder() != before


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
