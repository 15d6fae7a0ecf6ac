"""Install a wheel or an sdist into a fresh environment and use it: `make dist` runs this.

    python tests/tools/check_dist.py dist/batchsvm-0.1.0-py3-none-any.whl

The commands run in an empty folder, so that the package is the one that was installed.  Nothing of
the checkout is importable there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

USE = """
import importlib.metadata, pathlib
from importlib import resources

import batchsvm
from batchsvm.datasets import load

here = pathlib.Path(batchsvm.__file__)
assert "site-packages" in here.parts, here
assert importlib.metadata.version("batchsvm") == batchsvm.__version__
assert (here.parent / "py.typed").is_file()
kernels = resources.files("batchsvm.engines.gpu") / "cuda"
assert any(entry.name.endswith(".cu") for entry in kernels.iterdir())
for name in batchsvm.__all__:
    getattr(batchsvm, name)
data = load("breast-cancer")
solution = batchsvm.fit(data.X, data.y, lam=1e-4, random_state=0)
assert solution.status.converged, solution
assert batchsvm.certify(data.X, data.y, solution.w, solution.alpha, lam=1e-4).bound <= 1e-4
print(solution)
"""
COMMANDS = (
    ["data", "get", "breast-cancer", "--folder", "."],
    ["train", "breast-cancer.train.svm", "cancer.model", "--lam", "1e-4"],
    ["certify", "cancer.model", "breast-cancer.train.svm"],
    ["predict", "cancer.model", "breast-cancer.test.svm", "cancer.predicted"],
)


def check(built: Path) -> None:
    """Install `built` into a new environment; raise CalledProcessError if any use of it fails."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "BATCHSVM_"))}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "environment"
        empty = Path(folder) / "empty"
        empty.mkdir()
        venv.create(home, with_pip=True)
        environment["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        programs = home / ("Scripts" if os.name == "nt" else "bin")

        def run(*command: str) -> None:
            subprocess.run(command, cwd=empty, env=environment, check=True)

        python = str(programs / "python")
        run(python, "-m", "pip", "install", "--quiet", str(built.resolve()))
        run(python, "-m", "pip", "check")
        run(python, "-c", USE)
        for command in COMMANDS:
            run(str(programs / "batchsvm"), *command)
    print(f"{built.name} installs and works", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        check(Path(name))
