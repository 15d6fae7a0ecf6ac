"""The page docs/benchmarks/README.md, written from the CSV files beside it."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks import results
from benchmarks.gpu.report import gpu
from benchmarks.judging import entries_in, entry_of
from benchmarks.race_report import race
from benchmarks.streamed.report import streamed
from benchmarks.words import length, table

HEAD = """# Benchmarks

This page compares the time and the memory of batchsvm with those of other solvers. `make bench`
measures and writes it; no number is entered by hand.
"""


def write(folder: Path) -> Path:
    """Write the page and the figures from what has been measured so far."""
    page = [HEAD, place(common(folder))]
    for section in (
        race, peers, shapes, forecasts, memory, first_fit, start_up, certifying, methods_memory,
        tiny, growth, scaling, gpu, streamed,
    ):  # fmt: skip
        text = section(folder)
        if text:
            page += [text, conditions(folder, section.__name__)]
    path, partial = folder / "README.md", folder / "README.partial"
    partial.write_text("\n".join(part for part in page if part))
    partial.rename(path)
    return path


def common(folder: Path) -> dict:
    """The facts of the section that was measured first, which hold unless a section says so."""
    return next(iter(results.read_facts(folder).values()), {})


def place(facts: dict) -> str:
    return f"Measured on {facts['machine']}; {facts['versions']}.\n" if facts else ""


def conditions(folder: Path, section: str) -> str:
    """How a section was measured, and where if that was elsewhere."""
    facts, usual = results.read_facts(folder).get(section, {}), common(folder)
    elsewhere = [facts.get(key) for key in ("machine", "versions")] != [
        usual.get(key) for key in ("machine", "versions")
    ]
    words = [facts.get("how", ""), place(facts) if facts and elsewhere else ""]
    return "\n".join(f"*{word.strip()}*\n" for word in words if word)


def by(rows: list[dict], *keys: str) -> dict:
    """Rows grouped by some of their values, in the order in which they first come."""
    groups: dict = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        groups.setdefault(key[0] if len(keys) == 1 else key, []).append(row)
    return groups


def mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def peers(folder: Path) -> str:
    rows = results.read(folder, "peers")
    if not rows:
        return ""
    cells = [
        [row["solver"], row["version"] or "not installed: " + row["reason"], row["knob"],
         row["threads"]]
        for row in rows
    ]  # fmt: skip
    return "## Solvers and versions\n\n" + table(["solver", "version", "setting", "threads"], cells)


def memory(folder: Path) -> str:
    rows = results.read(folder, "memory")
    if not rows:
        return ""
    sets = list(by(rows, "set"))
    cells = []
    for entry in entries_in(rows):
        peaks = {row["set"]: mib(row["peak_bytes"]) for row in rows if entry_of(row) == entry}
        cells.append([entry, *(peaks.get(name, "–") for name in sets)])
    sizes = {row["set"]: mib(row["data_bytes"]) for row in rows}
    cells.append(["*the data*", *(sizes[name] for name in sets)])
    return (
        "## Memory\n\nThe peak memory of the process during a fit of the hinge loss, without an"
        " intercept, to 1e-3, in addition to the data and the loaded code. Copies of the data"
        " count.\n\n" + table(["solver", *sets], cells)
    )


def first_fit(folder: Path) -> str:
    rows = results.read(folder, "first_fit")
    cells = [
        [solver, {"none": "compiles nothing"}.get(cache, f"{cache} cache"),
         length(median(row["import_seconds"] for row in mine)),
         length(median(row["fit_seconds"] for row in mine))]
        for (solver, cache), mine in by(rows, "solver", "cache").items()
    ]  # fmt: skip
    return cells and (
        f"## The first fit of a new process\n\nOn {rows[0]['set']}, one thread.\n\n"
        + table(["solver", "", "import", "first fit"], cells)
    )


def shapes(folder: Path) -> str:
    """`benchmarks/shapes.py`: losses and shapes on which steps on single rows are slow."""
    cells = [
        [row["shape"], row["solver"], length(row["median_s"]), f"{row['above']:.1e}",
         f"{row['ratio']:.2f}"]
        for row in results.read(folder, "shapes")
    ]  # fmt: skip
    heads = ["data and loss", "solver", "median", "above the optimum", "best peer / this one"]
    return cells and (
        "## Other losses and shapes\n\nGenerated data, to 1e-3 above the optimum; each peer with"
        " the largest tol that gets there.\n\n" + table(heads, cells)
    )


def forecasts(folder: Path) -> str:
    """`benchmarks/forecasts.py`: what a plan predicts."""
    rows = results.read(folder, "forecasts")
    cells = [
        [row["data"], row["loss"], f"{row['lam_n']:g}", row["method"], length(row["predicted_s"]),
         length(row["seconds"]), f"{row['ratio']:.2f}"]
        for row in rows
    ]  # fmt: skip
    within = sum(0.5 <= row["ratio"] <= 2.0 for row in rows)
    heads = ["data", "loss", "λN / max ‖x‖²", "method", "predicted", "taken", "taken / predicted"]
    return cells and (
        f"## Predicted and taken times\n\nThe forecast of `batchsvm.plan` for one thread, and the"
        f" median of fits with tol = 1e-3: {within} of {len(rows)} within a factor of two.\n\n"
        + table(heads, cells)
    )


def start_up(folder: Path) -> str:
    groups = by(results.read(folder, "start_up"), "cache")
    cells = [
        [cache, length(median(row["seconds"] for row in mine))] for cache, mine in groups.items()
    ]
    return cells and (
        "## Start-up\n\nA new Python process imports batchsvm and fits 1,000 rows.\n\n"
        + table(["cache", "seconds"], cells)
    )


def certifying(folder: Path) -> str:
    cells = [
        [row["set"], row["threads"], f"{row['tol']:g}", f"{row['epochs']:.1f}",
         row["certificates"], f"{row['share']:.1%}"]
        for row in results.read(folder, "certifying")
    ]  # fmt: skip
    heads = ["set", "threads", "tol", "epochs", "certificates", "share of the fit"]
    return cells and "## What certificates cost\n\n" + table(heads, cells)


def methods_memory(folder: Path) -> str:
    cells = [
        [row["set"], f"{row['method']}, b = {row['batch_size']}", mib(row["peak_bytes"]),
         f"{row['vectors']:.2f}"]
        for row in results.read(folder, "methods_memory")
    ]  # fmt: skip
    heads = ["set", "method", "peak of NumPy's memory", "in vectors of n + d"]
    return cells and "## Memory by method\n\n" + table(heads, cells)


def tiny(folder: Path) -> str:
    groups = by(results.read(folder, "tiny"), "solver")
    if not groups:
        return ""
    ours = groups["batchsvm.fit"]
    cells = []
    for solver, mine in groups.items():
        ratio = median(a["seconds"] / b["seconds"] for a, b in zip(ours, mine, strict=True))
        cells.append([solver, length(median(row["seconds"] for row in mine)), f"{ratio:.2f}"])
    return "## Tiny data\n\n150 rows × 4 columns, all compiled, interleaved.\n\n" + table(
        ["", "median", "time of batchsvm.fit / this time"], cells
    )


def growth(folder: Path) -> str:
    rows = results.read(folder, "growth")
    text = []
    for threads, mine in by(rows, "threads").items():
        paces = [row["ns_per_epoch_per_nonzero"] for row in mine]
        cells = [
            [f"{row['nonzeros']:,}", f"{row['rows']:,} × {row['features']:,}",
             f"{row['ns_per_epoch_per_nonzero']:.2f} ns", mib(row["data_bytes"]),
             mib(row["peak_bytes"]), f"{row['vectors']:.1f}"]
            for row in mine
        ]  # fmt: skip
        heads = ["non-zeros", "rows × columns", "per epoch and non-zero", "data",
                 "peak in addition", "in vectors of n + d"]  # fmt: skip
        text += [
            f"{'1 thread' if threads == 1 else f'{threads} threads'}: the largest time per non-zero"
            f" is {max(paces) / min(paces):.2f} times the smallest.\n",
            table(heads, cells),
        ]
    return "## Growth\n\n" + "\n".join(text) if text else ""


def scaling(folder: Path) -> str:
    rows = results.read_lines(folder / "scaling.jsonl")
    text = []
    for key, mine in by(rows, "set", "rows", "machine").items():
        alone = {row["turn"]: row["seconds"] for row in mine if row["n_jobs"] == 1}
        cells = [
            [jobs, length(median(fit["seconds"] for fit in fits)),
             f"{median(alone[fit['turn']] / fit['seconds'] for fit in fits):.2f}",
             f"{median(fit['epochs'] for fit in fits):.1f}",
             f"{max(fit['gap'] for fit in fits):.1e}"]
            for jobs, fits in by(mine, "n_jobs").items()
        ]  # fmt: skip
        first = mine[0]
        text += [
            f"**{key[0]}**: {first['rows']:,} × {first['features']:,}, {first['nonzeros']:,}"
            f" non-zeros, λ = {first['lam']:g}, tol = {first['tol']:g}; {first['machine']};"
            f" {first['versions']}.\n",
            table(["threads", "seconds", "speed-up", "epochs", "gap"], cells),
        ]
    return "## Scaling with threads\n\n" + "\n".join(text) if text else ""
