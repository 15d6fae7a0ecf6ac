"""What a callback is called with: one that cannot be called so is refused before any work."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import batchsvm
from batchsvm.core.loop import Loop
from helpers import toy

X, Y = toy("hinge")
CLASSES = np.arange(len(Y)) % 3
FIT = {"random_state": 0, "tol": 0.1}
CALLS = {  # and the number of arguments that their callbacks get
    "fit": (lambda callback: batchsvm.fit(X, Y, lam=0.1, callback=callback, **FIT), 1),
    "path": (lambda callback: batchsvm.path(X, Y, [0.1], callback=callback, **FIT), 1),
    "fit_many": (
        lambda callback: batchsvm.fit_many(X, CLASSES, lam=0.1, callback=callback, **FIT),
        2,
    ),
    "fit_many, one problem": (
        lambda callback: batchsvm.fit_many(X, Y, lam=0.1, callback=callback, **FIT),
        2,
    ),
    "path, three classes": (
        lambda callback: batchsvm.path(X, CLASSES, [0.1], callback=callback, **FIT),
        2,
    ),
}
WORDS = {
    1: "one argument, a Checkpoint, for one problem",
    2: "two arguments, the number of a problem and a Checkpoint, for many problems",
}
TAKE = {  # callbacks, by the numbers of arguments that they take
    "none": (lambda: None, ()),
    "one": (lambda seen: None, (1,)),
    "two": (lambda k, seen: None, (2,)),
    "one or two": (lambda k, seen=None: None, (1, 2)),
    "three": (lambda k, seen, more: None, ()),
    "any": (lambda *arguments: None, (1, 2)),
    "one more by name": (lambda seen, *, more: None, ()),
    "partial": (partial(lambda more, seen: None, 1), (1,)),
    "a function in C": (max, ()),  # which does not tell what it takes
}


class Trained(Exception):
    """Training has begun."""


@pytest.fixture
def stops(monkeypatch):
    def begin(*_):
        raise Trained

    monkeypatch.setattr(Loop, "train", begin)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", TAKE)
def test_a_callback_of_other_arguments_is_refused_before_training(call, kind, stops):
    (train, count), (callback, takes) = CALLS[call], TAKE[kind]
    if count in takes or kind == "a function in C":
        with pytest.raises(Trained):
            train(callback)
        return
    with pytest.raises(ValueError, match=f"^callback must take {WORDS[count]}, but it takes "):
        train(callback)


@pytest.mark.parametrize("call", CALLS)
def test_what_callbacks_are_called_with(call):
    (train, count), seen = CALLS[call], []
    train(lambda *arguments: seen.append(arguments))
    assert {len(arguments) for arguments in seen} == {count}
    assert all(hasattr(arguments[-1], "certificate") for arguments in seen)


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_callback(call, stops):
    with pytest.raises(ValueError, match=r"^callback must be callable or None, not 3$"):
        CALLS[call][0](3)
