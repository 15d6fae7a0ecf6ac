"""Commands on folders, patterns and files that are streamed: the same models, bounded memory."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm.cli import predict as predict_command
from batchsvm.cli import rows
from batchsvm.cli.overwriting import _would_be_part
from batchsvm.engines import placing
from batchsvm.files import write
from batchsvm.models import predict_parts
from helpers import refused

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ["height", "girth", "age"]
LAM = ("--lam", 0.05)
CUTS = (0, 70, 71, 150, 200)


def made_up(n=200):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, len(NAMES)))
    score = X @ [2.0, -1.0, 0.5] + 0.3 * rng.normal(size=n)
    return X, score, rng.integers(1, 4, n).astype(float)


X, SCORE, WEIGHTS = made_up()
KINDS = np.array(["ash", "elm", "oak"])[np.digitize(SCORE, [-1, 1])]


def slices():
    return list(pairwise(CUTS))


@pytest.fixture
def trees(tmp_path):
    """Tables of different lengths in a folder, and the same rows in one table."""
    (tmp_path / "trees").mkdir()
    columns = {name: X[:, j] for j, name in enumerate(NAMES)}
    columns |= {"kind": KINDS, "price": SCORE, "count": WEIGHTS}
    whole = pa.table(columns)
    pq.write_table(whole, tmp_path / "whole.parquet")
    for number, (start, stop) in enumerate(slices()):
        part = whole.slice(start, stop - start)
        pq.write_table(part, tmp_path / "trees" / f"part{number}.parquet")
    return tmp_path


@pytest.fixture
def texts(tmp_path):
    """LIBSVM text of two classes in a folder, and the same rows in one file."""
    (tmp_path / "texts").mkdir()
    y = np.where(SCORE > 0, 1, -1)
    write(tmp_path / "whole.svm", sp.csr_array(X), y)
    for number, (start, stop) in enumerate(slices()):
        write(tmp_path / "texts" / f"{number}.svm.gz", sp.csr_array(X[start:stop]), y[start:stop])
    return tmp_path


def done(ran, status=0):
    found, out, err = ran
    assert found == status, err
    return json.loads(out)


def assert_same_optimum(ours, theirs):
    """What is proven of the one does not contradict what is proven of the other."""
    assert len(ours["fits"]) == len(theirs["fits"])
    for one, other in zip(ours["fits"], theirs["fits"], strict=True):
        one, other = one["certificate"], other["certificate"]
        assert one["dual"] <= other["primal"] + 1e-12
        assert other["dual"] <= one["primal"] + 1e-12
        assert one["relative_gap"] <= 1e-3


TABLES = ("--label", "kind", "--columns", ",".join(NAMES), "--weights", "count", *LAM, "--json")


@pytest.mark.parametrize(
    ("data", "how"),
    [
        ("trees", ()),
        ("trees/*.parquet", ()),
        ("whole.parquet", ("--max-memory", "50MB")),
        ("whole.parquet", ("--cache", "kept")),
        ("whole.parquet", ("--engine", "streamed")),
    ],
)
def test_what_is_streamed_gives_the_same_optimum(run, trees, data, how):
    ours = done(run("train", data, "ours.model", *TABLES, *how))
    theirs = done(run("train", "whole.parquet", "theirs.model", *TABLES))
    assert_same_optimum(ours, theirs)
    assert len(ours["fits"]) == 3
    assert ours["data"]["rows"] == 200
    assert ours["data"]["columns"] == 3
    assert ours["data"]["labels"] == ["ash", "elm", "oak"]
    models = [batchsvm.load(trees / f"{name}.model") for name in ("ours", "theirs")]
    assert models[0].trained_on == models[1].trained_on
    assert models[0].trained_on.labels is not None
    assert models[0].feature_names == models[1].feature_names == tuple(NAMES)
    assert models[0].alpha.shape == (3, 200)


def test_weights_of_a_column_count(run, trees):
    plain = TABLES[:4] + TABLES[6:]
    weighted = done(run("train", "trees", "m", *TABLES))
    unweighted = done(run("train", "trees", "m", *plain))
    expected = batchsvm.fit_many(X, KINDS, lam=0.05, sample_weight=WEIGHTS, random_state=0)
    for fit, solution in zip(weighted["fits"], expected, strict=True):
        assert fit["certificate"]["primal"] == pytest.approx(solution.certificate.primal, rel=2e-3)
    first = [found["fits"][0]["certificate"]["primal"] for found in (weighted, unweighted)]
    assert abs(first[0] / first[1] - 1) > 5e-3


def test_a_streamed_model_is_certified_on_its_source_and_in_memory(run, trees):
    trained = done(run("train", "trees", "m", *TABLES))
    arguments = TABLES[:6]
    for data in ("trees", "whole.parquet", "trees/part*"):
        found = done(run("certify", "m", data, *arguments, "--json"))
        assert found["same_data"]
        assert found["within_tol"]
        for one, fit in zip(found["certificates"], trained["fits"], strict=True):
            assert one["primal"] == pytest.approx(fit["certificate"]["primal"], rel=1e-12)
            assert one["dual"] == pytest.approx(fit["certificate"]["dual"], rel=1e-12)


def test_certify_notices_other_data(run, trees):
    run("train", "trees", "m", *TABLES)
    (trees / "trees" / "part1.parquet").unlink()
    message = refused(run("certify", "m", "trees", *TABLES[:6]))
    assert message == "this is not the data the model was trained on: 199 rows, not 200"
    pq.write_table(
        pa.table({**{n: X[70:71, j] for j, n in enumerate(NAMES)}, "kind": ["birch"],
                  "count": [1.0]}),
        trees / "trees" / "part1.parquet",
    )  # fmt: skip
    message = refused(run("certify", "m", "trees", *TABLES[:6]))
    assert message.startswith("the labels must be the model's classes ['ash', 'elm', 'oak'], but")
    changed = pq.read_table(trees / "trees" / "part0.parquet")
    kinds = changed.column("kind").to_pylist()[::-1]
    at = changed.schema.get_field_index("kind")
    pq.write_table(
        changed.set_column(at, "kind", pa.array(kinds)), trees / "trees" / "part0.parquet"
    )
    table = pq.read_table(trees / "whole.parquet").slice(70, 1)
    pq.write_table(table, trees / "trees" / "part1.parquet")
    status, out, err = run("certify", "m", "trees", *TABLES[:6], "--json")
    assert status == 1
    assert "is not what m was trained on (other labels)" in err
    assert not json.loads(out)["same_data"]


def test_text_in_parts(run, texts):
    ours = done(run("train", "texts", "ours", *LAM, "--intercept", 1, "--json"))
    theirs = done(run("train", "whole.svm", "theirs", *LAM, "--intercept", 1, "--json"))
    assert_same_optimum(ours, theirs)
    assert ours["data"]["nonzeros"] == theirs["data"]["nonzeros"]
    models = [batchsvm.load(texts / name) for name in ("ours", "theirs")]
    assert models[0].trained_on == models[1].trained_on
    assert models[0].zero_based is models[1].zero_based is False
    assert done(run("certify", "ours", "texts", "--json"))["same_data"]


def test_a_regression(run, trees):
    arguments = ("--label", "price", "--columns", ",".join(NAMES), "--loss", "huber", *LAM)
    ours = done(run("train", "trees", "ours", *arguments, "--json"))
    theirs = done(run("train", "whole.parquet", "theirs", *arguments, "--json"))
    assert_same_optimum(ours, theirs)
    run("predict", "theirs", "whole.parquet", "theirs.txt", *arguments[:4])
    found = done(run("predict", "theirs", "trees", "ours.txt", *arguments[:4], "--json"))
    predicted = np.loadtxt(trees / "ours.txt")
    np.testing.assert_allclose(predicted, np.loadtxt(trees / "theirs.txt"), rtol=1e-12)
    assert found["mean_absolute_error"] == pytest.approx(np.abs(predicted - SCORE).mean())


def test_plan_of_a_source(run, trees):
    arguments = ("--label", "kind", "--columns", ",".join(NAMES), "--lam", 0.01, "--json")
    ours, theirs = (done(run("plan", data, *arguments)) for data in ("trees", "whole.parquet"))
    assert ours["sigma2"] == pytest.approx(theirs["sigma2"], rel=1e-9)
    assert (ours["rows"], ours["columns"]) == (200, 3)
    regression = ("--label", "price", *arguments[2:], "--loss", "huber", "--max-memory", "50MB")
    assert done(run("plan", "whole.parquet", *regression))["rows"] == 200


def test_words_and_a_report(run, trees):
    arguments = TABLES[:-1]
    status, out, err = run("train", "trees", "m", *arguments, "--report", "m.html")
    assert (status, err) == (0, "")
    assert out.startswith("trees: 200 rows x 3 columns, dense, 3 classes: ash, elm, oak\n")
    page = (trees / "m.html").read_text()
    assert "height" in page
    assert "dense, float64" in page


def test_the_cache_is_used_again(run, trees):
    for times in range(2):
        status, _, err = run("train", "trees", "m", *TABLES, "--cache", "kept")
        assert status == 0
        assert ("uses the packed parts in kept" in err) == (times == 1)
        assert batchsvm.load(trees / "m").trained_on.labels is not None


# Predictions.


@pytest.mark.parametrize("scores", [(), ("--scores",)])
def test_predictions_of_a_folder_are_those_of_the_whole(run, trees, monkeypatch, scores):
    """In the order of the files, in many chunks, with the accuracy of all of them."""
    run("train", "whole.parquet", "m", *TABLES)
    columns = TABLES[:4]
    run("predict", "m", "whole.parquet", "whole.txt", *columns, *scores)
    accuracy = done(run("predict", "m", "whole.parquet", *columns, "--json"))["accuracy"]
    found = done(run("predict", "m", "trees", "parts.txt", *columns, *scores, "--json"))
    assert found["rows"] == 200
    assert found["accuracy"] == pytest.approx(accuracy)
    ours, theirs = ((trees / f"{name}.txt").read_text() for name in ("parts", "whole"))
    if scores:
        np.testing.assert_allclose(np.loadtxt(trees / "parts.txt"), np.loadtxt(trees / "whole.txt"))
    else:
        assert ours == theirs
    status, out, err = run("predict", "m", "trees/*", *columns, *scores)
    assert status == 0
    assert out == ours
    assert err == f"accuracy {accuracy:.6g}\n"


def test_lines_are_written_as_they_come(run, texts, monkeypatch):
    """No more rows are in memory than one chunk has."""
    run("train", "whole.svm", "m", *LAM)
    sizes = []
    lines = predict_command._lines
    monkeypatch.setattr(
        predict_command, "_lines", lambda values: sizes.append(len(values)) or lines(values)
    )
    run("predict", "m", "texts", "out.txt")
    assert sizes == [70, 1, 79, 50]
    assert len((texts / "out.txt").read_text().splitlines()) == 200
    model = batchsvm.load(texts / "m")
    cut = [len(part.predictions) for part in predict_parts(model, texts / "texts", max_bytes=100)]
    assert sum(cut) == 200


def test_columns_beside_those_of_the_model(run, trees):
    run("train", "whole.parquet", "m", *TABLES)
    for data in ("whole.parquet", "trees"):
        message = refused(run("predict", "m", data, "out.txt", "--label", "kind"))
        assert "must have the columns of the training data, but it has 'price', 'count' more" in (
            message
        )
        columns = ("--columns", "age,height,girth")  # in any order
        assert run("predict", "m", data, f"{data}.out", "--label", "kind", *columns)[0] == 0
        for other in ("height,girth", "height,girth,price"):
            refused(run("predict", "m", data, "out.txt", "--label", "kind", "--columns", other))
    ours, theirs = ((trees / f"{name}.out").read_text() for name in ("trees", "whole.parquet"))
    assert ours == theirs
    assert not (trees / "out.txt").exists()


def test_indices_count_from_where_the_training_data_did(run, tmp_path):
    (tmp_path / "zero").mkdir()
    (tmp_path / "zero" / "a.svm").write_text("1 0:3 1:1\n-1 0:-3 2:1\n")
    (tmp_path / "zero" / "b.svm").write_text("1 0:2 2:1\n-1 0:-2 1:1\n")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.svm").write_text("1 1:1\n-1 2:1\n")
    run("train", "zero", "zero.model", "--lam", 0.1)
    model = batchsvm.load(tmp_path / "zero.model")
    assert model.zero_based is True
    run("predict", "zero.model", "new", "out", "--scores")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out"), model.coef[0, 1:])
    run("predict", "zero.model", "new", "out", "--scores", "--one-based")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out"), model.coef[0, :2])
    (tmp_path / "new" / "b.svm").write_text("1 3:1\n")
    for command in (("predict", "zero.model", "new", "fresh"), ("certify", "zero.model", "new")):
        assert refused(run(*command)).endswith(
            "; the model's training data counts from 0; if this file does not, say --one-based"
        )
    assert not (tmp_path / "fresh").exists()


# What is refused.


def test_nothing_is_written_where_it_would_become_a_part(run, trees):
    before = sorted(os.listdir(trees / "trees"))
    run("train", "whole.parquet", "m", *TABLES)
    (trees / "link").symlink_to("trees")
    for data, out in (
        ("trees", "trees/out.txt"),
        ("trees", "link/out.txt"),
        ("link", "trees/deep/out.txt"),
        ("trees/*.parquet", "trees/out.parquet"),
        ("*ees", "trees/out.txt"),
    ):
        words = f"must lie outside of DATA, {data!r}, a part of which it would become, not {out!r}"
        assert f"OUT {words}" in refused(run("predict", "m", data, out))
        assert f"MODEL {words}" in refused(run("train", data, out, *TABLES))
        assert f"--report {words}" in refused(run("train", data, "x", "--report", out, *TABLES))
        assert f"--plot {words}" in refused(run("plan", data, "--plot", out))
    words = refused(run("train", "trees", "x", "--cache", "trees/kept", *TABLES))
    assert "--cache must lie outside of DATA" in words
    assert sorted(os.listdir(trees / "trees")) == before
    assert not (trees / "x").exists()


def test_which_files_would_be_parts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert _would_be_part("data/x", "data")
    assert _would_be_part("data/a/b/x", "data")
    assert not _would_be_part("data/_x", "data")
    assert not _would_be_part("data/.a/x", "data")
    assert not _would_be_part("datax", "data")
    assert _would_be_part("data/x.svm", "data/*.svm")
    assert not _would_be_part("data/x.txt", "data/*.svm")
    assert _would_be_part("data/a/x.svm", "data/**/*.svm")
    assert _would_be_part("data/x.svm", "data/**/*.svm")
    assert _would_be_part("data/x", "da*")


def test_no_output_is_one_of_the_parts(run, texts):
    run("train", "whole.svm", "m", *LAM)
    before = (texts / "texts" / "1.svm.gz").read_bytes()
    os.link(texts / "texts" / "1.svm.gz", texts / "hard")
    message = refused(run("predict", "m", "texts", "hard"))
    assert "OUT must be another file than texts/1.svm.gz of DATA, not 'hard'" in message
    message = refused(run("predict", "m", "texts", "m"))
    assert "OUT must be another file than MODEL, not 'm'" in message
    message = refused(run("train", "texts/[01]*", "m", "--report", "m"))
    assert "--report must be another file than MODEL" in message
    assert (texts / "hard").read_bytes() == before


def test_an_unreadable_file_in_the_middle(run, texts):
    run("train", "whole.svm", "m", *LAM)
    (texts / "out.txt").write_text("old")
    (texts / "texts" / "2.svm.gz").write_bytes(b"no gzip")
    for command in (
        ("predict", "m", "texts", "out.txt"),
        ("train", "texts", "new"),
        ("certify", "m", "texts"),
        ("plan", "texts"),
    ):
        assert "texts/2.svm.gz: " in refused(run(*command))
    assert (texts / "out.txt").read_text() == "old"
    assert sorted(os.listdir(texts)) == ["m", "out.txt", "texts", "whole.svm"]


def test_a_file_that_changes_while_it_is_read(run, texts, monkeypatch):
    run("train", "whole.svm", "m", *LAM)
    (texts / "out.txt").write_text("old")
    lines = predict_command._lines

    def touching(values):
        os.utime(texts / "texts" / "0.svm.gz", (1, 1))
        return lines(values)

    monkeypatch.setattr(predict_command, "_lines", touching)
    message = refused(run("predict", "m", "texts", "out.txt"))
    assert message == "texts/0.svm.gz: it has changed while it was read"
    assert (texts / "out.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train empty m", "empty: holds no data file; files are"),
        ("predict m empty", "empty: holds no data file"),
        ("train no/* m", "no/*: no file matches this pattern"),
        (
            "train trees m --label kind --engine cpu",
            "--engine must be auto, streamed or ray for DATA",
        ),
        ("train trees m --label kind --device 0", "--device must be None for --engine streamed"),
        ("train trees m", "trees/part0.parquet: has no labels; name their column with --label"),
        ("train trees m --label king", "trees/part0.parquet: has no column 'king' for the labels"),
        ("train trees m --label kind --weights w", "has no column 'w' for the weights; it has"),
        ("train whole.parquet m --label kind --weights w", "has no column 'w' for the weights"),
        ("train trees m --label kind --columns a", "has no column 'a'"),
        ("train whole.parquet m --label kind --columns a", "has no column 'a' of features"),
        ("train trees m --label kind --columns a,,b", "Invalid value for '--columns': 'a,,b' must"),
        ("train trees m --label kind --columns age,age", "must not hold 'age' twice"),
        ("train trees m --label kind --max-memory much", "--max-memory must be a number of bytes"),
        ("train trees m --label kind --float32", "--float32 must be left out for DATA that is"),
        ("train trees m --label kind --labels y", "--labels must be left out for DATA that is a"),
        ("train trees m --label kind --lam -1", "--lam must be a finite positive number"),
        ("train trees m --label kind --tol 2", "--tol must be from 0 to below 1"),
        ("train trees m --label kind --seed -1", "--seed must be None, an integer"),
        ("train trees m --label kind --method blocks --averaging tail", "--averaging must be None"),
        ("plan trees --label kind --lam 0", "--lam must be a finite positive number"),
        ("train x.svm m --weights w", "w: there is no such file"),
        ("train x.svm m --columns w", "--columns must be None for x.svm, which is no table"),
        ("train x.svm m --max-memory 1GB --label w", "--label must name a column of a table"),
        ("train x.svm m --max-memory 1GB --columns w", "--columns names columns of tables"),
        ("train x.svm m --max-memory 1", "--max-memory must be at least"),
        ("predict old trees --json", "OUT must be given with --json for DATA that is read part"),
        ("predict old trees out.npy", "OUT must be a text file for DATA that is read part by part"),
    ],
)
def test_what_is_refused_before_any_work(run, trees, arguments, message):
    (trees / "empty").mkdir()
    (trees / "x.svm").write_text("1 1:1\n-1 2:1\n")
    (trees / "old").write_text("is not read")
    found = refused(run(*arguments.split()))
    assert message in found
    assert not (trees / "m").exists()


@pytest.mark.parametrize(
    "wrong",
    ["--lam -1", "--tol 2", "--seed -1", "--max-epochs 0", "--intercept -1", "--engine cpu"],
)
def test_options_are_checked_before_the_first_pass(run, trees, monkeypatch, wrong):
    def place(*_, **__):
        raise AssertionError("the first pass was begun")

    monkeypatch.setitem(placing.ENGINES, "streamed", place)
    option = wrong.split()[0]
    message = refused(run("train", "trees", "m", "--label", "kind", *wrong.split()))
    assert message.startswith(f"{option} must be ")


@pytest.mark.parametrize("terminal", [False, True])
def test_the_first_pass_shows_a_bar_on_a_terminal(run, trees, monkeypatch, terminal):
    asked = []
    place = placing.ENGINES["streamed"]

    def watched(*arguments, progress=False, **options):
        asked.append(progress)
        return place(*arguments, **options)

    monkeypatch.setitem(placing.ENGINES, "streamed", watched)
    monkeypatch.setattr(rows, "_on_terminal", lambda: terminal)
    status, _, err = run("plan", "trees", "--label", "kind", "--columns", ",".join(NAMES))
    assert status == 0, err
    assert asked == [terminal]
