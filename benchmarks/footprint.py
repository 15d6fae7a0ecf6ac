"""What a solver costs beside its time: memory, and the wait before the first result."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks.cells import Cell, cell_of
from benchmarks.client import Client, SolverError, TooSlowError
from benchmarks.judging import GOALS, by_cell, entries_in, loosest
from benchmarks.peers.registry import BY_NAME, Peer
from benchmarks.problems import problem_of


def memory(rows: list[dict], limit: float, console: Console) -> list[dict]:
    """The peak of one fit to the first goal above what the process held before it, for the hinge
    without an intercept.

    Each in a fresh process that has read the set and has fitted a part of it.  A solver's
    copy of the data in a format of its own counts.
    """
    found = []
    of = by_cell(row for row in rows if cell_of(row) == Cell(row["set"]))
    pairs = [(cell, entry) for cell, mine in of.items() for entry in entries_in(mine)]
    for cell, entry in track(pairs, "Memory", console=console, transient=True):
        problem, fit = problem_of(cell), loosest(of[cell], entry, GOALS[0])
        if fit is None:
            continue
        with Client(BY_NAME[entry.solver]) as client:
            try:
                _, answer = client.fit(problem, fit["knob"], entry.threads, 0, 6 * limit, peak=True)
            except (TooSlowError, SolverError) as error:
                console.print(f"memory of {entry} on {cell}: {error}")
                continue
        n, d = problem.data.X.shape
        found.append({
            "set": cell.set, "solver": entry.solver, "threads": entry.threads,
            "peak_bytes": answer["peak"], "data_bytes": problem.data.data_bytes, "n": n, "d": d,
        })  # fmt: skip
    return found


def first_fit(name: str, peers: list[Peer], rounds: int, console: Console) -> list[dict]:
    """Seconds to import a solver and to make the first fit of a new process.

    Solvers that compile are measured with an empty cache of compiled code and then with
    the one that this run has left behind.
    """
    found, problem = [], problem_of(Cell(name))
    peers = [peer for peer in peers if peer.takes(problem.cell, problem.data.X.shape[1])]
    for peer in track(peers, "First fit", console=console, transient=True):
        for seed in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                for cache in ("cold", "warm") if peer.compiles else ("none",):
                    with Client(peer, cache=Path(folder)) as client:
                        knob = peer.knobs[len(peer.knobs) // 3]
                        _, answer = client.fit(problem, knob, 1, seed, cold=True)
                        found.append({
                            "set": name, "solver": peer.name, "cache": cache, "seed": seed,
                            "import_seconds": client.import_seconds,
                            "fit_seconds": answer["seconds"],
                        })  # fmt: skip
    return found
