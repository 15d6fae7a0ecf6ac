"""Columns of a prediction are those of the training: by index or by name."""

from __future__ import annotations

import json

import numpy as np
import pytest

import batchsvm
from helpers import refused

FROM_ZERO = "1 0:3 1:1\n-1 0:-3 2:1\n1 0:2 2:1\n-1 0:-2 1:1\n"
FROM_ONE = "1 1:3 2:1\n-1 1:-3 3:1\n1 1:2 3:1\n-1 1:-2 2:1\n"
NO_FIRST_COLUMN = "1 1:1\n-1 2:1\n"
TREES = "height,girth,age,label\n3,1,0,ash\n-3,0,1,oak\n2,0,1,ash\n-2,1,0,oak\n"


def scores(ran):
    status, out, err = ran
    assert status == 0, err
    return json.loads(out)["scores"]


def test_indices_count_from_where_the_training_data_did(run, tmp_path):
    (tmp_path / "zero.svm").write_text(FROM_ZERO)
    (tmp_path / "one.svm").write_text(FROM_ONE)
    (tmp_path / "new.svm").write_text(NO_FIRST_COLUMN)
    run("train", "zero.svm", "zero.model", "--lam", 0.1)
    run("train", "one.svm", "one.model", "--lam", 0.1)
    models = [batchsvm.load(tmp_path / f"{name}.model") for name in ("zero", "one")]
    assert [model.zero_based for model in models] == [True, False]
    w = models[0].coef[0]
    np.testing.assert_array_equal(models[1].coef[0], w)
    predict = ("predict", "zero.model", "new.svm", "--scores", "--json")
    assert scores(run(*predict)) == [w[1], w[2]]
    assert scores(run(*predict, "--one-based")) == [w[0], w[1]]
    assert scores(run("predict", "one.model", "new.svm", "--scores", "--json")) == [w[0], w[1]]
    assert run("certify", "zero.model", "zero.svm")[0] == 0
    assert "by index, from 0" in run("info", "zero.model")[1]


def test_indices_that_contradict_the_model(run, tmp_path):
    (tmp_path / "zero.svm").write_text(FROM_ZERO)
    (tmp_path / "one.svm").write_text(FROM_ONE)
    (tmp_path / "wide.svm").write_text("1 9:1\n")
    run("train", "zero.svm", "zero.model")
    run("train", "one.svm", "one.model")
    for command in ("predict", "certify"):
        assert refused(run(command, "one.model", "zero.svm")) == (
            "zero.svm:1: indices must count from 1, not 0; the model's training data counts from 1;"
            " if this file does not, say --zero-based"
        )
        assert refused(run(command, "zero.model", "one.svm")) == (
            "one.svm:2: the index must be at most 2, not 3; the model's training data counts from"
            " 0; if this file does not, say --one-based"
        )
    assert run("certify", "one.model", "zero.svm", "--zero-based")[0] == 0
    assert refused(run("predict", "one.model", "wide.svm")) == (
        "wide.svm:1: the index must be at most 3, not 9"
    )


def test_converted_text_counts_from_where_it_did(run, tmp_path):
    (tmp_path / "zero.svm").write_text(FROM_ZERO)
    (tmp_path / "one.svm").write_text(FROM_ONE)
    run("convert", "zero.svm", "zero.txt")
    run("convert", "one.svm", "one.txt")
    assert (tmp_path / "zero.txt").read_text() == FROM_ZERO
    assert (tmp_path / "one.txt").read_text() == FROM_ONE


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_of_a_table_go_by_name(run, tmp_path, suffix):
    (tmp_path / "trees.csv").write_text(TREES)
    (tmp_path / "other.csv").write_text("age,label,height,girth\n7,ash,1,2\n")
    for name in ("trees", "other"):
        run("convert", f"{name}.csv", f"{name}.parquet")
    run("train", f"trees.{suffix}", "m", "--lam", 0.1)
    model = batchsvm.load(tmp_path / "m")
    assert model.feature_names == ("height", "girth", "age")
    found = scores(run("predict", "m", f"other.{suffix}", "--scores", "--json"))
    np.testing.assert_array_equal(found, model.decision_function([[1.0, 2.0, 7.0]]))
    assert "height, girth, age" in run("info", "m")[1]
    assert run("certify", "m", f"trees.{suffix}")[0] == 0


def test_columns_that_the_model_does_not_know(run, tmp_path):
    (tmp_path / "trees.csv").write_text(TREES)
    (tmp_path / "other.csv").write_text("height,width,age\n1,2,3\n")
    (tmp_path / "less.csv").write_text("height,label\n1,ash\n")
    run("train", "trees.csv", "m", "--lam", 0.1)
    must = "must have the columns of the training data, but it"
    assert refused(run("predict", "m", "other.csv")) == (
        f"other.csv: {must} lacks 'girth' and it has 'width' more; name the column of labels by"
        " --label, if this is it"
    )
    assert refused(run("certify", "m", "less.csv")) == f"less.csv: {must} lacks 'girth', 'age'"


def test_a_column_of_the_model_is_not_taken_for_the_labels(run, tmp_path):
    (tmp_path / "a.csv").write_text("target,b,tree\n1,0,ash\n0,1,oak\n")
    (tmp_path / "b.csv").write_text("target,b\n1,0\n")
    run("train", "a.csv", "m", "--lam", 0.1, "--label", "tree")
    status, out, _ = run("predict", "m", "b.csv", "--json")
    assert status == 0
    assert json.loads(out)["predictions"] == ["ash"]
