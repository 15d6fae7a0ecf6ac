"""The house: few doors, Numba in few rooms, one typed package, files of readable length."""

from __future__ import annotations

import ast
from pathlib import Path

import batchsvm

PACKAGE = Path(batchsvm.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
NUMBA = ("compiled.py", "engines/cpu/", "files/decimals.py", "files/libsvm.py")


def imported(path):
    """The top-level packages that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def test_the_package_has_at_most_twelve_entries():
    entries = {path.name for path in PACKAGE.iterdir()} - {"__pycache__", "py.typed"}
    assert len(entries) <= 12, sorted(entries)


def test_numba_is_imported_in_few_places():
    users = [path for path in SOURCES if {"numba", "llvmlite"} & set(imported(path))]
    assert users
    for path in users:
        name = path.relative_to(PACKAGE).as_posix()
        assert name.startswith(NUMBA), name


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()


def test_datasets_stay_where_people_import_them_from():
    import batchsvm.datasets
    from batchsvm.datasets import load

    assert batchsvm.datasets is batchsvm.files.datasets
    assert load is batchsvm.files.datasets.load


def test_public_names_can_be_imported():
    for name in batchsvm.__all__:
        assert getattr(batchsvm, name) is not None, name


def test_no_file_is_much_longer_than_400_lines():
    long = {path.name: len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in long.items() if lines > 500} == {}
