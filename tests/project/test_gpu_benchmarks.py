"""The benchmarks of the gpu engine: every part on tiny data, generated data, the report."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import report
from benchmarks.gpu import generated
from benchmarks.gpu.__main__ import PARTS, main, options_of
from benchmarks.gpu.lbfgs import LOSSES, SummedObjective
from benchmarks.gpu.measuring import Bench, on_host
from benchmarks.gpu.report import gpu

needs_simulation = pytest.mark.usefixtures("simulation")


@pytest.fixture
def simulation(device):
    if device != "simulated":
        pytest.skip("the simulated device is not in use: run python -m benchmarks.gpu --quick all")


def run(tmp_path, *parts):
    out = tmp_path / "gpu.jsonl"
    assert main([*parts, "--quick", "--out", str(out)], on_host()) == 0
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


@needs_simulation
@pytest.mark.parametrize("part", ["embeddings", "path", "one_problem", "text", "clicks", "small"])
def test_a_part_runs_on_tiny_data(part, tmp_path, capsys):
    rows = run(tmp_path, part)
    assert rows
    assert capsys.readouterr().out.count("\n") == len(rows)
    for row in rows:
        assert row["part"] == part
        assert row["quick"]
        assert row["seconds"] > 0
        if "goal" in row:
            assert row.get("worst_bound", row.get("suboptimality")) <= row["goal"]
        else:
            assert row.get("worst_gap", 0.0) <= 1e-3
        assert {"python", "numpy", "CUDA", "driver"} <= set(row["versions"])
    if part == "small":
        assert all(row["said_beforehand"] for row in rows)


@needs_simulation
def test_lbfgs_runs_where_there_is_torch_and_is_skipped_elsewhere(tmp_path, capsys):
    rows = run(tmp_path, "lbfgs")
    if not rows:
        assert "torch is not installed" in capsys.readouterr().err
    for row in rows:
        assert row["worst_gap"] <= 1e-3


def test_without_a_device_there_is_one_sentence(device, capsys):
    if device == "cuda":
        pytest.skip("there is a device")
    assert main(["small", "--quick"]) == 1
    assert capsys.readouterr().err.startswith("no device: ")


def test_parts_are_checked():
    assert options_of(["all"]).parts == list(PARTS)
    with pytest.raises(SystemExit):
        options_of(["speed"])


def test_repetitions_end_with_the_budget():
    bench = Bench(on_host())
    taken, result = bench.repeated(lambda: 7, 3)
    assert (len(taken), result) == (3, 7)
    assert len(bench.repeated(lambda: 7, 3, budget=1e-12)[0]) == 1


# ---- generated data


def test_embeddings_and_two_classes_have_rows_of_norm_one():
    X, labels = generated.embeddings(500, 20, 7, block=128)
    assert X.dtype == np.float32
    assert set(labels) == set(range(7))
    Z, y = generated.two_classes(500, 20, block=128)
    assert set(y) == {-1.0, 1.0}
    for rows in (X, Z):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_a_common_mean_makes_rows_alike():
    def sigma2(common):
        X, _ = generated.embeddings(2000, 64, 10, common=common)
        return np.linalg.norm(X, 2) ** 2 / len(X)

    assert sigma2(1.0) > 1.5 * sigma2(0.0)


def test_text_has_rows_of_norm_one():
    X, y = generated.text(200, 300)
    X.check_format(full_check=True)
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1)
    assert set(y) == {-1.0, 1.0}


def test_clicks_have_one_column_per_field():
    columns, y = generated.clicks(3000, 2600, block=1000)
    assert columns.shape == (3000, 39)
    assert (np.diff(columns, axis=1) > 0).all()
    assert columns.max() < 2600
    assert 0.1 < (y > 0).mean() < 0.45
    device = on_host()
    X = generated.clicks_csr(columns, 2600, np, device.csr)
    X.check_format(full_check=True)
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_summed_objective_of_torch_is_the_sum_and_its_gradient(loss):
    torch = pytest.importorskip("torch")
    X, labels = generated.embeddings(50, 6, 4)
    objective = SummedObjective(torch.from_numpy(X), torch.from_numpy(labels), 4, 0.1, loss)
    W = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    value, gradient = objective(W)
    assert value == pytest.approx(objective.primals(W).sum(), rel=1e-5)
    step = torch.zeros_like(W)
    step[2, 3] = 1e-2
    slope = (objective.primals(W + step).sum() - objective.primals(W - step).sum()) / 2e-2
    assert slope == pytest.approx(float(gradient[2, 3]), rel=1e-2, abs=1e-4)


# ---- the report


def measurement(part, name, seconds=2.0, **facts):
    return {
        "part": part, "name": name, "seconds": seconds, "all": [seconds] * 3, "quick": False,
        "device": "NVIDIA X1", "machine": "4 cores of Z", "date": "2026-01-31", "rows": 1000,
        "columns": 20, "lam": 1e-5, "tol": 1e-3, "loss": "hinge",
        "versions": {"python": "3.12", "cupy": "14.0", "CUDA": "13.0", "driver": "580.1"}, **facts,
    }  # fmt: skip


def fitted(**facts):
    return {
        "first_seconds": 5.0, "epochs": 12.0, "ms_per_epoch": 150.0, "converged": 10,
        "problems": 10, "worst_gap": 9e-4, "worst_bound": 9e-7, "classes": 10,
    } | facts  # fmt: skip


def canned():
    lams = {"lams": [1e-4, 1e-6], "steps": 20, "classes": 10}
    compared = {"ours_seconds": 2.0, "gap_when_ours_was_done": 0.2, "reference_gap": 1e-4}
    goal = {"nonzeros": 5000, "goal": 1e-6}
    return [
        measurement("embeddings", "hinge", 9.0, **fitted()),
        measurement("embeddings", "hinge", **fitted()),  # a later one replaces it
        measurement("embeddings", "one certificate of all classes", 0.25),
        measurement("lbfgs", "batchsvm, logistic", **fitted(reference_gap=1e-4)),
        measurement("lbfgs", "torch L-BFGS, logistic", 8.0, loss="logistic", ratio=4.0,
                    reached=True, worst_gap=9e-4, **compared),
        measurement("lbfgs", "torch L-BFGS, squared_hinge", 40.0, loss="squared_hinge", ratio=20.0,
                    reached=False, worst_gap=3e-3, **compared),
        measurement("path", "path, hinge", 99.0, **fitted(**lams)),
        measurement("one_problem", "1,000 x 20", 0.3, **fitted(problems=1, converged=1),
                    read_seconds=2e-3, certificate_seconds=4e-3),
        measurement("text", "text like rcv1", 6e-3, **fitted(**goal)),
        measurement("text", "text like rcv1, with upload", 9e-3, **fitted(**goal)),
        measurement("text", "text like rcv1, Snap ML", 32e-3, suboptimality=8e-7, reached=True,
                    **goal),
        measurement("clicks", "clicks", 4.0, **fitted(nonzeros=39_000)),
        measurement("small", "150 x 4, 3 classes, gpu", 9e-3,
                    **fitted(engine="gpu", said_beforehand=True)),
        measurement("small", "150 x 4, 3 classes, cpu", 2e-3,
                    **fitted(engine="cpu", said_beforehand=True)),
    ]  # fmt: skip


def test_the_section_is_written_from_the_numbers(tmp_path):
    rows = [*canned(), measurement("clicks", "clicks", 77.0, **fitted()) | {"quick": True}]
    (tmp_path / "gpu.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = report.write(tmp_path).read_text()
    for line in [
        "## On a GPU",
        "| hinge | 2 s (median of 3) | 5 s | 12.0 | 150 ms | 10 of 10 | 9.0e-04 |",
        "One certificate of all classes, in float64: 250 ms (median of 3).",
        "| logistic | 2 s | 8 s (reached) | 4.0 | 2.0e-01 |",
        "| squared hinge | 2 s | 40 s (still 3.0e-03) | more than 20.0 | 2.0e-01 |",
        "20 values of λ from 0.0001 to 1e-06",
        "| 1,000 × 20 | 300 ms (median of 3) | 5 s | 12.0 | 150.0 ms | 2 ms | 4 ms | 9.0e-04 |",
        "| 6 ms (median of 3), to 9.0e-07 | 9 ms (median of 3) | 32 ms (median of 3), to 8.0e-07 |",
        "| 39,000 | 4 s (median of 3) |",
        "| 9 ms (median of 3) | 2 ms (median of 3) | yes |",
        "*NVIDIA X1, 4 cores of Z; python 3.12, cupy 14.0, CUDA 13.0, driver 580.1; 2026-01-31.*",
    ]:
        assert line in text, line
    assert "77 s" not in text


def test_parts_without_results_are_left_out(tmp_path):
    assert gpu(tmp_path) == ""
    rows = [row for row in canned() if row["part"] == "path"]
    (tmp_path / "gpu.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = gpu(tmp_path)
    assert "### A path" in text
    assert "### Clicks" not in text
    (tmp_path / "gpu.jsonl").write_text(json.dumps(canned()[2]) + "\n")
    assert gpu(tmp_path) == ""
