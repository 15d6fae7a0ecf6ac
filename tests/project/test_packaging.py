"""What the package is built from: CUDA sources are data, and must be in sdist and wheel."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import resources
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "batchsvm"
TARGETS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
CUDA = sorted((PACKAGE / "engines" / "gpu" / "cuda").iterdir())
ENGINE = sorted((PACKAGE / "engines" / "gpu").glob("*.py"))


def test_wheel_and_sdist_take_whole_folders():
    """Hatch takes every file of these folders that git does not ignore."""
    assert TARGETS["wheel"] == {"packages": ["src/batchsvm"]}
    assert set(TARGETS["sdist"]) == {"include"}
    assert "src" in TARGETS["sdist"]["include"]


@pytest.mark.parametrize("path", CUDA, ids=lambda path: path.name)
def test_git_does_not_ignore_a_cuda_source(path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git")
    command = ["git", "check-ignore", "--quiet", str(path.relative_to(ROOT))]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 1


def test_every_cuda_source_that_the_engine_names_is_a_resource_of_it():
    named = {name for path in ENGINE for name in re.findall(r'"(\w+\.cuh?)"', path.read_text())}
    folder = resources.files("batchsvm.engines.gpu") / "cuda"
    present = {entry.name for entry in folder.iterdir()}
    assert {path.suffix for path in CUDA} == {".cu", ".cuh"}
    assert named <= present
    assert present - named <= {"losses.cu"}  # which tests alone launch


def test_a_wheel_holds_every_cuda_source():
    wheel = pytest.importorskip("hatchling.builders.wheel")
    files = wheel.WheelBuilder(str(ROOT)).recurse_included_files()
    built = {file.distribution_path for file in files}
    for path in CUDA:
        assert f"batchsvm/engines/gpu/cuda/{path.name}" in built
