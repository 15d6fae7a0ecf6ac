"""The race: all solvers along their settings, then the fastest to each goal, taking turns.

A cell is a data set, a loss and an intercept.  First every solver that has the cell's objective
goes from loose to tight settings, with one seed.  This screening gives the curves, and the two
fastest peers to each goal.  They and ours are the finalists.  Each finalist gets the loosest
setting that reaches the goal with every seed, and runs to the goal at that setting, in turn; this
gives the times and the ratios.  Every round of these has processes of its own, since where one
happens to lie in memory can make it half as fast; only peers that compile for half a minute in each
process keep theirs.

Every fit is kept in a journal as soon as it is made, and none is made twice, except for a round
that was cut short: all of it is run again, so that fits that are compared are of the same minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import nan
from random import Random

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from benchmarks.cells import Cell
from benchmarks.client import Client, SolverError, TooSlowError
from benchmarks.journal import Journal
from benchmarks.judging import (
    GOALS,
    OURS,
    Entry,
    along,
    finalists,
    is_left_behind,
    loosest,
    reaches,
)
from benchmarks.peers.registry import Peer
from benchmarks.problems import Problem, objective, optimum, problem_of
from benchmarks.sets import Set

PAUSE = 0.02  # seconds after a fit, in which threads that spin while they wait go to sleep
Fit = Callable[..., dict]  # of an entry, a setting, a seed and a goal


@dataclass(frozen=True)
class Terms:
    """How a race is run."""

    threads: list[int]
    rounds: int
    limit: float  # seconds of a fit
    thin: int = 1  # every so manieth setting of a solver is tried


def entries_of(peers: list[Peer], cell: Cell, data: Set, threads: list[int]) -> list[Entry]:
    """Each solver that solves the problem of the cell, with each thread count that it takes."""
    return [
        Entry(peer.name, count)
        for peer in peers
        if peer.takes(cell, data.X.shape[1])
        for count in (threads if peer.has_threads(data.dense) else [1])
        if count <= (os.cpu_count() or 1)
    ]


def settings_of(peer: Peer, thin: int) -> tuple[float, ...]:
    """The settings of a solver, the tightest among them."""
    return tuple(reversed(peer.knobs[::-1][::thin]))


def climb(entries: list[Entry], knobs: dict[str, tuple[float, ...]], fit: Fit) -> list[dict]:
    """Rows of everyone's way along the settings.

    The next fit is that of the entry that has taken the least time so far: those that are fast
    arrive first, and those that are slow need not go all the way.  An entry stops when it has
    reached the last goal, when it is left behind twice in a row, since a single slow fit may be an
    accident, or with the first fit that fails or takes too long.
    """
    rows: list[dict] = []
    spent = dict.fromkeys(Random(0).sample(entries, len(entries)), 0.0)
    left = {entry: list(knobs[entry.solver]) for entry in entries}
    while spent:
        entry = min(spent, key=spent.__getitem__)
        rows.append(fit(entry, left[entry].pop(0), 0, ""))
        spent[entry] += rows[-1]["seconds"]
        if not left[entry] or not goes_on(rows, entry):
            del spent[entry]
    return rows


def goes_on(rows: list[dict], entry: Entry) -> bool:
    fits = [fit for [fit] in along(rows, entry).values()][-2:]
    done = fits[-1]["outcome"] != "fitted" or reaches(fits[-1], min(GOALS))
    behind = len(fits) == 2 and all(is_left_behind(rows, fit) for fit in fits)
    return not done and not behind


def settle(
    entry: Entry, goal: float, knobs: tuple[float, ...], rounds: int, fit: Fit
) -> float | None:
    """The loosest setting that reaches the goal with every seed, if there is one."""
    for knob in knobs:
        for seed in range(rounds):
            row = fit(entry, knob, seed, "")
            if row["outcome"] != "fitted":
                return None
            if not reaches(row, goal):
                break
        else:
            return knob
    return None


def finals(
    ready: dict[float, dict[Entry, float]], rounds: int, fit: Fit, renew: Callable[[], None]
) -> None:
    """Rounds of the finalists at their settings, which `ready` has for each goal, in turn."""
    order = Random(1)
    for seed in range(rounds):
        turns = [
            (entry, knobs[entry], seed, goal)
            for goal, knobs in ready.items()
            for entry in order.sample(list(knobs), len(knobs))
        ]
        if not all(fit(*turn, ask=True) for turn in turns):
            renew()
            for turn in turns:
                fit(*turn, again=True)


def race(
    cells: list[Cell], peers: list[Peer], terms: Terms, journal: Journal, console: Console
) -> Iterator[Cell]:
    """Race cell after cell; each is yielded when it is complete."""
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
        for cell in cells:
            task = progress.add_task(f"{cell}: optimum", total=None, last="")
            show = partial(progress.update, task, refresh=True)
            race_cell(cell, clients, terms, journal, show)
            show(description=str(cell), total=1, completed=1)
            yield cell


def race_cell(
    cell: Cell, clients: dict[str, Client], terms: Terms, journal: Journal, show: Callable
) -> None:
    problem = problem_of(cell)
    best = optimum(problem)
    peers = [client.peer for client in clients.values()]
    entries = entries_of(peers, cell, problem.data, terms.threads)
    knobs = {peer.name: settings_of(peer, terms.thin) for peer in peers}

    def fit(
        entry: Entry, knob: float, seed: int, goal: float | str,
        ask: bool = False, again: bool = False,
    ) -> dict:  # fmt: skip
        row = journal.known(cell, entry, knob, seed, goal)
        if ask or (row and not again):
            return row
        client = clients[entry.solver]
        row = journal.add(
            lambda: {**measure(client, problem, best, entry, knob, seed, terms.limit), "goal": goal}
        )
        show(advance=1, last=f"{entry}: {row['seconds']:.3f} s at {row['suboptimality']:.1e}")
        return row

    show(description=f"{cell}: along the settings")
    way = climb(entries, knobs, fit)
    show(description=f"{cell}: settings of the finalists")
    ready = {}
    for goal in GOALS:
        ours = [e for e in entries if e.solver == OURS and loosest(way, e, goal)]
        chosen = {
            entry: settle(entry, goal, knobs[entry.solver], terms.rounds, fit)
            for entry in [*ours, *finalists(way, goal)]
        }
        ready[goal] = {entry: knob for entry, knob in chosen.items() if knob is not None}
    show(description=f"{cell}: to the goals")
    names = {entry.solver for knobs in ready.values() for entry in knobs}
    finals(ready, terms.rounds, fit, partial(renew, [clients[name] for name in names]))


def renew(clients: list[Client]) -> None:
    """New processes for the next round, but for peers that compile for half a minute in each."""
    for client in clients:
        if client.peer.ours or not client.peer.compiles:
            client.close()


def measure(
    client: Client, problem: Problem, best: float, entry: Entry, knob: float, seed: int,
    limit: float,
) -> dict:  # fmt: skip
    """One fit as a row; a failure is a row too.

    A fit that takes too long is tried once more: threads that spin can stall for seconds
    when another process takes a core for a moment.
    """
    row = {
        **problem.cell._asdict(), "solver": entry.solver, "threads": entry.threads, "knob": knob,
        "seed": seed, "seconds": nan, "suboptimality": nan, "outcome": "",
    }  # fmt: skip
    for _ in range(2):
        try:
            point, answer = client.fit(problem, knob, entry.threads, seed, limit)
        except TooSlowError:
            row |= {"seconds": limit, "outcome": "too slow"}
        except SolverError as error:
            return {**row, "outcome": f"failed: {error}"}
        else:
            time.sleep(PAUSE)
            above = objective(problem, point) / best - 1
            return {
                **row, "seconds": answer["seconds"], "suboptimality": above, "outcome": "fitted",
            }  # fmt: skip
    return row
