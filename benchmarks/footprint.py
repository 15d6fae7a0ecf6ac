"""What a solver costs beside its time: memory, and the wait before the first result."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks.client import Client, SolverError, TooSlowError
from benchmarks.judging import GOALS, Entry, loosest
from benchmarks.peers.registry import BY_NAME, Peer
from benchmarks.sets import load


def memory(rows: list[dict], rounds: int, limit: float, console: Console) -> list[dict]:
    """The peak of one fit to the first goal above what the process held before it.

    Each in a fresh process that has read the set and has fitted a part of it.  A solver's
    copy of the data in a format of its own counts.
    """
    found = []
    pairs = list(dict.fromkeys((row["set"], row["solver"], row["threads"]) for row in rows))
    for name, solver, threads in track(pairs, "Memory", console=console, transient=True):
        entry, data = Entry(solver, threads), load(name)
        knob = loosest([r for r in rows if r["set"] == name], entry, GOALS[0], rounds)
        if knob is None:
            continue
        with Client(BY_NAME[solver]) as client:
            try:
                peak = client.fit(data, knob, threads, 0, 6 * limit, peak=True)[1]["peak"]
            except (TooSlowError, SolverError) as error:
                console.print(f"memory of {entry} on {name}: {error}")
                continue
        n, d = data.X.shape
        found.append({
            "set": name, "solver": solver, "threads": threads, "peak_bytes": peak,
            "data_bytes": data.X.data.nbytes + data.X.indices.nbytes + data.X.indptr.nbytes,
            "n": n, "d": d,
        })  # fmt: skip
    return found


def first_fit(name: str, peers: list[Peer], rounds: int, console: Console) -> list[dict]:
    """Seconds to import a solver and to make the first fit of a new process.

    Solvers that compile are measured with an empty cache of compiled code and then with
    the one that this run has left behind.
    """
    found, data = [], load(name)
    for peer in track(peers, "First fit", console=console, transient=True):
        for seed in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                for cache in ("cold", "warm") if peer.compiles else ("none",):
                    with Client(peer, cache=Path(folder)) as client:
                        knob = peer.knobs[len(peer.knobs) // 3]
                        _, answer = client.fit(data, knob, 1, seed, cold=True)
                        found.append({
                            "set": name, "solver": peer.name, "cache": cache, "seed": seed,
                            "import_seconds": client.import_seconds,
                            "fit_seconds": answer["seconds"],
                        })  # fmt: skip
    return found
