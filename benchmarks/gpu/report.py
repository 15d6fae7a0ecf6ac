"""The section "On a GPU" of the page, from gpu.jsonl; parts that were not measured are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks import results
from benchmarks.words import length, table

FILE = "gpu.jsonl"
Rows = dict[str, dict]  # the last measurement of each name


def gpu(folder: Path) -> str:
    rows = [row for row in results.read_lines(folder / FILE) if not row["quick"]]
    text = []
    for part, section in SECTIONS.items():
        mine = {row["name"]: row for row in rows if row["part"] == part}
        found = section(mine) if mine else ""
        if found:
            text += [found, conditions(list(mine.values()))]
    return "## On a GPU\n\n" + HOW + "\n" + "\n".join(text) if text else ""


HOW = (
    "Generated data (`benchmarks/gpu/generated.py`), on the device unless stated otherwise, without"
    " an intercept. The seconds are those of a whole call of `fit`, `fit_many` or `path`, including"
    " checks, plan and all certificates, but not of the first call, which compiles. The gap is the"
    " largest proven bound of all problems, relative to the objective.\n"
)


def conditions(rows: list[dict]) -> str:
    """Where and when; one line for each combination that differs."""
    lines = dict.fromkeys(
        f"*{row['device']}, {row['machine']}; "
        + ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        + f"; {row['date']}.*\n"
        for row in rows
    )
    return "\n".join(lines)


def shape(row: dict) -> str:
    return f"{row['rows']:,} × {row['columns']:,}"


def median_of(row: dict) -> str:
    count = len(row["all"])
    return length(row["seconds"]) + (f" (median of {count})" if count > 1 else "")


def gap(value: float) -> str:
    return f"{value:.1e}"


def embeddings(rows: Rows) -> str:
    fits = [row for row in rows.values() if "converged" in row]
    if not fits:
        return ""
    first = fits[0]
    cells = [
        [row["name"], median_of(row), length(row["first_seconds"]), f"{row['epochs']:.1f}",
         f"{row['ms_per_epoch']:.0f} ms", f"{row['converged']} of {row['problems']}",
         gap(row["worst_gap"])]
        for row in fits
    ]  # fmt: skip
    heads = ["loss", "seconds", "first call", "epochs", "per epoch", "within tol", "gap"]
    text = [
        f"### {first['classes']:,} classes at once\n",
        f"{shape(first)} in float32, one against the rest, λ = {first['lam']:g}, tol ="
        f" {first['tol']:g}.\n",
        table(heads, cells),
    ]
    text += [
        f"{row['name'].capitalize()}, in float64: {median_of(row)}.\n"
        for row in rows.values() if "converged" not in row
    ]  # fmt: skip
    return "\n".join(text)


def lbfgs(rows: Rows) -> str:
    cells = []
    for row in rows.values():
        if "ratio" not in row:
            continue
        goal = "reached" if row["reached"] else f"still {gap(row['worst_gap'])}"
        at_least = "" if row["reached"] else "more than "
        cells.append([
            row["loss"].replace("_", " "), length(row["ours_seconds"]),
            f"{length(row['seconds'])} ({goal})", f"{at_least}{row['ratio']:.1f}",
            gap(row["gap_when_ours_was_done"]),
        ])  # fmt: skip
    if not cells:
        return ""
    first = next(iter(rows.values()))
    heads = ["loss", "batchsvm", "L-BFGS", "ratio", "L-BFGS when batchsvm was done"]
    return (
        "### Against torch's L-BFGS\n\nThe same data, device and process. L-BFGS has a strong Wolfe"
        " line search, float32 with TF32 products, an explicit gradient, and all classes in one"
        " objective. It is stopped when (P − D)/P is at most"
        f" {first['tol']:g} for every class, where D is a certified lower bound on the optimum that"
        f" was computed beforehand to {gap(first['reference_gap'])}. The time for this check is not"
        " counted.\n\n" + table(heads, cells)
    )


def path(rows: Rows) -> str:
    text = [
        f"{row['steps']} values of λ from {row['lams'][0]:g} to {row['lams'][-1]:g},"
        f" {shape(row)}, {row['classes']:,} classes, {row['loss']}:"
        f" **{length(row['seconds'])}** for {row['problems']:,} certified problems,"
        f" {row['converged']:,} of them within tol = {row['tol']:g};"
        f" gap {gap(row['worst_gap'])}; {row['epochs']:.0f} epochs.\n"
        for row in rows.values()
    ]
    return "### A path\n\n" + "\n".join(text)


def one_problem(rows: Rows) -> str:
    cells = [
        [shape(row), median_of(row), length(row["first_seconds"]), f"{row['epochs']:.1f}",
         f"{row['ms_per_epoch']:.1f} ms", length(row["read_seconds"]),
         length(row["certificate_seconds"]), gap(row["worst_gap"])]
        for row in rows.values()
    ]  # fmt: skip
    first = next(iter(rows.values()))
    heads = ["rows × columns", "seconds", "first call", "epochs", "per epoch", "X read once",
             "one certificate", "gap"]  # fmt: skip
    return (
        f"### One problem\n\nHinge, λ = {first['lam']:g}, tol = {first['tol']:g}, float32."
        " *X read once* is the time to add up the entries of X on the device.\n\n"
        + table(heads, cells)
    )


def text(rows: Rows) -> str:
    cells = []
    for name, row in rows.items():
        if name.endswith(("with upload", "Snap ML")):
            continue
        upload, snap = rows.get(f"{name}, with upload"), rows.get(f"{name}, Snap ML")
        other = "–"
        if snap:
            other = f"{median_of(snap)}, to {gap(snap['suboptimality'])}"
        cells.append([
            name, f"{shape(row)}, {row['nonzeros']:,}", f"{row['lam']:g}", gap(row["goal"]),
            f"{median_of(row)}, to {gap(row['worst_bound'])}",
            median_of(upload) if upload else "–", other,
        ])  # fmt: skip
    heads = ["data", "rows × columns, non-zeros", "λ", "goal", "X on the device", "X on the host",
             "Snap ML on the same device, X on the host"]  # fmt: skip
    return cells and (
        "### Text\n\nHinge, CSR in float32. The goal is absolute. For batchsvm it is the proven"
        " bound; for Snap ML it is its objective in float64 minus a certified lower bound on the"
        " optimum, with the loosest setting that reaches the goal. Each solver runs for half"
        " a second before its five fits that are timed.\n\n" + table(heads, cells)
    )


def clicks(rows: Rows) -> str:
    cells = [
        [shape(row), f"{row['nonzeros']:,}", median_of(row), length(row["first_seconds"]),
         f"{row['epochs']:.1f}", f"{row['ms_per_epoch']:.0f} ms", gap(row["worst_gap"])]
        for row in rows.values()
    ]  # fmt: skip
    first = next(iter(rows.values()))
    heads = ["rows × columns", "non-zeros", "seconds", "first call", "epochs", "per epoch", "gap"]
    return (
        f"### Clicks\n\n{first['loss'].capitalize()}, λ = {first['lam']:g}, tol = {first['tol']:g};"
        " one entry per field in each row, CSR in float32.\n\n" + table(heads, cells)
    )


def small(rows: Rows) -> str:
    cells = []
    for name, row in rows.items():
        host = rows.get(name.removesuffix("gpu") + "cpu")
        if row["engine"] != "gpu" or host is None:
            continue
        said = "yes" if row["said_beforehand"] else "no"
        cells.append([
            f"{shape(row)}, {row['classes']} classes", median_of(row), median_of(host), said,
        ])  # fmt: skip
    heads = ["rows × columns", "gpu engine, with upload", "cpu engine, all cores",
             "the plan says that the cpu engine is likely to be faster"]  # fmt: skip
    return cells and "### Small data\n\nHinge, tol = 0.001.\n\n" + table(heads, cells)


SECTIONS: dict[str, Callable[[Rows], str]] = {
    "embeddings": embeddings,
    "lbfgs": lbfgs,
    "path": path,
    "one_problem": one_problem,
    "text": text,
    "clicks": clicks,
    "small": small,
}
