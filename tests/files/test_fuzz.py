"""Any bytes at all: a clear error or a right answer, never a crash, a hang, a wrong number.

A quick version runs with the other tests; `pytest -m slow` gives each more than 100,000
inputs.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import batchsvm
from batchsvm import ModelFileError
from batchsvm.files import libsvm
from batchsvm.models import container
from batchsvm.models.codec import read_fields
from batchsvm.models.model import model_of_solution
from helpers import toy

QUICK, MANY = 300, 110_000
PATH = Path("fuzzed")

# Text that is nearly right: pieces of lines, glued together at random.
PIECES = st.sampled_from(
    [b" ", b"\n", b"\t", b":", b"#", b"1", b"-1", b"+1", b"0", b"1:1", b" 2:0.5", b" 3:-1e-3",
     b"qid:1", b"\r\n", b"e", b".", b"-", b"nan", b"inf", b"1e400", b"9" * 30, b"1:", b":1",
     b"1_0", b"\x00", b"\xff", b"0.1234567890123456789012345", b"2147483648:1",
     b"4611686018427387905:1", b"\x0b", b"\x85", b"  "]
)  # fmt: skip
NEARLY = st.lists(PIECES, max_size=30).map(b"".join)
# Built from few draws: what takes time here is Hypothesis, not the reader.
DIGITS = st.integers(0, 10**25).map(str)
FLOATS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.30e}".format),
    st.builds("{}.{}e{}".format, DIGITS, DIGITS, st.integers(-400, 400)),
    st.builds("-{}{}".format, DIGITS, DIGITS),
)
ROW = st.tuples(FLOATS, st.dictionaries(st.integers(1, 10**6), FLOATS, max_size=6))
RIGHT = st.lists(ROW, min_size=1, max_size=6)


def python_reader(block):
    """The format line by line in plain Python: rows, or None where something is wrong."""
    rows = []
    for line in block.split(b"\n"):
        words = re.split(rb"[ \t\r\v\f]+", line.split(b"#")[0].strip(b" \t\r\v\f"))
        if words == [b""]:
            continue
        if not libsvm.NUMBER.fullmatch(words[0]):
            return None
        entries, last = [], -1
        for word in words[1:]:
            if word.startswith(b"qid:"):
                continue
            index, colon, value = word.partition(b":")
            good = colon and re.fullmatch(rb"[0-9]{1,18}", index) and int(index) > last
            if not good or int(index) > libsvm.LARGEST_INDEX or not libsvm.NUMBER.fullmatch(value):
                return None
            last = int(index)
            entries.append((last, float(value)))
        rows.append((float(words[0]), entries))
    return rows


def same(a, b):
    return np.asarray(a, float).tobytes() == np.asarray(b, float).tobytes()


def check_reader(block):
    expected = python_reader(block)
    try:
        part = libsvm._parse_block(block, 0, libsvm.LARGEST_INDEX)
    except libsvm._Malformed as fault:
        assert expected is None, (block, fault)
        assert 0 <= fault.position <= len(block)
        return
    assert expected is not None, block
    assert same(part.labels, [label for label, _ in expected]), block
    entries = [entry for _, row in expected for entry in row]
    assert part.indices.tolist() == [index for index, _ in entries], block
    assert same(part.values, [value for _, value in entries]), block
    assert part.indptr.tolist() == np.cumsum([0] + [len(row) for _, row in expected]).tolist()


def right_text(rows):
    lines = (
        " ".join([label, *(f"{k}:{row[k]}" for k in sorted(row))]) + "\n" for label, row in rows
    )
    return "".join(lines).encode()


BLOCKS = st.one_of(st.binary(max_size=60), NEARLY, NEARLY, RIGHT.map(right_text))
LOOSE = {"suppress_health_check": list(HealthCheck), "deadline": None}


@settings(max_examples=QUICK, **LOOSE)
@given(BLOCKS)
def test_the_reader_on_any_bytes(block):
    check_reader(block)


@pytest.mark.slow
@settings(max_examples=MANY, **LOOSE)
@given(BLOCKS)
def test_the_reader_on_very_many_inputs(block):
    check_reader(block)


@pytest.fixture(scope="module")
def saved():
    X, y = toy("hinge", n=8, d=2)
    solution = batchsvm.fit(X, y, lam=0.1, random_state=0)
    model = model_of_solution(solution, y)
    written = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            container, "write", lambda path, header, arrays: written.append((header, arrays))
        )
        model.save(PATH)
    header, arrays = written[0]
    return container.encode(header, arrays), X, model


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
# Where to strike: raw bytes, or an entry of the header (with a right checksum afterwards).
DAMAGE = st.one_of(
    st.tuples(st.just("bytes"), st.integers(0, 10**6), st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("cut"), st.integers(0, 10**6), st.none()),
    st.tuples(st.just("resealed bytes"), st.integers(0, 10**6), st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("header"), st.integers(0, 10**6), JSON),
    st.tuples(st.just("anything"), st.none(), st.binary(max_size=200)),
)


def places(tree, path=()):
    """Every place in a JSON document."""
    yield path
    if isinstance(tree, dict | list):
        for key in sorted(tree) if isinstance(tree, dict) else range(len(tree)):
            yield from places(tree[key], (*path, key))


def damaged(content, kind, where, what):
    if kind == "anything":
        return what
    if kind == "cut":
        return content[: where % len(content)]
    if kind == "header":
        length = int.from_bytes(content[12:16], "little")
        header = json.loads(content[16 : 16 + length])
        found = list(places(header))[1:]
        *way, last = found[where % len(found)]
        target = header
        for key in way:
            target = target[key]
        target[last] = what
        text = json.dumps(header).encode()
        start = -(-(16 + length) // 64) * 64
        body = content[:12] + len(text).to_bytes(4, "little") + text
        body += bytes(-len(body) % 64) + content[start:-32]
        return body + hashlib.sha256(body).digest()
    where %= len(content)
    changed = content[:where] + what + content[where + len(what) :]
    if kind == "bytes":
        return changed
    return changed[:-32] + hashlib.sha256(changed[:-32]).digest()


def check_loader(saved, patch, kind, where, what):
    content, X, model = saved
    changed = damaged(content, kind, where, what)
    patch.setattr(container, "read", lambda path, known: container.decode(changed, path, known))
    try:
        fields = read_fields(PATH)
    except ModelFileError as error:
        assert str(error).startswith("fuzzed: ")
        assert "\n" not in str(error) or kind == "header"
        return
    loaded = batchsvm.Model(**fields)
    assert loaded.predict(X[:, : loaded.n_features]).shape == (8,)
    assert np.isfinite(loaded.coef).all()
    if kind in ("bytes", "cut", "anything"):  # the checksum leaves no room for another model
        assert changed == content
        np.testing.assert_array_equal(loaded.coef, model.coef)


@settings(max_examples=QUICK, **LOOSE)
@given(DAMAGE)
def test_the_loader_on_any_damage(saved, damage):
    with pytest.MonkeyPatch.context() as patch:
        check_loader(saved, patch, *damage)


@pytest.mark.slow
@settings(max_examples=MANY, **LOOSE)
@given(DAMAGE)
def test_the_loader_on_very_many_damages(saved, damage):
    with pytest.MonkeyPatch.context() as patch:
        check_loader(saved, patch, *damage)
