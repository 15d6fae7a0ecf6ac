"""Do the tests notice small mistakes?  Make some at random, and see.

    python tests/tools/mutants.py [--count 60] [--seed 0] [--jobs 2] [--only PATH] [--limit 900]

A mutant is the source with one line changed: an operator flipped, 0 or 1 moved by one, `min` for
`max`, `and` for `or`, a `not` dropped, True for False, a returned value negated.  Each is made in
a copy of the tree in a temporary folder, where the tests that belong to its file run until one
fails.  What survives is printed with its line: a test is missing, or the mutant does what the
original does, and belongs into EQUIVALENT with the reason.

A mutant that takes longer than the limit (in seconds) counts as killed, and is listed as such.
Tests that fail without any mutant are left out, and named.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "src/batchsvm"
MUTATED = ("core", "methods", "engines")
COPIED = ("src", "tests", "pyproject.toml", "README.md")

# Which tests belong to a file: those of the first entry that its path begins with, in this order.
CONFORMANCE = [
    f"tests/engines/conformance{part}.py"
    for part in ("", "_ends", "_newton", "_passes", "_trainer", "_training")
]
CORE = ["tests/core", *CONFORMANCE]
ENGINES = [
    "tests/methods/test_rules.py", "tests/engines/test_screening.py",
    "tests/engines/test_visit_order_direct.py", "tests/engines/test_merged_step.py",
    *CONFORMANCE, "tests/engines", "tests/methods",
    "tests/core/test_loop.py", "tests/core/test_certificate.py",
]  # fmt: skip
TESTS_OF = {
    "core/convergence_warning.py": [*CORE, "tests/estimators/test_estimators_errors.py"],
    "core/layout.py": [*CORE, "tests/engines"],
    "core/one_vs_rest.py": [*CORE, "tests/estimators/test_estimators.py"],
    "core/path.py": [*CORE, "tests/estimators/test_choosing_lam.py", "tests/displays"],
    "core/planning.py": [*CORE, "tests/paper", "tests/displays"],
    "core/progress.py": [*CORE, "tests/estimators/test_estimators_watch.py"],
    "core/solution.py": [*CORE, "tests/models"],
    "core/theory.py": [*CORE, "tests/paper"],
    "core/tuning.py": [*CORE, "tests/engines"],
    "core/": CORE,
    "engines/cpu/online.py": ["tests/estimators/test_estimators_stream.py"],
    "methods/": ENGINES,
    "engines/": ENGINES,
}
# Files that no kernel is compiled from: their mutants use the kernels of the original.
NOT_COMPILED = re.compile(
    r"core/(?!vectors)|engines/reference/|engines/cpu/(dataset|problem|steppers|read)\.py"
    r"|engines/(__init__|protocol|placing|host_dataset|host_problem|state|trainer)\.py"
    r"|engines/(targets|balance)\.py"
)
# Mutants that do what the original does: (file, new line) and the reason.
EQUIVALENT = {
    ("core/many.py", 'if data.problems_at_once >= problem.k > 0 and intercept.kind != "free":'):
        "one problem is trained in the same way by either branch",
    ("engines/cpu/batches.py",
     "if first > ahead < last:  # fetched by another, it would have to come back"):
        "what is prefetched changes the time alone",
    ("engines/cpu/dataset.py", "part /= np.where(norms > 0, norms, 2.0)[:, np.newaxis]"):
        "rows of norm 0 are zero, whatever they are divided by",
    ("engines/cpu/problem.py",
     "unit = 1.0 / weight if weight > 0.0 else -1.0  # part of the rows may weigh nothing"):
        "rows that weigh nothing take no steps",
    ("engines/cpu/steppers.py",
     "per_iteration = 2 + state.batch_size * bound.rows.nonzeros // bound.n"):
        "how much one call does changes when Ctrl-C is heard alone",
    ("engines/reference/group.py", "trainer.keep_primal(W[:, [k]], which[k : k + 2])"):
        "a trainer of one problem looks at the first entry alone",
    ("engines/reference/steppers.py",
     "if not sampler.epoch_is_over(start + A.size, sampler.visited[-1]):"):
        "an array of one number",
    ("engines/screening.py", "SEEN, GAP, VIOLATION, RISE, PROMISE, KEPT = -1, 1, 2, 3, 4, 5"):
        "the last column of the sums is as free as the first",
}  # fmt: skip


PLAIN = ("-p", "no:cacheprovider", "-p", "no:benchmark")  # of pytest


class Mutant(NamedTuple):
    """A mutation of a file, whose path below the package this is, and whose text before."""

    file: str
    mutation: Mutation
    source: str

    @property
    def change(self) -> tuple[str, str]:
        """The line before and after."""
        texts = self.source, self.mutation.apply(self.source)
        before, after = (text.splitlines()[self.mutation.line - 1].strip() for text in texts)
        return before, after


# Which of them are tried, and by which tests.


def mutants_of(tree: Path, only: str | None = None) -> list[Mutant]:
    found, asked = [], (ROOT / PACKAGE if only is None else Path(only).resolve())
    for path in sorted(
        path for folder in MUTATED for path in (tree / PACKAGE / folder).rglob("*.py")
    ):
        file = path.relative_to(tree / PACKAGE).as_posix()
        if (ROOT / PACKAGE / file).is_relative_to(asked):
            source = path.read_text()
            found += [Mutant(file, mutation, source) for mutation in mutations(source)]
    return found


def tests_of(file: str) -> list[str]:
    """The test files that belong to a source file."""
    found, entries = [], next(TESTS_OF[start] for start in TESTS_OF if file.startswith(start))
    for entry in entries:
        path = ROOT / entry
        files = [path] if path.is_file() else sorted(path.glob("test_*.py"))
        found += [test.relative_to(ROOT).as_posix() for test in files]
    return list(dict.fromkeys(found))


def _name_in_cache(folder: Path) -> str:
    """The name that Numba gives to what it compiles from a folder, by where that lies."""
    return f"{folder.name}_{hashlib.sha1(str(folder).encode()).hexdigest()}"


class Bench:
    """A copy of the tree to work on, and the kernels compiled from it."""

    def __init__(self, folder: Path, original: Path) -> None:
        self.tree, self.cache, self.kept = folder / "tree", folder / "cache", folder / "kept"
        self.tree.mkdir(parents=True)
        for name in COPIED:
            copy = shutil.copytree if (original / name).is_dir() else shutil.copy2
            copy(original / name, self.tree / name)

    def python(self, *arguments: str, limit: float | None = None) -> tuple[int | None, str]:
        """Run Python in the tree: its exit status, None if the time was up, and its output."""
        path = os.pathsep.join([f"{self.tree}/src", os.environ.get("PYTHONPATH", "")])
        own = {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(self.cache)}
        process = subprocess.Popen(
            [sys.executable, "-B", *arguments], cwd=self.tree, env=os.environ | own, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def failing(self, tests: list[str], jobs: int) -> set[str]:
        """The tests that fail without any mutant; the kernels that they compile are kept."""
        options = ["-q", "-n", str(jobs), *PLAIN]
        status, output = self.python("-m", "pytest", *options, *tests)
        if status not in (0, 1):
            raise SystemExit(f"the tests do not run without mutants:\n{output[-2000:]}")
        self._cache_folder().rename(self.kept)
        return set(re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE))

    def keep_kernels_of(self, other: Bench) -> None:
        """Use the kernels of another copy, whose files have the same times as those here."""
        for folder in (
            path for path in other.tree.rglob("*") if path.is_dir() and self is not other
        ):
            here = self.tree / folder.relative_to(other.tree)
            found = other.kept / _name_in_cache(folder)
            if found.is_dir():
                shutil.copytree(found, self.kept / _name_in_cache(here), copy_function=os.link)

    def try_out(self, mutant: Mutant, left_out: set[str], limit: float) -> tuple[str, float]:
        """Whether the mutant is killed, and after how many seconds."""
        began, path = time.monotonic(), self.tree / PACKAGE / mutant.file
        shutil.rmtree(self.cache, ignore_errors=True)
        original = path.rename(path.with_suffix(".original"))
        path.write_text(mutant.mutation.apply(mutant.source))
        try:
            if NOT_COMPILED.match(mutant.file):
                folder = self._cache_folder()
                shutil.copytree(self.kept, folder, copy_function=os.link, dirs_exist_ok=True)
            options = ["-x", "-q", *PLAIN]
            options += [f"--deselect={test}" for test in sorted(left_out)]
            status, _ = self.python("-m", "pytest", *options, *tests_of(mutant.file), limit=limit)
        finally:
            original.replace(path)  # with its old time, by which kernels are known
        verdict = {None: "killed by time", 0: "SURVIVED"}.get(status, "killed")
        return verdict, time.monotonic() - began

    def _cache_folder(self) -> Path:
        """Where the kernels of the tree as it is now belong."""
        code = "from batchsvm.compiled import cache_folder; print(cache_folder())"
        status, output = self.python("-c", code)
        return Path(output.splitlines()[-1]) if status == 0 else self.cache


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name, value in (("count", 60), ("seed", 0), ("jobs", 2), ("limit", 900)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{value} if not given")
    parser.add_argument("--only", help="a file or a folder of the source")
    asked = parser.parse_args()
    verdicts: list[str] = []
    benches: queue.Queue[Bench] = queue.Queue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as threads:
        first = Bench(Path(folder, "0"), ROOT)
        all_of_them = [
            first,
            *(Bench(Path(folder, f"{k}"), first.tree) for k in range(1, asked.jobs)),
        ]
        mutants = mutants_of(first.tree, asked.only)
        chosen = random.Random(asked.seed).sample(mutants, min(asked.count, len(mutants)))
        print(f"{len(chosen)} of {len(mutants)} mutants", flush=True)
        tests = list(dict.fromkeys(test for one in chosen for test in tests_of(one.file)))
        left_out = first.failing(tests, asked.jobs)
        for test in sorted(left_out):
            print(f"left out, since it fails without mutants: {test}", flush=True)
        for bench in all_of_them:
            bench.keep_kernels_of(first)
            benches.put(bench)

        def judge(mutant: Mutant) -> None:
            before, after = mutant.change
            verdict, why = "equivalent", EQUIVALENT.get((mutant.file, after), "")
            if not why:
                bench = benches.get()
                verdict, seconds = bench.try_out(mutant, left_out, asked.limit)
                benches.put(bench)
                why = f"{seconds:.0f} s"
            verdicts.append(verdict)
            shown = "" if verdict == "killed" else f"\n    - {before}\n    + {after}"
            print(f"{verdict:14}  {mutant.file}:{mutant.mutation.line}  ({why}){shown}", flush=True)

        list(threads.map(judge, chosen))
    survived, equivalent = verdicts.count("SURVIVED"), verdicts.count("equivalent")
    timed, killed = verdicts.count("killed by time"), len(verdicts) - survived - equivalent
    print(f"{killed} killed ({timed} by time), {survived} survived, {equivalent} equivalent")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
