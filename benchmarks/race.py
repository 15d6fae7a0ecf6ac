"""The race: all solvers along their settings and then to each goal, taking turns.

On each set, first everyone goes from loose to tight settings, one step at a time, five
seeds a step, the solvers in turn and in a new order each time; this gives the curves and
says which setting is the loosest that reaches a goal.  Then everyone runs to each goal at
that setting, in turn again; this gives the times and the ratios.  Every round of these has
processes of its own, since where one happens to lie in memory can make it half as fast; only
peers that compile for half a minute in each process keep theirs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from math import nan
from random import Random

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from benchmarks.client import Client, SolverError, TooSlowError
from benchmarks.judging import GOALS, Entry, along, entry_of, is_left_behind, is_over, loosest
from benchmarks.peers.registry import Peer
from benchmarks.sets import Set, load, objective, optimum

PAUSE = 0.02  # seconds after a fit, in which threads that spin while they wait go to sleep
Fit = Callable[[Entry, float, int, float | str], dict]


def entries_of(peers: list[Peer], threads: list[int]) -> list[Entry]:
    """Each solver with each thread count that it takes."""
    return [
        Entry(peer.name, count)
        for peer in peers
        for count in (threads if peer.threaded else [1])
        if count <= (os.cpu_count() or 1)
    ]


def climb(entries: list[Entry], knobs: dict[str, tuple[float, ...]], rounds: int, fit: Fit):
    """Rows of everyone's way along the settings, in turn.

    An entry stops when it has reached the last goal with every seed, when it is left behind,
    or with the first fit that fails or takes too long.
    """
    rows: list[dict] = []
    running, order = list(entries), Random(0)
    for step in range(max(len(steps) for steps in knobs.values())):
        running = [entry for entry in running if step < len(knobs[entry.solver])]
        for seed in range(rounds):
            for entry in order.sample(running, len(running)):
                rows.append(fit(entry, knobs[entry.solver][step], seed, ""))
                if rows[-1]["outcome"] != "fitted":
                    running.remove(entry)
        latest = {entry: along(rows, entry)[knobs[entry.solver][step]] for entry in running}
        running = [
            entry
            for entry, fits in latest.items()
            if not is_over(fits, rounds) and not is_left_behind(rows, fits)
        ]
    return rows


def finals(
    entries: list[Entry], rows: list[dict], rounds: int, fit: Fit, renew: Callable[[], None]
) -> list[dict]:
    """Rows of everyone at the loosest setting that reaches a goal, for each goal, in turn."""
    raced, order = [], Random(1)
    for seed in range(rounds):
        renew()
        for goal in GOALS:
            knobs = {entry: loosest(rows, entry, goal, rounds) for entry in entries}
            ready = [entry for entry in entries if knobs[entry] is not None]
            turns = order.sample(ready, len(ready))
            raced += [fit(entry, knobs[entry], seed, goal) for entry in turns]
    return raced


def race(
    names: list[str], peers: list[Peer], threads: list[int], rounds: int, limit: float,
    console: Console, settled: list[dict] = (),
) -> Iterator[list[dict]]:  # fmt: skip
    """The rows of one set after another, so that a long run can be kept as it goes.

    `settled` are rows of an earlier race: who has some on a set keeps its way along the
    settings there, and is timed again to the goals alone.
    """
    entries = entries_of(peers, threads)
    knobs = {peer.name: peer.knobs for peer in peers}
    columns = (
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[last]}"),
    )  # fmt: skip
    with ExitStack() as stack:
        # BLAS threads of this process must not spin while others are timed.
        stack.enter_context(threadpool_limits(1))
        clients = {peer.name: stack.enter_context(Client(peer)) for peer in peers}
        # Drawn between the fits only: a thread that draws during them would disturb.
        progress = stack.enter_context(Progress(*columns, console=console, auto_refresh=False))
        for name in names:
            task = progress.add_task(f"{name}: optimum", total=None, last="")
            data = load(name)
            best = optimum(data)

            def show(row: dict, task: TaskID = task) -> None:
                last = f"{row['seconds']:.3f} s at {row['suboptimality']:.1e}"
                progress.update(task, advance=1, last=f"{entry_of(row)}: {last}", refresh=True)

            fit = partial(timed_fit, clients, data, best, limit, show)
            progress.update(task, description=f"{name}: along the settings", refresh=True)
            known = [row for row in settled if row["set"] == name and not row["goal"]]
            left = [entry for entry in entries if entry not in {entry_of(row) for row in known}]
            way = known + climb(left, knobs, rounds, fit)
            progress.update(task, description=f"{name}: to the goals", refresh=True)
            yield way + finals(entries, way, rounds, fit, partial(renew, clients))
            progress.update(task, description=name, total=1, completed=1, refresh=True)


def renew(clients: dict[str, Client]) -> None:
    """New processes for the next round, but for peers that compile for half a minute in each."""
    for client in clients.values():
        if client.peer.ours or not client.peer.compiles:
            client.close()


def timed_fit(
    clients: dict[str, Client], data: Set, best: float, limit: float, show: Callable,
    entry: Entry, knob: float, seed: int, goal: float | str,
) -> dict:  # fmt: skip
    row = measure(clients[entry.solver], data, best, entry, knob, seed, limit)
    show(row)
    return {**row, "goal": goal}


def measure(
    client: Client, data: Set, best: float, entry: Entry, knob: float, seed: int, limit: float
) -> dict:
    """One fit as a row; a failure is a row too.

    A fit that takes too long is tried once more: threads that spin can stall for seconds
    when another process takes a core for a moment.
    """
    row = {
        "set": data.name, "solver": entry.solver, "threads": entry.threads, "knob": knob,
        "seed": seed, "seconds": nan, "suboptimality": nan,
    }  # fmt: skip
    for _ in range(2):
        try:
            w, answer = client.fit(data, knob, entry.threads, seed, limit)
        except TooSlowError:
            row |= {"seconds": limit, "outcome": "too slow"}
        except SolverError as error:
            return {**row, "outcome": f"failed: {error}"}
        else:
            time.sleep(PAUSE)
            row |= {"seconds": answer["seconds"], "suboptimality": objective(data, w) - best}
            return {**row, "outcome": "fitted"}
    return row
