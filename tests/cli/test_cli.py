"""The installed command: piped and on a terminal, its results, errors and examples."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import batchsvm
from batchsvm import datasets, losses, methods
from batchsvm.cli import commands, options
from batchsvm.cli.data import NAMES
from batchsvm.cli.entry import COMMANDS
from batchsvm.cli.output import label_text, plain

BATCHSVM = str(Path(sys.executable).with_name("batchsvm"))
ESCAPE = "\x1b"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with data and a model that the commands of the tests share."""
    folder = tmp_path_factory.mktemp("cli")
    for line in (
        "data get breast-cancer --folder .",
        "train breast-cancer.train.svm cancer.model --lam 0.01",
    ):
        ran = call(folder, *line.split())
        assert ran.returncode == 0, ran.stderr
    return folder


def call(folder, *arguments):
    environment = {k: v for k, v in os.environ.items() if k != "BATCHSVM_DATA"}
    return subprocess.run(
        [BATCHSVM, *map(str, arguments)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def quiet(text):
    """stderr without the line that announces compiling."""
    return "".join(line for line in text.splitlines(True) if "compiling" not in line)


def fails(folder, *arguments):
    """The one line of an error."""
    ran = call(folder, *arguments)
    assert ran.returncode == 2, ran
    assert ran.stdout == ""
    lines = quiet(ran.stderr).splitlines()
    assert len(lines) == 1, ran.stderr
    assert lines[0].startswith("batchsvm: ")
    return lines[0].removeprefix("batchsvm: ")


def test_train_certify_predict(folder):
    made = json.loads(call(folder, "train", "breast-cancer.train.svm", "a.model", "--lam", 0.01,
                           "--tol", 1e-4, "--json").stdout)  # fmt: skip
    data = datasets.load("breast-cancer")
    expected = batchsvm.fit(data.X, data.y, lam=0.01, tol=1e-4, random_state=0)
    assert made["converged"]
    assert made["fits"][0]["certificate"]["primal"] == pytest.approx(expected.certificate.primal)
    checked = json.loads(
        call(folder, "certify", "a.model", "breast-cancer.train.svm", "--json").stdout
    )
    assert checked["within_tol"]
    assert checked["same_data"]
    assert checked["certificates"][0] == made["fits"][0]["certificate"]
    ran = call(folder, "predict", "a.model", "breast-cancer.test.svm", "out.txt")
    predicted = np.loadtxt(folder / "out.txt")
    assert f"accuracy {(predicted == data.y_test).mean():.6g}" in ran.stdout
    piped = call(folder, "predict", "a.model", "breast-cancer.test.svm")
    assert piped.stdout == (folder / "out.txt").read_text()
    assert piped.stderr.startswith("accuracy ")


def test_a_gap_above_tol_is_exit_status_1(folder):
    ran = call(folder, "train", "breast-cancer.train.svm", "short.model", "--lam", "1e-2",
               "--max-epochs", "2")  # fmt: skip
    assert ran.returncode == 1
    assert len(quiet(ran.stderr).splitlines()) == 1
    assert quiet(ran.stderr).startswith("batchsvm: warning: --max-epochs was reached")
    ran = call(folder, "certify", "short.model", "breast-cancer.train.svm")
    assert ran.returncode == 1
    assert "ABOVE tol" in ran.stdout
    assert (
        call(
            folder, "certify", "short.model", "breast-cancer.train.svm", "--tol", 0.9999
        ).returncode
        == 0
    )


def test_certify_believes_nothing_that_the_file_says(folder):
    """A file that claims a better certificate than its coefficients have."""
    from batchsvm.models import container

    header, arrays = container.read(folder / "cancer.model")
    arrays["coef"] = arrays["coef"] * 0.5
    container.write(folder / "liar.model", header, arrays)
    assert call(folder, "info", "liar.model").returncode == 0
    assert call(folder, "certify", "liar.model", "breast-cancer.train.svm").returncode == 1


@pytest.mark.slow
def test_several_classes_formats_and_report(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).round(3)
    names = np.array(["ash", "oak", "yew"])[np.argmax(X, axis=1)]
    lines = [",".join([*map(str, row), name]) for row, name in zip(X, names, strict=True)]
    (folder / "trees.csv").write_text("height,girth,age,tree\n" + "\n".join(lines) + "\n")
    ran = call(folder, "train", "trees.csv", "trees.model", "--label", "tree", "--lam", 0.01,
               "--loss", "logistic", "--intercept", 1, "--report", "trees.html")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "class yew against the rest" in ran.stdout
    assert "girth" in (folder / "trees.html").read_text()
    ran = call(folder, "convert", "trees.csv", "trees.npz", "--label", "tree")
    assert ran.returncode == 0, ran.stderr
    made = json.loads(call(folder, "predict", "trees.model", "trees.npz", "--json").stdout)
    assert made["accuracy"] > 0.9
    assert set(made["predictions"]) == {"ash", "oak", "yew"}
    found = json.loads(call(folder, "info", "trees.model", "--json").stdout)
    assert found["classes"] == ["ash", "oak", "yew"]
    assert len(found["certificates"]) == 3


def test_plan_as_json_and_plot(folder):
    found = json.loads(call(folder, "plan", "breast-cancer.train.svm", "--json").stdout)
    data = datasets.load("breast-cancer")
    assert found["sigma2"] == pytest.approx(float(batchsvm.sigma2(data.X)))
    assert set(found["table"][0]) == {"b", "beta_b", "speedup"}
    asked = ("plan", "breast-cancer.train.svm", "--json", "--theory")
    [row, *_] = json.loads(call(folder, *asked).stdout)["table"]
    assert set(row) == set(found["table"][0]) | {"pegasos_T", "t0", "T0", "T"}
    assert fails(folder, "plan", "breast-cancer.train.svm", "--plot", "plot.gif") == (
        "--plot must end in .png, .svg or .pdf, not 'plot.gif'"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "there is no command 'frobnicate' (see batchsvm --help)"),
        (["train", "--lamb", "1", "a", "b"], "there is no option --lamb"),
        (["train"], "Missing argument 'DATA' (see batchsvm train --help)"),
        (["train", "missing.svm", "m"], "missing.svm: there is no such file"),
        (["train", "bad.svm", "m"], "bad.svm:2: a feature must look like index:value, not 'x'"),
        (["train", "breast-cancer.train.svm", "no/m"], "the folder"),
        (["train", "breast-cancer.train.svm", "m", "--loss", "hing"], "did you mean 'hinge'?"),
        (["train", "breast-cancer.train.svm", "m", "--loss", "hinge:x=1"], "no parameter 'x'"),
        (["train", "breast-cancer.train.svm", "m", "--method", "auto:x=1"], "takes no parameters"),
        (["train", "breast-cancer.train.svm", "m", "--lam", "-1"], "--lam must be a finite"),
        (["train", "breast-cancer.train.svm", "m", "-b", "x"], "neither 'auto' nor an integer"),
        (["predict", "breast-cancer.test.svm", "breast-cancer.test.svm"], "not a batchsvm model"),
        (["certify", "cancer.model", "breast-cancer.test.svm"], "143 rows, not 426"),
        (["predict", "cancer.model", "wide.svm"], "wide.svm:1: the index must be at most 30"),
        (["data", "get", "nothing"], "NAME must be one of"),
        (["convert", "words.csv", "words.svm"], "labels that are numbers"),
        (["train", "words.npy", "m"], "has no labels; name their column with --label"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_exit_status_2(folder, capsys, monkeypatch, arguments, message):
    (folder / "bad.svm").write_text("1 1:1\n1 x\n")
    (folder / "wide.svm").write_text("1 31:1\n")
    (folder / "words.csv").write_text("a,label\n1,x\n2,y\n")
    np.save(folder / "words.npy", np.eye(3))
    if arguments[0] in ("frobnicate", "predict"):  # the others in this process, for speed
        assert message in fails(folder, *arguments)
        return
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as left:
        batchsvm.cli.main(arguments)
    out, err = capsys.readouterr()
    assert left.value.code == 2
    assert out == ""
    assert len(quiet(err).splitlines()) == 1
    assert message in err


def test_on_a_terminal_there_is_a_bar_and_piped_there_is_none(folder):
    pexpect = pytest.importorskip("pexpect")
    arguments = ["train", "breast-cancer.train.svm", "t.model", "--lam", "1e-4"]
    child = pexpect.spawn(BATCHSVM, arguments, cwd=str(folder), encoding="utf-8", timeout=120,
                          dimensions=(40, 160), env={**os.environ, "TERM": "xterm"})  # fmt: skip
    shown = child.read()
    child.close()
    assert child.exitstatus == 0
    assert "training" in shown
    assert "%" in shown
    assert ESCAPE in shown
    assert "model: t.model" in shown
    piped = call(folder, *arguments)
    assert ESCAPE not in piped.stdout + piped.stderr
    assert "training" not in piped.stdout + piped.stderr
    assert quiet(piped.stderr) == ""


def test_ctrl_c_keeps_the_best_point(folder):
    pexpect = pytest.importorskip("pexpect")
    call(folder, "data", "get", "text-like", "--folder", ".")
    child = pexpect.spawn(
        BATCHSVM, ["train", "text-like.train.svm", "c.model", "--lam", "1e-9", "--tol", "1e-13",
                   "--max-epochs", "1e9", "--method", "pegasos"],
        cwd=str(folder), encoding="utf-8", timeout=120, dimensions=(40, 160),
    )  # fmt: skip
    child.expect("epoch [1-9]")
    child.sendintr()
    shown = child.read()
    child.close()
    assert child.exitstatus == 1, shown
    assert "interrupted from the keyboard" in shown
    assert batchsvm.load(folder / "c.model").statuses == ("INTERRUPTED",)


def test_a_reader_that_has_read_enough_is_no_error(folder):
    command = f"{shlex.quote(BATCHSVM)} predict cancer.model breast-cancer.test.svm | head -1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, capture_output=True,
                         text=True, check=False)  # fmt: skip
    assert ran.stdout.count("\n") == 1
    assert "Traceback" not in ran.stderr


def every_command():
    for name in COMMANDS:
        command = commands.get_command(None, name)
        yield name, command
        for sub in getattr(command, "commands", {}):
            yield f"{name} {sub}", command.commands[sub]


def examples():
    """Each line of each example, once, in an order in which what is needed comes first."""
    lines = re.findall(r"^  (batchsvm .*)$", commands.epilog, re.MULTILINE)
    for _, command in every_command():
        lines += re.findall(r"^  (batchsvm .*)$", command.epilog, re.MULTILINE)
    return list(dict.fromkeys(lines))


def test_every_help_has_an_example():
    for name, command in every_command():
        assert re.search(r"^  batchsvm ", command.epilog, re.MULTILINE), name
        assert command.help


@pytest.mark.slow
def test_the_examples_work(tmp_path, monkeypatch, capsys):
    """In this process: starting one for each line would take most of the time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BATCHSVM_DATA", raising=False)
    for line in examples():
        with pytest.raises(SystemExit) as left:
            batchsvm.cli.main(shlex.split(line)[1:])
        out, err = capsys.readouterr()
        assert left.value.code == 0, (line, err)
        assert out, line
    assert {"speedup.png", "cancer.html", "cancer.predicted", "cancer.svm.gz"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_help_and_version(folder):
    ran = call(folder, "train", "--help")
    assert ran.returncode == 0
    assert "Example:" in ran.stdout
    assert "--report" in ran.stdout
    assert call(folder, "--version").stdout.strip().endswith(batchsvm.__version__)


def test_names_in_the_command_line_are_those_of_the_library():
    assert set(options.LOSSES) == set(losses.LOSSES)
    assert set(options.METHODS) == {"auto", *methods.METHODS}
    assert set(NAMES) == set(datasets.SETS)


def test_completion(folder):
    assert "_BATCHSVM_COMPLETE" in call(folder, "completion", "bash").stdout
    environment = {**os.environ, "_BATCHSVM_COMPLETE": "bash_complete", "COMP_CWORD": "2",
                   "COMP_WORDS": "batchsvm train --loss hu"}  # fmt: skip
    environment["COMP_CWORD"] = "3"
    ran = subprocess.run([BATCHSVM], env=environment, capture_output=True, text=True, check=False)
    assert "huber" in ran.stdout


def test_values_for_json_and_text():
    assert plain({"a": np.float64("inf"), "b": (np.int64(3), float("nan")), "c": Path("x")}) == {
        "a": None, "b": [3, None], "c": "x",
    }  # fmt: skip
    assert [label_text(v) for v in (1.0, -0.5, np.float64(3), "a", 1e300, True)] == [
        "1", "-0.5", "3", "a", "1e+300", "True",
    ]  # fmt: skip
