"""A program that uses the public functions passes mypy --strict, and none of its types is Any."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")
CONFIG = """[mypy]
strict = true
[mypy-numba.*,scipy.*,sklearn.*]
ignore_missing_imports = true
follow_imports = skip
"""


def lines_about(tmp_path, text):
    """What mypy --strict says about a program, and not about the library, which has its own
    check."""
    (tmp_path / "mypy.ini").write_text(CONFIG)
    (tmp_path / "program.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "program.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": "", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return [line for line in ran.stdout.splitlines() if line.startswith("program.py:")]


def values_in(text):
    """Right sides of assignments, whose types come from the library."""
    found = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    return [ast.unparse(node.value) for node in found if node.value is not None]


def test_the_public_functions_give_no_any(tmp_path):
    text = PROGRAM.read_text()
    values = values_in(text)
    assert len(values) > 20
    asked = "".join(f"reveal_type({value})\n" for value in values)
    lines = lines_about(tmp_path, text + "\n" + asked)
    assert [line for line in lines if ": error:" in line] == []
    types = [found[1] for line in lines if (found := re.search(r'Revealed type is "(.*)"', line))]
    assert len(types) == len(values)
    assert [value for value, kind in zip(values, types, strict=True) if kind == "Any"] == []


def test_a_wrong_type_is_found(tmp_path):
    text = PROGRAM.read_text() + "\nwrong: str = solution.certificate.gap\n"
    [line] = lines_about(tmp_path, text)
    assert "Incompatible types in assignment" in line
