"""The command harms no file, and says in words what was wrong; in this process, for speed."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from helpers import refused

ROWS = "1 1:1 2:0.5\n-1 1:-1\n1 2:2\n-1 2:-1\n"


@pytest.mark.parametrize(
    ("arguments", "who"),
    [
        ("train x x", "MODEL must be another file than DATA, not 'x'"),
        ("train x ./x", "MODEL must be another file than DATA, not './x'"),
        ("train x link", "MODEL must be another file than DATA, not 'link'"),
        ("train link x", "MODEL must be another file than DATA, not 'x'"),
        ("train x hard", "MODEL must be another file than DATA, not 'hard'"),
        ("train x m --report x", "--report must be another file than DATA, not 'x'"),
        ("train x m --report ./m", "--report must be another file than MODEL, not './m'"),
        ("train a.npy y --labels y", "MODEL must be another file than --labels, not 'y'"),
        ("convert x x", "OUT must be another file than DATA, not 'x'"),
        ("convert a.npy a.labels.npy", "OUT must be another file than the labels of DATA"),
        ("convert x b.npy --labels b.labels.npy", "the labels of OUT must be another file than"),
        ("predict m x x", "OUT must be another file than DATA, not 'x'"),
        ("predict m x m", "OUT must be another file than MODEL, not 'm'"),
        ("predict m a.npy a.labels.npy", "OUT must be another file than the labels of DATA"),
        ("plan x --plot link", "--plot must be another file than DATA, not 'link'"),
    ],
)
def test_no_command_writes_over_its_input(run, tmp_path, arguments, who):
    """The files are no data: nothing was read before they were compared."""
    names = ("x", "m", "y", "a.npy", "a.labels.npy", "b.labels.npy")
    for name in names:
        (tmp_path / name).write_text("precious")
    (tmp_path / "link").symlink_to("x")
    os.link(tmp_path / "x", tmp_path / "hard")
    assert who in refused(run(*arguments.split()))
    assert all((tmp_path / name).read_text() == "precious" for name in names)


def test_an_old_model_may_be_replaced(run, tmp_path):
    (tmp_path / "x").write_text(ROWS)
    np.save(tmp_path / "m", np.eye(2))
    assert run("train", "x", "m.npy", "--lam", 0.1)[0] == 0
    assert (tmp_path / "m.npy").read_bytes().startswith(b"BATCHSVM")


@pytest.mark.parametrize("group", [[], ["data"]])
def test_without_arguments_the_help_keeps_its_lines(run, group):
    status, out, err = run(*group)
    asked, text, nothing = run(*group, "--help")
    assert asked == 0
    assert nothing == ""
    assert text.count("\n") > 5
    assert out + err == text
    assert status == (2 if err else 0)  # click from 8.2 on, and before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train x m --jobs 0", "--jobs must be a positive integer, or -1 for all cores, not 0"),
        ("train x m --max-epochs -1", "--max-epochs must be a finite positive number, not -1.0"),
        ("train x m --batch-size 9", "--batch-size must be 'auto' or an integer from 1 to n = 4"),
        ("train x m --seed -1", "--seed must be None, an integer"),
        ("train x m --intercept -1", "--intercept must be 0 or a positive number, not -1.0"),
        ("train x m --tol nan", "--tol must be from 0 to below 1, not nan"),
        ("train x m --loss hing", "--loss must be one of"),
        ("train x m --loss huber:delta", "Invalid value for '--loss': 'delta' must look like"),
        ("train x m --method hing", "--method must be one of"),
        ("train x m --method blocks --averaging tail", "--averaging must be None for blocks"),
        ("train wild x.model", "DATA must be finite"),
        ("convert named.csv b.csv --out-label a", "--out-label must not be the name of a column"),
        ("certify m x --tol nan", "--tol must be from 0 to below 1, not nan"),
        ("certify m x --tol -1", "--tol must be from 0 to below 1, not -1.0"),
        ("certify m x --tol inf", "--tol must be from 0 to below 1, not inf"),
        ("predict tol x", "tol: there is no such file"),
        ("train tol m", "tol: there is no such file"),
    ],
)
def test_errors_name_options(run, tmp_path, arguments, message):
    (tmp_path / "x").write_text(ROWS)
    (tmp_path / "wild").write_text("1 1:inf\n-1 1:1\n")
    (tmp_path / "named.csv").write_text("a,label\n1,2\n3,4\n")
    assert refused(run(*arguments.split())).startswith(message)


@pytest.mark.filterwarnings("default")
def test_many_classes_share_one_warning(run, tmp_path):
    rows = [f"{k % 5} 1:{k % 7} 2:{k % 3} 3:{k % 11}" for k in range(60)]
    (tmp_path / "x").write_text("\n".join(rows) + "\n")
    status, out, err = run("train", "x", "m", "--lam", "1e-6", "--max-epochs", 1)
    assert status == 1
    assert err.count("\n") == 1, err
    assert err.startswith("batchsvm: warning: 5 of 5 classes stopped early. The worst is ")
    assert "where --max-epochs was reached before the bound was within --tol" in err
    assert "raise --max-epochs (now 1), use a larger --lam, or scale the columns of DATA" in err
    assert "max_epochs" not in out


@pytest.mark.parametrize(
    ("labels", "accuracy", "words"),
    [
        ([1, -1, 1, -1], 1.0, "accuracy 1\n"),
        ([1, 3, 1, 4], 0.5,
         "accuracy 0.5, where 2 rows count as wrong, since the model does not know 3, 4\n"),
        ([0, 0, 0, 0], None, "no accuracy: the model knows none of the labels, which are 0\n"),
    ],
)  # fmt: skip
def test_labels_that_the_model_does_not_know(run, tmp_path, labels, accuracy, words):
    (tmp_path / "x").write_text(ROWS)
    features = [line.split(" ", 1)[1] for line in ROWS.splitlines()]
    lines = [f"{label} {rest}\n" for label, rest in zip(labels, features, strict=True)]
    (tmp_path / "new").write_text("".join(lines))
    run("train", "x", "m", "--lam", 0.01)
    assert run("predict", "m", "new")[2] == words
    assert f"({words.strip()})" in run("predict", "m", "new", "out")[1]
    found = json.loads(run("predict", "m", "new", "--json")[1])
    unknown = sorted({str(label) for label in labels} - {"1", "-1"})
    assert found["accuracy"] == accuracy
    assert found["unknown_labels"] == unknown
    assert found["rows_with_unknown_labels"] == sum(str(label) in unknown for label in labels)


def test_a_regressor_and_labels_that_are_words(run, tmp_path):
    (tmp_path / "x.csv").write_text("a,label\n1,2\n3,4\n")
    (tmp_path / "new.csv").write_text("a,label\n1,two\n")
    run("train", "x.csv", "m", "--loss", "huber", "--lam", 1)
    words = "no mean absolute error: the labels are no numbers\n"
    assert run("predict", "m", "new.csv")[2] == words
