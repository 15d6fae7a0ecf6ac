"""The report: tables, figures, claims and raw numbers, all from the results."""

from __future__ import annotations

import csv
from collections import Counter
from math import inf
from pathlib import Path

import numpy as np

import batchsvm
from batchsvm.engines.batch_order import FEW_BATCHES
from experiments import claims, figures, sets
from experiments.cells import ACCURACY, FIGURE_1, PAPER, STUCK, sigma2
from experiments.clock import CLOCKED
from experiments.machine import fingerprint

LABEL = {"": "last iterate", "decay": "decaying average 0.9/0.1"}


def write_report(
    study, rows: list[dict], paths: list[dict], times: list[dict], minutes: float, folder: Path
) -> dict[str, str]:
    """Write everything into the folder; returns the verdict of each claim."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {name: facts_of(name, rows, paths, study) for name in study.sets}
    shown = {name: (fact.n, 1 / fact.inverse_sigma2) for name, fact in facts.items()}
    write_csv(folder / "cells.csv", rows)
    write_csv(folder / "trajectories.csv", paths)
    write_csv(folder / "times.csv", times)
    text = [
        HEAD,
        conditions(study, rows, minutes),
        table1(study),
        "\n## Figure 1: iterations against b\n",
    ]
    plain = [
        row for row in rows if row["loss"] == "hinge" and row["variant"] in ("", study.planted)
    ]
    for averaging in LABEL if study.averaged else [""]:
        name = "figure1" + (f"-{averaging}" if averaging else "")
        chosen = [row for row in plain if row["averaging"] == averaging]
        figures.figure1(folder, name, chosen, shown, LABEL[averaging])
        text += [f"\n### {LABEL[averaging].capitalize()}\n\n![Figure 1]({name}.png)\n"]
        text += [iterations_table(claims.medians(chosen, averaging), facts)]
    text.append(
        "\nThe numbers are medians over the seeds. A dash means that most of them did not reach the"
        f" goal; an empty cell was not run. {how_gram_was_run(study)} In the figure, the bands show"
        " the range over the seeds, and the dotted line is b = 1/σ². At the top, a cross marks a"
        " batch size at which most runs failed, and a triangle one at which most runs were still"
        " improving when they ended.\n"
    )
    if paths:
        figures.figure2(folder, paths)
        text.append(
            "\n## Figure 2: along a run\n\n![Figure 2](figure2.png)\n\nWith the decaying average,"
            " at one b below and at one above that at which the naive variant fails.\n"
        )
    text.append(theory_table(plain, facts, study))
    spent = wall_clock(times, claims.medians(plain))
    figures.clock(folder, spent, tuple(study.sets))
    text.append(clock_section(spent, times, study))
    if study.variation_sets:
        beyond = [row for row in rows if row["averaging"] == "" and row["variant"] == ""]
        figures.losses(folder, beyond, study.variation_sets, study.loss_sizes)
        text.append(variations_tables(rows, facts, study))
    judged = claims.judge(claims.medians(rows), facts)
    verdicts = {claim.words: claims.verdict(evidence) for claim, evidence in judged.items()}
    text.append(claims_table(judged))
    partial = folder / "README.partial"
    partial.write_text("\n".join(text))
    partial.rename(folder / "README.md")
    return verdicts


HEAD = f"""# The paper's experiments, reproduced

Section 5 of Takáč, Bijral, Richtárik, Srebro, *Mini-Batch Primal and Dual Methods for SVMs* (ICML
2013), run by `make reproduce`. That command writes this page; no number is entered by hand.
An iteration processes one batch. The tables count the iterations until the primal objective is
within {ACCURACY:g} of its optimum, which is certified to 1e-8. Batches are drawn as in the paper
(uniform subsets). SDCA takes the general step (β‖x_i‖²) with the σ² of rows scaled to unit norm.
*gram* is the joint update over a batch, which Section 4.2 mentions and sets aside. It visits each
row once per epoch: rows are divided into batches once, or again in each epoch if there are
{FEW_BATCHES} batches or fewer. With b = 1 it is serial SDCA in that order of rows.
"""


def conditions(study, rows: list[dict], minutes: float) -> str:
    """Seeds, what counts as a failure, and where and with what the cells were computed."""
    ends = Counter(row["outcome"] for row in rows)
    return (
        f"\nSeeds {', '.join(map(str, study.seeds))}. A run may take {study.max_epochs:g} epochs or"
        f" {study.least_iterations:,} iterations, whichever is more. It ends at half of them if 2.5"
        " times its gain in the last quarter would not be enough, and at a quarter if the error is"
        f" above {10 * ACCURACY:g} and has stopped falling. A run that did not reach the goal has"
        f" *failed* if its error fell slower than t^-{STUCK:g} in the last half of the run, and is"
        " *unfinished* otherwise. Errors are measured at most 50 % apart, and 2 % apart close to"
        " the goal. On cov the errors go up and down during a run, so that an earlier crossing may"
        f" be missed. {len(rows):,} results"
        f" ({', '.join(f'{count:,} {end}' for end, count in ends.most_common())}) took"
        f" {minutes:.0f} processor-minutes{measured_by(rows)}.\n\n"
        "Raw numbers: [cells.csv](cells.csv), [trajectories.csv](trajectories.csv),"
        " [times.csv](times.csv).\n"
    )


def how_gram_was_run(study) -> str:
    """One sentence: up to which b, and with which seeds."""
    less = ", ".join(f"{name}: {b:,}" for name, b in study.less_gram.items())
    seeds = ", ".join(str(seed) for seed in study.slow_gram_seeds)
    return (
        "*gram* has no averages. Large Gram matrices take long, so that it was run up to"
        f" b = {study.largest_gram_b:,}{f' ({less})' if less else ''}, and only with the seeds"
        f" {seeds} from b = {study.slow_gram_b:,} on."
    )


def measured_by(rows: list[dict]) -> str:
    """Where, with what and by which code; with several of them, which results each measured."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        where = f"{row['machine']} ({row['versions']})"
        groups.setdefault((where, row["code"]), []).append(row)
    if len(groups) == 1:
        ((where, code),) = groups
        return f" on {where}; fingerprint of the code: {code}"
    parts = []
    for (where, code), mine in sorted(groups.items(), key=lambda group: -len(group[1])):
        methods = {row["method"] for row in mine}
        named = ", ".join(method for method in FIGURE_1 if method in methods)
        parts.append(f"{len(mine):,} ({named}) by code with the fingerprint {code} on {where}")
    return (
        ". They were measured by different versions of the code, and none was measured again after"
        f" the code had changed: {', and '.join(parts)}. Each used the σ² of its own code. Table 1"
        f" and the iterations of the theorems are from code with the fingerprint {fingerprint()}"
    )


def facts_of(name: str, rows: list[dict], paths: list[dict], study) -> claims.Facts:
    sizes = sorted({row["b"] for row in rows if row["data"] == name and not row["variant"]})
    n = sets.load(name).X.shape[0]
    most = {b: max(study.max_epochs * n / b, study.least_iterations) for b in sizes}
    naive = [row for row in paths if (row["data"], row["method"]) == (name, "naive")]
    past = max((row["b"] for row in naive), default=0)
    errors = [row["primal"] for row in naive if row["b"] == past]
    rise = errors[-1] / min(errors) if errors else None
    variation_sizes = list(study.variation_sizes)
    return claims.Facts(n, 1 / float(sigma2(name)), sizes, variation_sizes, most, rise)


def table1(study) -> str:
    lines = [
        "\n## Table 1: the data\n",
        "| set | train / test / dim / % | the paper's columns | λ | σ² | 1/σ² | what it is |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in study.sets:
        info, data = sets.SETS[name], sets.load(name)
        n, d = data.X.shape
        stored = data.X.nnz if hasattr(data.X, "nnz") else np.count_nonzero(data.X)
        found = sigma2(name)
        bound = "≤ " if found.failure_probability else ""
        lines.append(
            f"| {name} | {n:,} / {data.X_test.shape[0]:,} / {d:,} / {density(stored / n / d)} |"
            f" {info.paper or '–'} | {info.lam:g} | {bound}{found:.4g} | {1 / found:.3g} |"
            f" {info.what} |"
        )
    return "\n".join(lines)


def density(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}"


def shown(value: float) -> str:
    return "–" if value == inf else f"{value:,.0f}"


def iterations_table(m: claims.Medians, facts) -> str:
    lines = []
    for name, fact in facts.items():
        lines += [f"\n**{name}**, 1/σ² = {fact.inverse_sigma2:.3g}\n"]
        methods = [method for method in FIGURE_1 if (name, method, 1) in m]
        lines += ["| b | " + " | ".join(methods) + " |", "| --- |" + " --- |" * len(methods)]
        for b in fact.sizes:
            there = [m.get((name, method, b)) for method in methods]
            values = " | ".join("" if value is None else shown(value) for value in there)
            lines.append(f"| {b:,} | {values} |")
    return "\n".join(lines)


def theory_table(rows: list[dict], facts, study) -> str:
    """What the theorems promise for the accuracy, over what was observed."""
    m = claims.medians(rows)
    lines = [
        "\n## Theory against practice\n",
        "The numbers of iterations that Theorem 1 (Pegasos, tail average) and Theorem 2 (safe SDCA,"
        f" averaged α) guarantee for {ACCURACY:g}, and their ratios to what the last iterate"
        " needed.\n",
        "| set | b | Theorem 1 | observed | ratio | Theorem 2 | observed | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, fact in facts.items():
        data = sets.load(name)
        plan = batchsvm.plan(data.X, lam=data.lam, tol=ACCURACY, sigma2=sigma2(name))
        for row in plan.table:
            if row.b in fact.sizes:
                pegasos, safe = m[name, "pegasos", row.b], m[name, "safe", row.b]
                first = "–" if pegasos == inf else f"{row.pegasos_T / pegasos:,.0f}"
                second = "–" if safe == inf else f"{row.T / safe:,.0f}"
                lines.append(
                    f"| {name} | {row.b:,} | {row.pegasos_T:,} | {shown(pegasos)} | {first} |"
                    f" {row.T:,} | {shown(safe)} | {second} |"
                )
    return "\n".join(lines)


def wall_clock(times: list[dict], m: claims.Medians) -> dict[tuple, float]:
    """Seconds to the accuracy by set, method, b and threads: iterations times their time."""
    return {
        (row["data"], row["method"], row["b"], row["threads"]): row["seconds"] * needed
        for row in times
        if (needed := m[row["data"], row["method"], row["b"]]) < inf
    }


def clock_section(spent: dict[tuple, float], times: list[dict], study) -> str:
    """Time to the accuracy against b, on one thread and on several."""
    head = [f"{method}, {jobs}" for method in CLOCKED for jobs in study.clock_threads]
    lines = [
        "\n## Wall-clock time against b\n",
        "![Wall-clock time](clock.png)\n",
        f"Milliseconds to {ACCURACY:g}, by method and threads: the median number of iterations of"
        " the last iterate (Figure 1) times the median time of an iteration, without set-up and"
        f" certificates, measured on {times[0]['machine']} while nothing else ran. The columns are"
        " divided among the threads if a batch has enough work for that; otherwise one thread does"
        " all of it, and the two times differ only by noise. Visiting rows one by one needs the"
        " least work: the fastest batch is the smallest one that keeps the threads busy.\n",
    ]
    for name in study.sets:
        sizes = sorted({row["b"] for row in times if row["data"] == name})
        lines += [f"\n**{name}**\n", "| b | " + " | ".join(head) + " |"]
        lines += ["| --- |" + " --- |" * len(head)]
        for b in sizes:
            found = [spent.get((name, m, b, j), inf) for m in CLOCKED for j in study.clock_threads]
            lines.append(f"| {b:,} | " + " | ".join(milliseconds(value) for value in found) + " |")
    return "\n".join(lines)


def milliseconds(seconds: float) -> str:
    if seconds == inf:
        return "–"
    return f"{1e3 * seconds:,.3g}" if seconds < 1 else f"{1e3 * seconds:,.0f}"


def variations_tables(rows: list[dict], facts, study) -> str:
    m = claims.medians(rows)
    names = sorted({key[1] for key in m if "," in key[1]})
    lines = [
        "\n## Beyond the paper\n",
        "The iterations of each variant; in brackets their ratio to the plain method with the same"
        " b.\n",
    ]
    sizes = study.variation_sizes
    for name in study.variation_sets:
        there = [b for b in sizes if b in facts[name].sizes]
        lines += [
            f"\n**{name}**\n",
            "| variant | " + " | ".join(f"b = {b:,}" for b in there) + " |",
        ]
        lines += ["| --- |" + " --- |" * len(there)]
        for variant in names:
            plain = variant.split(",")[0]
            entries = []
            for b in there:
                value, base = m.get((name, variant, b), inf), m[name, plain, b]
                ratio = f" ({value / base:.2f})" if value < inf and base < inf else ""
                entries.append(shown(value) + ratio)
            lines.append(f"| {variant} | " + " | ".join(entries) + " |")
    return "\n".join(lines) + losses_section(rows, study)


def losses_section(rows: list[dict], study) -> str:
    lines = [
        "\n\n### Other losses\n",
        "![Other losses](losses.png)\n",
        "Iterations against b on the axes of Figure 1: hinge solid, logistic dashed, smoothed hinge"
        " dotted. Each loss has its own optimum, and the goal is to be within 0.001 of it.\n",
    ]
    for loss in figures.LOSS_LINES:
        m = claims.medians(rows, loss=loss)
        for name in study.variation_sets:
            there = [b for b in study.loss_sizes if (name, "safe", b) in m]
            lines += [f"\n**{loss}, {name}**\n", "| b | " + " | ".join(PAPER) + " |"]
            lines += ["| --- |" + " --- |" * len(PAPER)]
            for b in there:
                values = " | ".join(shown(m[name, method, b]) for method in PAPER)
                lines.append(f"| {b:,} | {values} |")
    return "\n".join(lines)


def claims_table(judged) -> str:
    lines = ["\n## The paper's claims, one by one\n", "| section | claim | verdict | measured |"]
    lines += ["| --- | --- | --- | --- |"]
    for claim, evidence in judged.items():
        measured = "; ".join(f"*{name}*: {found.measured}" for name, found in evidence.items())
        lines.append(
            f"| {claim.where} | {claim.words} | **{claims.verdict(evidence)}** | {measured} |"
        )
    return "\n".join(lines) + "\n"


def write_csv(path: Path, rows: list[dict]) -> None:
    if not rows:
        return
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    partial.rename(path)
