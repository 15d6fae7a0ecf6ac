"""Measure streamed training, and other solvers that read from files, on generated text in parts.

    python -m benchmarks.streamed --out docs/benchmarks/streamed.jsonl     6 GB against 300 MB,
                                                                           1.1 GB with the others
    python -m benchmarks.streamed quick                                    a trial

The page cache is dropped part by part, so that every read comes from the disk.  Each measurement is
one JSON object in the file; `python -m benchmarks.run report` writes the page from it.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import batchsvm
from batchsvm.engines.streamed import part_reader
from benchmarks.sets import OUTPUT
from benchmarks.streamed.parts import write_parts
from benchmarks.streamed.peers import PEERS, Task, drop
from experiments.machine import machine, versions

LAM, TOL = 1e-5, 1e-3
COLUMNS = 200_000


class Size(NamedTuple):
    files: int
    rows: int  # per file
    max_memory: str
    with_peers: bool


SIZES = {
    "full": Size(110, 100_000, "300MB", False),
    "peers": Size(20, 100_000, "60MB", True),
    "quick": Size(20, 5_000, "24MB", True),
}


@contextmanager
def cold() -> Iterator[None]:
    """Drop what was read from the page cache: the next read comes from the disk."""
    load = part_reader.load

    def cold_load(packed: Any, p: int, *arguments: Any, **options: Any) -> Any:
        found = load(packed, p, *arguments, **options)
        for name in packed.types():
            drop(packed.path(p, name))
        return found

    part_reader.load = cold_load
    try:
        yield
    finally:
        part_reader.load = load


class AnonymousMemory:
    """The peak of this process's anonymous resident memory, looked at ten times per second."""

    def __enter__(self) -> AnonymousMemory:
        self.before = self.peak = anonymous_bytes()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ends.wait(0.1):
            self.peak = max(self.peak, anonymous_bytes())

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    began = perf_counter()
    found = work()
    return perf_counter() - began, found


def ours(paths: list[Path], max_memory: str) -> dict[str, Any]:
    """The first pass, a fit with cold and one with warm reads, and reading alone."""
    source = [str(path) for path in paths]
    with AnonymousMemory() as memory:
        packing, data = seconds(lambda: batchsvm.place(source, max_memory=max_memory, n_jobs=1))
    with data:

        def fit() -> Any:
            return batchsvm.fit(data, lam=LAM, tol=TOL, random_state=0, warn=False)

        def read() -> None:
            for _ in data.visit(range(len(data.packed.parts))):
                pass

        first, _ = seconds(lambda: batchsvm.fit(data, lam=1.0, tol=0.5, random_state=0, warn=False))
        with cold():
            read()  # so that nothing is left of what was written
            reading, _ = seconds(read)
            before = data.reads
            with AnonymousMemory() as trained:
                taken, solution = seconds(fit)
            reads = data.reads - before
        warm, _ = seconds(fit)
        warm, _ = seconds(fit)
        packed = sum(data.packed.loaded_bytes(p) for p in range(len(data.packed.parts)))
        certificate = solution.certificate
        return {
            "rows": data.n, "columns": data.d, "nonzeros": data.nonzeros, "packed_bytes": packed,
            "parts": len(data.packed.parts), "max_memory": max_memory, "lam": LAM, "tol": TOL,
            "first_pass_seconds": packing, "compile_seconds": first, "seconds": taken,
            "reads": reads, "read_seconds": reading, "warm_seconds": warm,
            "gap": certificate.relative_gap, "primal": certificate.primal,
            "status": solution.status.name, "packing_peak_bytes": memory.peak - memory.before,
            "peak_bytes": trained.peak - memory.before,
        }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streamed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("sizes", nargs="*", metavar="SIZE", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--out", type=Path, help="the file that measurements are appended to")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a peer")
    options = parser.parse_args(arguments)
    about = {"machine": machine(), "versions": versions(), "date": date.today().isoformat()}
    for name in options.sizes or ["full", "peers"]:
        size = SIZES[name]
        folder = OUTPUT / "streamed" / f"{size.rows}x{COLUMNS}"
        paths = write_parts(folder, size.files, size.rows, COLUMNS)
        mine = ours(paths, size.max_memory)
        keep(options.out, {"size": name, "name": "batchsvm"} | mine | about)
        if size.with_peers:
            task = Task(paths, LAM, mine["primal"] * (1 + TOL), options.limit)
            for peer, solve in PEERS.items():
                found = solve(task, folder) | {"goal": task.goal}
                keep(options.out, {"size": name, "name": peer} | found | about)
    return 0


def keep(out: Path | None, row: dict[str, Any]) -> None:
    print({name: value for name, value in row.items() if name not in ("versions", "machine")})
    if out is not None:
        with open(out, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    sys.exit(main())
