"""The whole pipeline of the experiments on tiny data; a planted failure turns a verdict."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from rich.console import Console

from experiments import cells, claims, report, run, sets
from experiments.cells import Cell, iterations_to_accuracy
from experiments.machine import fingerprint

STUDY = run.Study(
    sets=("tiny-text",),
    seeds=(0, 1, 2),
    largest_b=256,
    max_epochs=60.0,
    least_iterations=400,
    averaged=True,
    figure2={"tiny-text": (4, 128)},
    variation_sets=("tiny-text",),
    variation_sizes=(64,),
    loss_sizes=(1, 64),
)
SMALL = run.Study(
    sets=("tiny-text",),
    seeds=(0,),
    largest_b=4,
    max_epochs=20.0,
    least_iterations=100,
    figure2={"tiny-text": (4,)},
)
DETERIORATES = "The safe variant does not deteriorate"


def pipeline(folder, study=STUDY, missing=False):
    console = Console(file=io.StringIO())
    return run.run_study(study, folder / "cells", folder / "report", console, 2, missing)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return folder, pipeline(folder)


@pytest.mark.slow
def test_the_report_is_complete(finished):
    folder, verdicts = finished
    report = folder / "report"
    text = (report / "README.md").read_text()
    assert set(verdicts) == {claim.words for claim in claims.CLAIMS}
    for words, verdict in verdicts.items():
        assert f"| {words} | **{verdict}** |" in text
    for part in ("Table 1", "Figure 1", "Figure 2", "Theory against practice", "Beyond the paper"):
        assert part in text
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (report / target).stat().st_size > 100
    for name in ("figure1", "figure1-decay", "figure2", "losses", "clock"):
        assert (report / f"{name}.svg").exists()
    assert str(folder) not in text
    with (report / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = run.cells_of(STUDY)
    assert len(rows) == len(cells) + sum(cell.averaged for cell in cells)
    assert {row["seed"] for row in rows} == {"0", "1", "2"}
    assert all(row["versions"].startswith("Python") and "cores" in row["machine"] for row in rows)


@pytest.mark.slow
def test_the_paper_holds_on_tiny_data(finished):
    _, verdicts = finished
    assert verdicts[DETERIORATES] == "holds"
    assert verdicts["The naive variant deteriorates or fails for large batches"] == "holds"


@pytest.mark.slow
def test_a_planted_failure_turns_a_verdict(finished, tmp_path):
    _, before = finished
    after = pipeline(tmp_path, replace(STUDY, planted="wrong beta", variation_sets=(), figure2={}))
    assert before[DETERIORATES] == "holds"
    assert after[DETERIORATES] == "does not hold"


@pytest.mark.slow
def test_a_finished_run_does_nothing_again_and_a_cut_line_is_done_again(finished, monkeypatch):
    folder, verdicts = finished
    kept = folder / "cells" / f"cells-{fingerprint()}.jsonl"
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:-5] + "\n")
    done = []
    add = run.Kept.add
    monkeypatch.setattr(run.Kept, "add", lambda self, key, r: (done.append(key), add(self, key, r)))
    assert pipeline(folder) == verdicts
    assert len(done) == 1


@pytest.fixture
def pretended(monkeypatch):
    """Cells, trajectories and times that cost nothing, and no figures; returns what was run."""
    done = []

    def cell(cell):
        done.append(cell.key)
        found = {"iterations": 900 // cell.b, "outcome": "reached", "sub_optimality": 0.1 / 123}
        missed = {"iterations": None, "outcome": "failed", "sub_optimality": 1 / 3}
        last = missed if (cell.method, cell.b) == ("naive", 4) else found
        return {"": last, "decay": found} if cell.averaged else {"": last}

    def path(name, method, b):
        done.append(f"trajectory/{name}/{method}/{b}")
        row = {"data": name, "method": method, "b": b}
        return [{**row, "iteration": t, "primal": 1 / t, "dual": 2 / t, "test_error": 0.1}
                for t in (1, 3, 7)]  # fmt: skip

    def clock(name, method, b, threads):
        done.append(f"clock/{name}/{method}/{b}")
        return {str(jobs): 1e-6 / 3 * b / jobs for jobs in threads}

    monkeypatch.setattr(run, "iterations_to_accuracy", cell)
    monkeypatch.setattr(run, "trajectory", path)
    monkeypatch.setattr(run, "seconds_an_iteration", clock)
    monkeypatch.setattr(run, "ProcessPoolExecutor", ThreadPoolExecutor)
    for name in ("figure1", "figure2", "clock"):
        monkeypatch.setattr(report.figures, name, lambda *args: None)
    return done


def written(folder):
    return {path.name: path.read_text() for path in sorted((folder / "report").iterdir())}


def test_missing_runs_nothing_of_a_report_that_is_complete(tmp_path, pretended):
    verdicts = pipeline(tmp_path, SMALL)
    before = written(tmp_path)
    assert set(before) == {"README.md", "cells.csv", "times.csv", "trajectories.csv"}
    assert f"fingerprint of the code: {fingerprint()}." in before["README.md"]
    shutil.rmtree(tmp_path / "cells")
    pretended.clear()
    assert pipeline(tmp_path, SMALL, missing=True) == verdicts
    assert pretended == []
    assert written(tmp_path) == before


def test_missing_runs_what_a_report_lacks_and_says_which_code_measured_what(tmp_path, pretended):
    pipeline(tmp_path, SMALL)
    before = written(tmp_path)
    earlier = before["cells.csv"].replace(fingerprint(), "earlier-code").splitlines(keepends=True)
    kept = [line for line in earlier if not line.startswith("tiny-text,gram,")]
    (tmp_path / "report" / "cells.csv").write_text("".join(kept))
    shutil.rmtree(tmp_path / "cells")
    pretended.clear()
    pipeline(tmp_path, SMALL, missing=True)
    gram = [cell.key for cell in run.cells_of(SMALL) if cell.method == "gram"]
    assert len(gram) == 3  # b = 1, 2, 4
    assert sorted(pretended) == sorted(gram)
    after = written(tmp_path)
    assert after["trajectories.csv"] == before["trajectories.csv"]
    assert after["times.csv"] == before["times.csv"]
    lines = after["cells.csv"].splitlines(keepends=True)
    assert set(kept) < set(lines)
    assert len(lines) == len(earlier)
    text = after["README.md"]
    assert "24 (pegasos, naive, safe, aggressive) by code with the fingerprint earlier-code" in text
    assert f"3 (gram) by code with the fingerprint {fingerprint()}" in text


def test_gram_has_fewer_seeds_where_it_is_slow():
    study = run.Study(sets=("tiny-text",), largest_gram_b=64, slow_gram_b=16, seeds=(0, 1, 7))
    seeds = {}
    for cell in run.cells_of(study):
        if cell.method == "gram":
            seeds.setdefault(cell.b, []).append(cell.seed)
    assert seeds == {1 << k: [0, 1, 7] if k < 4 else [0, 1] for k in range(7)}
    assert run.gram_seeds(replace(study, less_gram={"tiny-text": 32}), "tiny-text", 64) == ()


def test_missing_completes_all_sets(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["run", "--missing", "--sets", "rcv1"])
    with pytest.raises(SystemExit):
        run.main()
    assert "--missing completes the whole report" in capsys.readouterr().err


def test_gram_is_judged_at_every_b_past_the_failure_of_naive():
    facts = claims.Facts(100, 2.0, [1, 2, 4, 8], [], {})
    naive = {1: 500.0, 2: 250.0, 4: math.inf, 8: math.inf}
    m = {("set", "naive", b): value for b, value in naive.items()}
    unknown = claims.gram_needs_no_more_epochs(m, "set", facts)
    assert unknown.holds is None
    m |= {("set", "gram", b): 400.0 / b for b in facts.sizes}
    holds = claims.gram_needs_no_more_epochs(m, "set", facts)
    assert holds.holds
    assert holds.measured == (
        "at b = 4 to 8 gram needs 4.0 to 4.0 epochs, serial SDCA 5.0, and 4.0 in gram's order of"
        " rows (gram at b = 1)"
    )
    slower = claims.gram_needs_no_more_epochs({**m, ("set", "gram", 8): 70.0}, "set", facts)
    assert not slower.holds
    assert "4.0 to 5.6 epochs" in slower.measured
    assert slower.measured.endswith("; behind at b = [8]")


@pytest.mark.parametrize("method", ["safe", "aggressive"])
def test_iterations_are_found_to_two_percent(method):
    cell = Cell("tiny-text", method, 8, seed=1)
    found = iterations_to_accuracy(cell)[""]["iterations"]
    data, best = sets.load("tiny-text"), cells.optimum("tiny-text", "hinge")
    below = []

    def look(checkpoint):
        below.append(checkpoint.certificate.primal - best.dual <= cells.ACCURACY)

    cells.quietly(
        data.X, data.y, "hinge", data.lam, cells.method_of(cell), 8, tol=0, random_state=1,
        max_epochs=2 * found * 8 / 300, checkpoints=range(1, 2 * found), callback=look,
    )  # fmt: skip
    assert below[found]
    assert not all(below[int(found / 1.025) - 1 : found])


def test_verdicts():
    yes, no, unknown = (claims.Evidence(holds, "") for holds in (True, False, None))
    assert claims.verdict({"a": yes, "b": unknown}) == "holds"
    assert claims.verdict({"a": no, "b": unknown}) == "does not hold"
    assert claims.verdict({"a": yes, "b": no}) == "only on a"
    assert claims.verdict({"a": unknown}) == "cannot be told"


def searched(errors_at, most=1000):
    search = cells.Search(most)
    t = 10
    while t <= most and not search.is_over:
        search.note(t, errors_at(t))
        t = max(t + 1, int(t * search.growth))
    return search


def test_a_search_looks_closely_where_it_matters():
    search = searched(lambda t: 100 / t**2)  # crosses 0.001 at 316.2
    before, found = search.bracket()
    assert search.outcome() == "reached"
    assert 316 <= found <= before * cells.FINE
    assert len(search.looks) < 40


@pytest.mark.parametrize(
    ("errors_at", "outcome", "last"),
    [
        (lambda t: 0.5 + 0.1 * (t % 7), "failed", 400),  # goes up and down, early to tell
        (lambda t: 1e300 - 1e290 * t, "failed", 400),
        (lambda t: 100 / t, "unfinished", 700),  # would take 100,000
        (lambda t: 2.0 ** (-t / 90), "reached", 1000),  # slow at first, there at 897
    ],
)
def test_a_search_tells_failing_from_slow(errors_at, outcome, last):
    search = searched(errors_at)
    assert search.outcome() == outcome
    assert search.looks[-1][0] <= last


def test_the_last_iterate_is_the_same_with_and_without_the_average():
    both = iterations_to_accuracy(Cell("tiny-text", "aggressive", 16, seed=2, averaged=True))
    alone = iterations_to_accuracy(Cell("tiny-text", "aggressive", 16, seed=2))
    assert both[""]["iterations"] == pytest.approx(alone[""]["iterations"], rel=0.03)
    assert both[""]["outcome"] == both["decay"]["outcome"] == "reached"


def test_batches_of_one_are_run_once_for_all_dual_methods():
    tasks = {run.computed_as(cell).key for cell in run.cells_of(STUDY) if cell.b == 1}
    # Pegasos and SDCA, three seeds, three losses; gram, three seeds.
    assert len(tasks) == 2 * 3 * 3 + 3


@pytest.mark.slow
def test_wall_clock_times_are_iterations_times_their_time(finished):
    folder, _ = finished
    report = folder / "report"
    with (report / "times.csv").open() as file:
        times = list(csv.DictReader(file))
    assert {row["threads"] for row in times} == {"1", "2"}
    assert {row["b"] for row in times} == {"1", "4", "16", "64", "256"}
    assert all(0 < float(row["seconds"]) < 1 for row in times)
    text = (report / "README.md").read_text()
    one = next(
        row for row in times if (row["method"], row["b"], row["threads"]) == ("safe", "4", "1")
    )
    line = next(
        line for line in text.split("## Wall-clock")[1].splitlines() if line[:6] == "| 4 | "
    )
    with (report / "cells.csv").open() as file:
        needed = [
            int(row["iterations"]) for row in csv.DictReader(file)
            if (row["method"], row["b"], row["loss"], row["variant"], row["averaging"])
            == ("safe", "4", "hinge", "", "")
        ]  # fmt: skip
    shown = float(line.split("|")[4])  # b, pegasos on 1 and 2 threads, safe on 1
    assert shown == pytest.approx(1e3 * float(one["seconds"]) * sorted(needed)[1], rel=0.01)
