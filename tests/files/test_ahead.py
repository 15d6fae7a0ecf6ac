"""Items that are made one ahead of the caller."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import batchsvm
from batchsvm.engines.streamed import part_reader
from batchsvm.files import libsvm
from batchsvm.files.ahead import one_ahead


def test_items_come_in_their_order():
    assert list(one_ahead(i * i for i in range(50))) == [i * i for i in range(50)]
    assert list(one_ahead(iter_of([]))) == []


def iter_of(items, closed=None):
    try:
        yield from items
    finally:
        if closed is not None:
            closed.set()


def test_the_next_item_is_made_while_the_caller_works():
    made = threading.Event()

    def items():
        yield 1
        made.set()
        yield 2

    with closing(one_ahead(items())) as found:
        assert next(found) == 1
        assert made.wait(10)  # nobody has asked for the second one


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield 1
        raise ValueError("no more")

    found = one_ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no more"):
        next(found)


def test_whoever_stops_early_closes_the_items():
    closed = threading.Event()
    with closing(one_ahead(iter_of(range(10), closed))) as found:
        assert next(found) == 0
    assert closed.wait(10)


def test_items_are_closed_when_the_one_that_is_being_made_is_there():
    closed, begun, goes_on = threading.Event(), threading.Event(), threading.Event()

    def items():
        try:
            yield 1
            begun.set()
            assert goes_on.wait(10)
            yield 2
        finally:
            closed.set()

    found = one_ahead(items())
    assert next(found) == 1
    assert begun.wait(10)
    found.close()  # while a thread makes the second one
    assert not closed.is_set()
    goes_on.set()
    assert closed.wait(10)


def test_nothing_waits_for_a_thread_when_a_generator_ends(monkeypatch):
    """The garbage collector may end it where the threading module holds a lock of `join`."""
    X, y = np.eye(60), np.tile([1.0, -1.0], 30)
    with batchsvm.place([(X, y)] * 3, engine="streamed", max_memory="1MB") as data:
        visit = data.visit(range(len(data.packed.parts)))
        text = libsvm.parsed(Path("x"), iter([b"1 1:1\n"] * 20), 1, 9, 2)
        numbers = one_ahead(iter_of(range(10)))
        for generator in (visit, text, numbers):
            next(generator)

        def join(self, timeout=None):
            raise AssertionError("a generator has waited for a thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "join", join)
            for generator in (visit, text, numbers):
                generator.close()


def a_slow_read(monkeypatch):
    """Reading a part waits for an event, but for the first part."""
    begun, goes_on, real = threading.Event(), threading.Event(), part_reader.load
    calls = []

    def load(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            begun.set()
            assert goes_on.wait(10)
        return real(*arguments)

    monkeypatch.setattr(part_reader, "load", load)
    return begun, goes_on


def test_a_visit_that_ends_early_gives_its_buffers_back(monkeypatch):
    X, y = np.eye(4000, 3), np.tile([1.0, -1.0], 2000)
    with batchsvm.place([(X, y)] * 3, engine="streamed", max_memory="1MB") as data:
        reader, parts = data._reader, range(len(data.packed.parts))
        assert len(parts) > 2
        begun, goes_on = a_slow_read(monkeypatch)
        visit = reader.visit(parts)
        next(visit)
        assert begun.wait(10)
        visit.close()
        assert len(reader._buffers) == 1  # a part is being read into the other one
        goes_on.set()
        reader._coming.result()
        list(reader.visit(parts))
        assert len(reader._buffers) == 2


def test_closed_data_wait_for_the_part_that_is_being_read(monkeypatch):
    X, y = np.eye(4000, 3), np.tile([1.0, -1.0], 2000)
    data = batchsvm.place([(X, y)] * 3, engine="streamed", max_memory="1MB")
    begun, goes_on = a_slow_read(monkeypatch)
    visit = data._reader.visit(range(3))
    next(visit)
    assert begun.wait(10)
    visit.close()
    coming = data._reader._coming
    threading.Timer(0.2, goes_on.set).start()
    data.close()
    assert coming.done()
    assert coming.exception() is None  # its file was there until it was read
