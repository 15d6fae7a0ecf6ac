"""The example of the docs: on the cluster that is running, with one line about it and no others of
Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("_cluster")
def test_the_example_runs_and_says_one_line_about_the_cluster():
    ran = subprocess.run(
        [sys.executable, "examples/cluster.py", "--rows", "4000", "--columns", "10"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("the proven bound is within tol") == 2
    lines = [line for line in ran.stderr.splitlines() if "compiling" not in line]
    assert len(lines) == 1, ran.stderr
    assert lines[0].startswith("batchsvm: ")
    assert "Ray cluster" in lines[0]
