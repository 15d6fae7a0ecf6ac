"""Measure, and write docs/benchmarks/.

    BATCHSVM_DATA=<folder> python -m benchmarks.run            everything
    BATCHSVM_DATA=<folder> python -m benchmarks.run --quick    a trial, to bench-output/quick/
    python -m benchmarks.run tiny growth                       some sections, others are kept
    python -m benchmarks.run report                            the page from the numbers again

    python -m benchmarks.run race --quick                      the race on tiny data
    python -m benchmarks.run race --only 'rcv1/*' 'dense/logistic/free'
    python -m benchmarks.run race --budget 3600                stops after an hour

A race that was interrupted continues where it was: every fit is kept in race.csv.  Remove that file
to begin anew.  Environments of the peers and parsed data are kept in bench-output/.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from math import inf
from pathlib import Path

from rich.console import Console

from benchmarks import footprint, growth, ourselves, report, results
from benchmarks.cells import SETS, SMALL_SETS, cells, select
from benchmarks.environments import UnavailableError, python_of, version_of
from benchmarks.journal import BudgetSpentError, Journal
from benchmarks.peers.registry import PEERS, Peer
from benchmarks.race import Terms, race
from benchmarks.sets import COLUMNS, LAM, OUTPUT, path_of
from experiments.machine import machine, versions

DOCS = Path("docs") / "benchmarks"
SECTIONS = (
    "race", "memory", "first_fit", "start_up", "certifying", "methods_memory", "tiny", "growth",
    "scaling", "report",
)  # fmt: skip


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="small data, one round: a trial")
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="cell",
        help="cells of the race by pattern, e.g. 'rcv1/*' or '*/logistic/free'",
    )  # fmt: skip
    parser.add_argument(
        "--sets", nargs="+", choices=COLUMNS, default=list(COLUMNS), help="of the other sections"
    )
    parser.add_argument("--solvers", nargs="+", choices=[p.name for p in PEERS], metavar="name")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--settled", action="store_true", help="peers keep the settings of the last race"
    )
    parser.add_argument("--limit", type=float, default=10.0, help="seconds a fit may take")
    parser.add_argument("--budget", type=float, default=inf, help="seconds the race may take")
    parser.add_argument("--nonzeros", type=float, default=3e8, help="of the last step of growth")
    parser.add_argument("--scaling-rows", type=int, default=200_000, help="of the generated set")
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args(arguments)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"there is no section {sorted(unknown)[0]!r}")
    options.sections = options.sections or list(SECTIONS)
    if options.quick:
        options.sets, options.rounds, options.limit = options.sets[:1], 1, min(3.0, options.limit)
        options.nonzeros, options.scaling_rows = min(1e7, options.nonzeros), 20_000
    try:
        options.cells = select(cells(SMALL_SETS if options.quick else SETS), options.only)
    except ValueError as error:
        parser.error(str(error))
    options.output = options.output or (OUTPUT / "quick" if options.quick else DOCS)
    options.threads = [count for count in options.threads if count <= (os.cpu_count() or 1)]
    return options


def available(names: list[str] | None, console: Console) -> tuple[list[Peer], list[dict]]:
    """The peers that can be installed, and a row on each of them and of the others."""
    peers, rows = [], []
    for peer in PEERS:
        if names and peer.name not in names:
            continue
        row = {"solver": peer.name, "version": "", "knob": peer.knob, "reason": "",
               "threads": "as many as asked for" if peer.threaded else "1"}  # fmt: skip
        with console.status(f"Environment of {peer.name}"):
            try:
                python_of(peer)
                row["version"] = f"{peer.package} {version_of(peer)}"
                peers.append(peer)
            except UnavailableError as error:
                row["reason"] = str(error)
                console.print(f"{peer.name} cannot be installed: {error}")
        rows.append(row)
    return peers, rows


def run_race(options: argparse.Namespace, peers: list[Peer], facts: dict, console: Console) -> None:
    """Race cell after cell, and write the page, also of a race that is interrupted."""
    journal = Journal(options.output, options.budget)
    how = f"Rounds: {options.rounds}; a fit may take {options.limit:g} s."
    if options.settled:
        journal.forget_ours(options.cells)
        how += " The peers' ways along their settings are those of an earlier race."
    terms = Terms(options.threads, options.rounds, options.limit, 10 if options.quick else 1)
    try:
        for cell in race(options.cells, peers, terms, journal, console):
            console.print(f"{cell}: {len(journal.of(cell))} fits")
    except BudgetSpentError:
        console.print("The budget is spent.  The same command continues the race.")
    finally:
        results.write_facts(options.output, "race", facts | {"how": how})
        report.write(options.output)


def scaling(options: argparse.Namespace) -> None:
    """This machine's lines; those of other machines, such as a larger one, are kept."""
    lines = options.output / "scaling.jsonl"
    kinds = [["--rows", str(options.scaling_rows)]]
    if not options.quick:
        kinds.append(["--text"])
    for name in ("cov", "news20"):
        if name in options.sets:
            path = str(path_of(name))
            kinds.append(["--npz", path, "--lam", str(LAM[name]), "--tol", "1e-5"])
    script, rounds = str(Path(__file__).parent / "scaling.py"), ["--rounds", str(options.rounds)]
    found = [
        subprocess.run(
            [sys.executable, script, *kind, *rounds], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        for kind in kinds
    ]
    others = [row for row in results.read_lines(lines) if row["machine"] != machine()]
    options.output.mkdir(parents=True, exist_ok=True)
    lines.write_text("".join(json.dumps(row) + "\n" for row in others) + "".join(found))


def main(arguments: list[str] | None = None) -> None:
    options, console = options_of(arguments), Console()
    folder, rounds, wanted = options.output, options.rounds, options.sections

    def keep(section: str, rows: list[dict], how: str = "") -> None:
        facts = {"how": how, "machine": machine(), "versions": versions()}
        results.write(folder, section, rows, facts)
        report.write(folder)
        console.print(f"{section}: {len(rows)} rows")

    if {"race", "first_fit"} & set(wanted):
        peers, about = available(options.solvers, console)
        keep("peers", about)
    if "race" in wanted:
        run_race(options, peers, {"machine": machine(), "versions": versions()}, console)
    if "memory" in wanted:
        rows = results.read(folder, "race")
        if not rows:
            raise SystemExit("the section memory needs the settings that the section race finds")
        keep("memory", footprint.memory(rows, options.limit, console))
    if "first_fit" in wanted:
        times = min(3, rounds)
        rows = footprint.first_fit(options.sets[0], peers, times, console)
        keep("first_fit", rows, f"Medians of {times}.")
    if "start_up" in wanted:
        keep("start_up", ourselves.start_up(rounds), f"Medians of {rounds}.")
    if "certifying" in wanted:
        rows = ourselves.certifying(options.sets, options.threads, rounds, console)
        keep("certifying", rows, f"Medians of {rounds} fits, checks and plan included.")
    if "methods_memory" in wanted:
        keep("methods_memory", ourselves.methods_memory(options.sets, console))
    if "tiny" in wanted:
        keep("tiny", ourselves.tiny(rounds), f"Medians of {20 * rounds}.")
    if "growth" in wanted:
        sizes = [size for size in growth.SIZES if size <= options.nonzeros]
        with console.status("Growth"):
            keep("growth", growth.grow(sizes, options.threads))
    if "scaling" in wanted:
        with console.status("Scaling"):
            scaling(options)
    console.print(f"written to {report.write(folder)}")


if __name__ == "__main__":
    main()
