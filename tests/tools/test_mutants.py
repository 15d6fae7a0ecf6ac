"""Mutants are valid Python, differ from the original in one line, and leave words alone."""

from __future__ import annotations

import ast
from pathlib import Path

import mutants
import pytest
from mutations import mutations

SNIPPET = '''"""A docstring: 1 + 1 < 2 and not True."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    LIMIT = 1 + 1

LEVELS = (0, 1.0, 2, 0.0)  # 1 + 1
NAME = "a" + "1 < 2"


class Shape(Protocol):
    def area(self, scale: float = 1.0) -> float: ...


class Point(NamedTuple):
    """1 or 0."""

    x: float = 0.0

    def __repr__(self) -> str:
        return f"{self.x + 1}"

    def scaled(self, by: "int | 1" = 1):
        if not self.x >= 0 and by != 1 or by == 3:
            raise ValueError(f"{by + 1} is not {1}" + str(by * 1))
        assert by > 0
        total = min(
            self.x
            * by,
            (by) - (1),
        )
        total -= by / 2
        lowest = self.x.min()
        return total + lowest


def prefetch_row(i):
    return i + 1


def is_small(x, limit=True):
    return x < 1 <= limit


def words(count):
    text = f"{count + 1} rows, {0}"
    return float(count)
'''

EXPECTED = {
    # operators, one by one
    "if self.x >= 0 and by != 1 or by == 3:",
    "if not self.x > 0 and by != 1 or by == 3:",
    "if not self.x < 0 and by != 1 or by == 3:",
    "if not self.x >= 0 or by != 1 or by == 3:",
    "if not self.x >= 0 and by == 1 or by == 3:",
    "if not self.x >= 0 and by != 1 and by == 3:",
    "if not self.x >= 0 and by != 1 or by != 3:",
    "/ by,",
    "(by) + (1),",
    "total += by / 2",
    "total -= by * 2",
    "return total - lowest",
    "return x <= 1 <= limit",
    "return x >= 1 <= limit",
    "return x < 1 < limit",
    "return x < 1 > limit",
    # constants
    "if not self.x >= 1 and by != 1 or by == 3:",
    "if not self.x >= -1 and by != 1 or by == 3:",
    "if not self.x >= 0 and by != 0 or by == 3:",
    "if not self.x >= 0 and by != 2 or by == 3:",
    "(by) - (0),",
    "(by) - (2),",
    "return x < 0 <= limit",
    "return x < 2 <= limit",
    "LEVELS = (1, 1.0, 2, 0.0) # 1 + 1",
    "LEVELS = (-1, 1.0, 2, 0.0) # 1 + 1",
    "LEVELS = (0, 0.0, 2, 0.0) # 1 + 1",
    "LEVELS = (0, 2.0, 2, 0.0) # 1 + 1",
    "LEVELS = (0, 1.0, 2, 1.0) # 1 + 1",
    "LEVELS = (0, 1.0, 2, -1.0) # 1 + 1",
    "x: float = 1.0",
    "x: float = -1.0",
    'def scaled(self, by: "int | 1" = 0):',
    'def scaled(self, by: "int | 1" = 2):',
    "def is_small(x, limit=False):",
    # names and returned values
    "total = max(",
    "lowest = self.x.max()",
    "return -(total + lowest)",
    "return not (x < 1 <= limit)",
    "return -(float(count))",
}


def changed_lines(mutation):
    before, after = SNIPPET.splitlines(), mutation.apply(SNIPPET).splitlines()
    assert len(before) == len(after)
    return [new.strip() for old, new in zip(before, after, strict=True) if old != new]


def test_all_mutations_of_a_text_and_no_others():
    found = [changed_lines(mutation) for mutation in mutations(SNIPPET)]
    assert all(len(lines) == 1 for lines in found)
    one_space = [" ".join(lines[0].split()) for lines in found]
    assert sorted(one_space) == sorted(EXPECTED)


def test_mutants_are_python_and_mean_something_else():
    original = ast.dump(ast.parse(SNIPPET))
    for mutation in mutations(SNIPPET):
        assert ast.dump(ast.parse(mutation.apply(SNIPPET))) != original


def test_every_mutant_of_the_package_is_python():
    found = mutants.mutants_of(mutants.ROOT)
    assert len(found) > 1000
    assert {mutant.file.split("/")[0] for mutant in found} == set(mutants.MUTATED)
    for mutant in found[::7]:  # a seventh of them takes a second
        compile(mutant.mutation.apply(mutant.source), mutant.file, "exec")
        before, after = mutant.change
        assert before != after


def test_lines_that_hold_more_than_ascii_are_left_alone():
    # Python counts their columns in bytes, tokenize in letters.
    assert mutations("x = 1  # σ²\n") == []
    assert len(mutations("x = 1\n")) == 2


@pytest.mark.parametrize(
    ("file", "first", "among"),
    [
        (
            "engines/screening.py",
            "tests/methods/test_rules.py",
            "tests/engines/conformance_passes.py",
        ),
        ("methods/blocks.py", "tests/methods/test_rules.py", "tests/methods/test_methods.py"),
        ("core/loop.py", "tests/core/test_arrays.py", "tests/core/test_loop.py"),
        ("core/theory.py", "tests/core/test_arrays.py", "tests/paper/test_paper.py"),
    ],
)
def test_the_tests_of_a_file(file, first, among):
    found = mutants.tests_of(file)
    assert found[0] == first
    assert among in found
    assert len(found) == len(set(found))
    assert all((mutants.ROOT / test).is_file() for test in found)


def test_all_files_of_the_conformance_suite_are_run():
    there = (mutants.ROOT / "tests/engines").glob("conformance*.py")
    assert sorted(mutants.CONFORMANCE) == sorted(f"tests/engines/{path.name}" for path in there)


def test_one_file_alone_can_be_asked_for():
    only = mutants.ROOT / mutants.PACKAGE / "core" / "loop.py"
    assert {one.file for one in mutants.mutants_of(mutants.ROOT, str(only))} == {"core/loop.py"}
    folder = mutants.ROOT / mutants.PACKAGE / "methods"
    files = {one.file for one in mutants.mutants_of(mutants.ROOT, str(folder))}
    assert all(file.startswith("methods/") for file in files)
    assert "methods/sdca.py" in files


def test_files_said_to_make_no_kernels_make_none():
    package = mutants.ROOT / mutants.PACKAGE
    marks = ("@Kernel", "struct_methods(", "callable_in_kernels(", "@intrinsic", "register_jitable")
    for folder in mutants.MUTATED:
        for path in (package / folder).rglob("*.py"):
            file = path.relative_to(package).as_posix()
            text = Path(path).read_text()
            if mutants.NOT_COMPILED.match(file):
                assert not any(mark in text for mark in marks), file


def test_tables_name_files_that_are_there():
    package = mutants.ROOT / mutants.PACKAGE
    for start, entries in mutants.TESTS_OF.items():
        assert (package / start).exists(), start
        for entry in entries:
            assert (mutants.ROOT / entry).exists(), entry
    for file, _ in mutants.EQUIVALENT:
        assert (package / file).is_file(), file
