"""Run the experiments and write the report.

    python -m experiments.run            everything, on the sets of BATCHSVM_DATA
    python -m experiments.run --quick    small sets that need no download, under two minutes
    python -m experiments.run --missing  only what the last report does not have

Finished cells are kept in `reproduce-output/`, so that a run that was interrupted goes on
where it stopped.  The full report goes to `docs/reproduction/`, the quick one to
`reproduce-output/quick/`.  With `--missing`, what the tables of the last report have is taken from
them, whatever code measured it, and the report says which code measured what.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from time import process_time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    track,
)

from experiments import sets
from experiments.cells import FIGURE_1, PAPER, Cell, iterations_to_accuracy, trajectory
from experiments.clock import CLOCKED, seconds_an_iteration
from experiments.machine import fingerprint, machine, versions
from experiments.published import published
from experiments.report import write_report

OUTPUT = Path("reproduce-output")
LOSSES_BEYOND = ("logistic", "smoothed_hinge")


@dataclass(frozen=True)
class Study:
    """Which sets, batch sizes and seeds, and which variations of what."""

    sets: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    largest_b: int = 16384
    # The Gram matrices of an epoch have n b entries, so that large b take long.
    largest_gram_b: int = 2048
    less_gram: dict[str, int] = field(default_factory=dict)  # the largest b of gram on these sets
    slow_gram_b: int = 512  # from here on gram has fewer seeds
    slow_gram_seeds: tuple[int, ...] = (0, 1, 2)
    max_epochs: float = 100.0
    least_iterations: int = 1400
    averaged: bool = True
    figure2: dict[str, tuple[int, int]] = field(default_factory=dict)
    variation_sets: tuple[str, ...] = ()
    variation_sizes: tuple[int, ...] = (64, 1024, 4096)
    loss_sizes: tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 4096)
    clock_threads: tuple[int, ...] = (1, 2)  # wall-clock times are measured on so many
    planted: str = ""  # a variant that takes the place of the safe method


FULL = Study(
    sets=tuple(sets.FULL),
    figure2={"news20": (64, 1024), "arxiv": (64, 4096)},
    variation_sets=("rcv1", "arxiv"),
    less_gram={"cov": 1024, "news20": 1024},
)
QUICK = Study(
    sets=tuple(sets.QUICK),
    figure2={"text-like": (16, 2048)},
    variation_sets=("text-like",),
    variation_sizes=(64, 1024),
    loss_sizes=(1, 64, 1024),
    max_epochs=40.0,
    least_iterations=300,
    averaged=False,
)


def batch_sizes(n: int, largest: int) -> list[int]:
    return [1 << k for k in range(n.bit_length()) if 1 << k <= min(n, largest)]


def cells_of(study: Study) -> list[Cell]:
    """All cells, set by set, so that a worker loads few sets."""
    cells = []
    for name in study.sets:
        n = sets.load(name).X.shape[0]
        sizes = batch_sizes(n, study.largest_b)
        for method in FIGURE_1:
            variant = study.planted if method == "safe" else ""
            averaged = study.averaged and method != "gram"  # which takes no averages
            cells += [
                Cell(
                    name, method, b, seed, averaged, "hinge", variant, study.max_epochs,
                    study.least_iterations,
                )
                for b in sizes
                for seed in (gram_seeds(study, name, b) if method == "gram" else study.seeds)
            ]  # fmt: skip
        if name in study.variation_sets:
            cells += variations(name, n, study)
    return list(dict.fromkeys(cells))


def gram_seeds(study: Study, name: str, b: int) -> tuple[int, ...]:
    """The seeds of gram on a set with batches of b; none where b is too large for it."""
    if b > study.less_gram.get(name, study.largest_gram_b):
        return ()
    few = b >= study.slow_gram_b
    return tuple(seed for seed in study.seeds if not few or seed in study.slow_gram_seeds)


def variations(name: str, n: int, study: Study) -> list[Cell]:
    """Beyond the paper: gamma, rounds, the literal step, permutations, sigma^2, losses."""
    wanted = [
        *(("aggressive", variant) for variant in (
            "gamma 0.5", "gamma 0.8", "gamma 0.99", "3 rounds", "literal step", "permutation",
            "crude sigma2", "sigma2 = 1",
        )),
        ("safe", "literal step"), ("safe", "permutation"), ("safe", "sigma2 = 1"),
        ("pegasos", "permutation"),
    ]  # fmt: skip
    limits = study.max_epochs, study.least_iterations
    cells = [
        Cell(name, method, b, seed, False, "hinge", variant, *limits)
        for method, variant in wanted
        for b in study.variation_sizes
        for seed in study.seeds
        if b <= n
    ]
    cells += [
        Cell(name, method, b, seed, False, loss, "", *limits)
        for loss in LOSSES_BEYOND
        for method in PAPER
        for b in study.loss_sizes
        for seed in study.seeds
        if b <= n
    ]
    return cells


def computed_as(cell: Cell) -> Cell:
    """The cell whose run is this one's too: with batches of one drawn as in the paper,
    the dual methods are one."""
    serial = cell.b == 1 and cell.method not in ("pegasos", "gram") and not cell.variant
    return replace(cell, method="safe") if serial else cell


def clock_tasks(study: Study) -> dict[str, tuple]:
    """Wall-clock times, at every other power of two."""
    return {
        f"clock/{name}/{method}/{b}": (seconds_an_iteration, (name, method, b, study.clock_threads))
        for name in study.sets
        for method in CLOCKED
        for b in batch_sizes(sets.load(name).X.shape[0], study.largest_b)[::2]
    }


class Kept:
    """Results by key, one JSON line each, appended as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.results: dict[str, dict] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                if line.endswith("}"):  # a line cut short by an interruption is done again
                    entry = json.loads(line)
                    self.results[entry["key"]] = entry

    def add(self, key: str, result: dict) -> None:
        self.results[key] = {"key": key, **result}
        with self.path.open("a") as file:
            file.write(json.dumps(self.results[key]) + "\n")


def run_all(tasks: dict[str, tuple], kept: Kept, console: Console, workers: int) -> None:
    """Do what is not kept yet: {key: (function, arguments)}."""
    todo = {key: task for key, task in tasks.items() if key not in kept.results}
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeRemainingColumn(), TextColumn("left"),
    )  # fmt: skip
    with (
        Progress(*columns, console=console) as progress,
        ProcessPoolExecutor(workers) as pool,
    ):
        bar = progress.add_task("Cells", total=len(tasks), completed=len(tasks) - len(todo))
        where = {"machine": machine(), "versions": versions()}
        order = list(todo)
        Random(0).shuffle(order)  # so that the time left can be told from the time taken
        futures = {pool.submit(timed, *todo[key]): key for key in order}
        try:
            for future in as_completed(futures):
                kept.add(futures[future], {**where, **future.result()})
                progress.advance(bar)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # the cells under way end, no other begins
            raise


def run_alone(tasks: dict[str, tuple], kept: Kept, console: Console) -> None:
    """As `run_all`, one after another, while nothing else runs."""
    where = {"machine": machine(), "versions": versions()}
    for key in track(tasks, "Wall-clock", console=console):
        if key not in kept.results:
            function, args = tasks[key]
            kept.add(key, {**where, **timed(function, args)})


def timed(function, args) -> dict[str, object]:
    """The result and the processor's seconds, which other processes do not count into."""
    began = process_time()
    result = function(*args)
    return {"seconds": round(process_time() - began, 3), "result": result}


def run_study(
    study: Study, output: Path, report: Path, console: Console, workers: int, missing: bool = False
) -> dict:
    """Run what is missing, write the report; returns the verdicts of the claims.

    What other code computed does not count, unless only what the last report in the folder
    `report` lacks is asked for (`missing`).
    """
    kept = Kept(output / f"cells-{fingerprint()}.jsonl")
    if missing:
        kept.results = {**published(report), **kept.results}
    cells = cells_of(study)
    tasks: dict[str, tuple] = {
        cell.key: (iterations_to_accuracy, (cell,)) for cell in map(computed_as, cells)
    }
    minutes_of = list(tasks)
    for name, sizes in study.figure2.items():
        for b in sizes:
            for method in PAPER:
                tasks[f"trajectory/{name}/{method}/{b}"] = (trajectory, (name, method, b))
    run_all(tasks, kept, console, workers)
    clock = clock_tasks(study)
    run_alone(clock, kept, console)
    rows = []
    for cell in cells:
        entry = {"code": fingerprint(), **kept.results[computed_as(cell).key]}
        where = {name: entry[name] for name in ("seconds", "machine", "versions", "code")}
        for averaging, result in entry["result"].items():
            rows.append({**asdict(cell), "averaging": averaging, **result, **where})
    paths = [
        row
        for key, entry in kept.results.items()
        if key in tasks and key.startswith("trajectory/")
        for row in entry["result"]
    ]
    times = []
    for key in clock:
        _, name, method, b = key.split("/")
        entry = kept.results[key]
        for jobs, seconds in entry["result"].items():
            times.append(
                {
                    "data": name, "method": method, "b": int(b), "threads": int(jobs),
                    "seconds": seconds, "machine": entry["machine"],
                }
            )  # fmt: skip
    minutes = sum(kept.results[key]["seconds"] for key in minutes_of) / 60
    return write_report(study, rows, paths, times, minutes, report)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sets, no downloads")
    parser.add_argument("--sets", nargs="*", help="only these sets of the full study")
    parser.add_argument("--missing", action="store_true", help="only what the last report lacks")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    arguments = parser.parse_args()
    if arguments.missing and arguments.sets:
        parser.error("--missing completes the whole report, so it must not be used with --sets")
    console = Console()
    study = QUICK if arguments.quick else FULL
    if arguments.sets:
        keep = set(arguments.sets)
        study = replace(
            study,
            sets=tuple(name for name in study.sets if name in keep),
            figure2={name: sizes for name, sizes in study.figure2.items() if name in keep},
            variation_sets=tuple(name for name in study.variation_sets if name in keep),
        )
    output = OUTPUT / "quick" if arguments.quick else OUTPUT
    report = output if arguments.quick else Path("docs") / "reproduction"
    verdicts = run_study(study, output, report, console, arguments.workers, arguments.missing)
    for claim, verdict in verdicts.items():
        console.print(f"{verdict:>15}  {claim}")
    console.print(f"\nReport: {report / 'README.md'}")


if __name__ == "__main__":
    main()
