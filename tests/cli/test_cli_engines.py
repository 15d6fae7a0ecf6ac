"""Engines on the command line: a device gives the same kind of file, none gives a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

import batchsvm
from batchsvm.cli import options
from batchsvm.core.options import PRECISIONS
from batchsvm.engines import ENGINES, placing
from helpers import refused


@pytest.fixture
def files(tmp_path, iris):
    X, y = iris
    np.save(tmp_path / "iris.npy", X.astype(np.float32))
    np.save(tmp_path / "iris.labels.npy", y)
    return tmp_path


def train(run, model, *arguments):
    status, out, err = run("train", "iris.npy", model, "--lam", 0.05, "--json", *arguments)
    assert status == 0, err
    return json.loads(out)


def test_names_are_those_of_the_library():
    assert set(options.ENGINES) == {"auto", *ENGINES}
    assert options.PRECISIONS == ("auto", *PRECISIONS)


@pytest.mark.parametrize("where", [["--engine", "gpu"], ["--device", 0]])
def test_train_on_a_device_writes_the_same_kind_of_file(files, run, where):
    on_host = train(run, "host.model")
    on_device = train(run, "device.model", *where, "--intercept", 1, "--precision", "float32")
    assert on_device["method"] == "gram"
    assert on_device["converged"]
    assert set(on_device) == set(on_host)
    model = batchsvm.load(files / "device.model")
    assert model.coef.shape == (3, 4)
    assert model.alpha.shape == (3, 150)
    for engine in ("gpu", "cpu", "reference"):
        status, out, err = run("certify", "device.model", "iris.npy", "--engine", engine, "--json")
        assert status == 0, err
        for one, other in zip(json.loads(out)["certificates"], on_device["fits"], strict=True):
            assert one["primal"] == pytest.approx(other["certificate"]["primal"], rel=1e-12)
    assert run("predict", "device.model", "iris.npy", "out.txt")[0] == 0


def test_reference_engine(files, run):
    assert train(run, "reference.model", "--engine", "reference") | {"model": "", "fits": []} == (
        train(run, "cpu.model", "--engine", "cpu") | {"model": "", "fits": []}
    )


def test_plan_on_a_device_says_how_it_is_laid_out(files, run):
    status, out, _ = run("plan", "iris.npy", "--engine", "gpu", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["batches"] >= 1
    assert "Gram matrix" in found["reason"]
    assert "is likely to be faster" in found["reason"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "cpu", "--device", 0], '--device must be None for --engine cpu, not 0'),
        (["--device", -1], "--device must be the number of a CUDA device"),
        (["--engine", "gpu", "--method", "blocks"], "--method must be one of"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(files, run, arguments, words):
    assert words in refused(run("train", "iris.npy", "m", "--lam", 0.05, *arguments))
    assert not (files / "m").exists()


def test_an_unknown_engine_is_refused(files, run):
    message = refused(run("train", "iris.npy", "m", "--engine", "tpu"))
    assert "'tpu' is not one of 'auto', 'cpu', 'gpu', 'reference'" in message


@pytest.mark.parametrize(
    "command",
    [["train", "iris.npy", "m"], ["plan", "iris.npy"], ["certify", "host.model", "iris.npy"]],
    ids=lambda command: command[0],
)
def test_without_a_device_there_is_one_sentence(files, run, device, monkeypatch, command):
    if device == "cuda":
        pytest.skip("there is a device")
    train(run, "host.model")
    monkeypatch.setitem(placing.ENGINES, "gpu", placing._place_on_gpu)  # the real one
    message = refused(run(*command, "--engine", "gpu"))
    assert message.startswith("--engine gpu needs ")
    assert not (files / "m").exists()


def test_other_errors_of_the_program_are_not_hidden(files, run, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setitem(placing.ENGINES, "cpu", broken)
    monkeypatch.chdir(files)
    with pytest.raises(RuntimeError, match="a bug"):
        batchsvm.cli.main(["train", "iris.npy", "m"])
