"""Trainings that are saved to a file, ended, and gone on with."""

from __future__ import annotations

import numpy as np
import pytest
from sources_here import placed, rows_like_text, source_of

import batchsvm
from batchsvm.engines.streamed.checkpoint_file import open_checkpoint, write_checkpoint
from batchsvm.engines.streamed.trainer import StreamedTrainer

X, Y = rows_like_text()
CODES = np.arange(1200) % 3
WEIGHTS = np.random.default_rng(0).integers(0, 3, size=1200) + 0.1
OPTIONS = {"lam": 1e-3, "tol": 1e-4, "random_state": 7}


def two_classes(data, **how):
    return [batchsvm.fit(data, **{**OPTIONS, "warn": False, **how})]


def three_classes(data, **how):
    return list(batchsvm.fit_many(data, **{**OPTIONS, "warn": False, **how}))


def biased(data, **how):
    return two_classes(data, bias=0.5, loss="squared_hinge", **{"tol": 1e-3, **how})


def offset(data, **how):
    fixed = np.linspace(-1, 1, 1200)
    return two_classes(data, offset=fixed, loss="logistic", **{"tol": 1e-7, **how})


def lams(data, **how):
    more = {"lam": [0.1, 1e-2], "intercept": "penalised"}
    return three_classes(data, **how, **more)


SOURCES = {
    two_classes: (X, Y),
    three_classes: (X, CODES),
    biased: (X, Y, WEIGHTS),
    offset: (np.asarray(X.todense()), Y),
    lams: (X, Y),
}


def contents(path):
    """The header and the arrays of a file."""
    arrays = {}
    with open_checkpoint(path) as saved:
        for name, own in saved._places.items():
            arrays[name] = np.empty(own.shape, own.dtype)
            saved.read_into(name, arrays[name])
        return saved.header, arrays


def header_of(path):
    return contents(path)[0]


def place(train):
    return placed(source_of(*SOURCES[train]))


def assert_same(ours, theirs):
    """The same run: the same points to the last bit, and the same certificates to rounding."""
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.w, other.w)
        np.testing.assert_array_equal(one.alpha, other.alpha)
        for name in ("primal", "dual"):
            value = getattr(other.certificate, name)
            assert getattr(one.certificate, name) == pytest.approx(value, rel=1e-14)
        assert one.certificate.gap == pytest.approx(other.certificate.gap, rel=1e-12, abs=1e-14)
        assert one.status is other.status
        for name in ("iteration", "epoch", "primal", "dual", "beta", "refused"):
            mine, its = (getattr(own.history, name) for own in (one, other))
            np.testing.assert_array_equal(mine, its)
            assert mine.dtype == its.dtype


class Killed(BaseException):
    """Stands for whatever ends a process."""


def stop_in_pass(monkeypatch, number, error):
    """Raise an error in the midst of this pass."""
    store = StreamedTrainer._store

    def watched(self, part):
        store(self, part)
        if self._pass == number and self._left == 3:
            raise error

    monkeypatch.setattr(StreamedTrainer, "_store", watched)


def rewritten(good, file, change):
    """The file with other content, and the checksum of that."""
    header, arrays = contents(good)
    change(header, arrays)
    write_checkpoint(file, header, list(arrays.items()))
