"""Checkpoints that are refused: damaged ones, and those of another training."""

from __future__ import annotations

import os

import numpy as np
import pytest
from checkpoints_here import (
    CODES,
    OPTIONS,
    WEIGHTS,
    X,
    Y,
    place,
    rewritten,
    two_classes,
)
from sources_here import LAM, placed, source_of

import batchsvm
from batchsvm.core.solution import Status


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.checkpoint"


# Files that are refused.


def test_files_of_another_training(file):
    with place(two_classes) as data:
        two_classes(data, max_epochs=2, checkpoint=file)
    begin = f"^checkpoint must be a file of the same training, but {file} is of one with "

    def refuse(words, *source, **how):
        places = {name: how.pop(name) for name in ("parts",) if name in how}
        with placed(source_of(*(source or (X, Y))), **places) as data:
            reads = data.reads
            with pytest.raises(ValueError, match=begin + words):
                batchsvm.fit(data, **{**OPTIONS, "checkpoint": file, **how})
            assert data.reads == reads

    refuse("lam 0.001, not 0.01;", lam=0.01)
    refuse(r"loss Hinge\(margin=1.0\), not Logistic\(newton_steps=3\);", loss="logistic")
    refuse("bias null, not 2.0;", bias=2.0)
    refuse(r"method auto, not Safe\(sampling=.*\);", method="safe")
    refuse("batch_size auto, not 4;", batch_size=4)
    refuse("random_state 7, not 8;", random_state=8)
    refuse("rows 1200, not 1100;", X[:1100], Y[:1100])
    refuse("columns 300, not 299;", X[:, :299], Y)
    refuse("another cut into parts, which depends on max_memory", parts=5)
    other = X.copy()
    other.data[17] *= 1.5
    refuse("other rows of X;", other, Y)
    refuse("other labels;", X, -Y)
    refuse("other labels;", X, np.where(Y > 0, 3, 2))
    refuse("other weights;", X, Y, WEIGHTS)
    refuse("another y, sample_weight or offset;", offset=0.5)
    refuse("another y, sample_weight or offset;", sample_weight=WEIGHTS)
    refuse("another y, sample_weight or offset;", y=Y)
    with placed(source_of(X, Y)) as data, pytest.raises(ValueError, match=begin + "lam"):
        batchsvm.fit_many(data, **{**OPTIONS, "lam": [0.1, 0.01]}, checkpoint=file)


def test_another_training_is_refused_before_the_first_pass(file):
    with place(two_classes) as data:
        two_classes(data, max_epochs=2, checkpoint=file)
    chunks = [(X[at : at + 400], Y[at : at + 400]) for at in range(0, 1200, 400)]
    bad = [(np.full((2, 2), np.nan), [1, -1])]
    with pytest.raises(ValueError, match=r"is of one with lam 0.001, not 0.5"):
        batchsvm.fit(bad, lam=0.5, random_state=7, checkpoint=file)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match="damaged or ends early"):
        batchsvm.fit(bad, lam=1e-3, random_state=7, checkpoint=file)
    file.unlink()
    found = batchsvm.fit(chunks, lam=LAM, random_state=7, checkpoint=file)
    assert found.status is Status.CONVERGED
    assert file.exists()


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A file that was written in the midst of a training."""
    path = tmp_path_factory.mktemp("good") / "run.checkpoint"
    with place(two_classes) as data:
        two_classes(data, max_epochs=3, checkpoint=path)
    return path


def refused(path):
    """The words with which a file is refused before any other work."""
    with pytest.raises(ValueError, match=r".") as caught:
        batchsvm.fit([(np.eye(2), [1, -1])], checkpoint=path, random_state=7, lam=1e-3)
    words = str(caught.value)
    assert words.startswith(f"{path}: ")
    return words.removeprefix(f"{path}: ")


def test_damaged_bytes(good, file):
    content, rng = good.read_bytes(), np.random.default_rng(0)
    places = {*range(20), len(content) - 1, *rng.integers(len(content), size=150).tolist()}
    for at in places:
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        words = refused(file)
        assert words.startswith("is not a checkpoint" if at < 8 else "is damaged or ends early")


def test_files_that_end_early_or_late(good, file):
    content, rng = good.read_bytes(), np.random.default_rng(0)
    for size in {0, 1, 8, 15, 16, 47, 48, *rng.integers(len(content), size=50).tolist()}:
        file.write_bytes(content[:size])
        words = refused(file)
        assert words.startswith("is not a checkpoint" if size < 8 else "is damaged or ends early")
    file.write_bytes(content + b"more")
    assert refused(file).startswith("is damaged")
    file.write_bytes(b"1 1:0.5 2:0.25\n" * 20)
    assert refused(file) == "is not a checkpoint of batchsvm"
    assert file.read_bytes().startswith(b"1 1:0.5")  # the user's own file is still there


def set_entry(name, value, at=0):
    def change(header, arrays):
        arrays[name].reshape(-1)[at] = value

    return change


def set_header(**fields):
    return lambda header, arrays: header.update(fields)


WRONG = {
    "its alpha lies outside of the dual's box: 1.5": set_entry("now", 1.5),
    "its alpha lies outside of the dual's box: -0.1": set_entry("best", -0.1, -1),
    "its array 'now' holds numbers that are not finite": set_entry("now", np.nan),
    "its array 'mean' holds numbers that are not finite": set_entry("mean", np.inf),
    "its array 'w' is not one of shape": lambda header, arrays: arrays.update(w=np.zeros((1, 3))),
    "its array 'best' is not one of": lambda header, arrays: arrays.pop("best"),
    "its rows in memory are not": set_entry("resident_rows", 10**6),
    "its rows in memory": set_entry("resident_rows", -1),
    "its rows": set_entry("resident_parts", 99),
    "its rows in": set_header(bins=[1]),
    "its history is not one of": set_header(records=[10**6]),
    "its history is": set_entry("history", np.float64(np.nan).view(np.int64)),
    "its iterations are not those of whole passes": set_header(iterations=17),
    "its iterations": set_header(passes=0, iterations=0),
    "its header is not one of a checkpoint": set_header(passes=-1),
    "its header is": set_header(seconds="long"),
    "its header": set_header(bins=None),
    "does not say of which training": set_header(found=3),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_has_a_right_checksum_is_not_trusted_either(words, good, file):
    rewritten(good, file, WRONG[words])
    with place(two_classes) as data:
        with pytest.raises(ValueError, match=r".") as caught:
            two_classes(data, checkpoint=file)
        assert str(caught.value).startswith(f"{file}: {words}")


def test_a_copy_is_as_good(good, file):
    rewritten(good, file, lambda header, arrays: None)
    with place(two_classes) as data:
        [whole], [found] = two_classes(data), two_classes(data, checkpoint=file)
    np.testing.assert_array_equal(found.alpha, whole.alpha)


def test_headers_that_are_not_ours(good, file):
    rewritten(good, file, lambda header, arrays: header.update(asked=None))
    assert refused(file) == "does not say of which training it is"
    with pytest.raises(ValueError, match="does not say which random_state it is of"):
        batchsvm.fit([(np.eye(2), [1, -1])], checkpoint=file)


# Parameters that are refused.


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"engine": "cpu"}, 'checkpoint must be None for engine="cpu", whose training is not'),
        ({"engine": "gpu"}, 'checkpoint must be None for engine="gpu"'),
        ({}, 'checkpoint must be None for engine="cpu"'),
        ({"checkpoint": 3}, "checkpoint must be the path of a file, or None, not 3"),
        ({"checkpoint": ""}, "checkpoint must be the path of a file, or None, not ''"),
        ({"checkpoint": "/nowhere/file"}, "checkpoint must be a file in a folder that can be"),
        ({"checkpoint": os.sep}, "checkpoint must be the path of a file, but / is a folder"),
    ],
)
def test_what_is_refused(how, words, file):
    with pytest.raises(ValueError, match=f"^{words}"):
        batchsvm.fit(X, Y, **{"lam": LAM, "checkpoint": file, **how})
    assert not file.exists()


def test_what_is_refused_of_many_problems(file):
    with pytest.raises(ValueError, match=r'^checkpoint must be None for intercept="free"'):
        batchsvm.fit_many([(X, CODES)], intercept="free", checkpoint=file)
    with pytest.raises(ValueError, match=r"^checkpoint must be None for a path"):
        batchsvm.path([(X, Y)], None, [0.1], checkpoint=file)
