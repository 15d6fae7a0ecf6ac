"""A re-iterable of chunks as a source: one iteration per pass, and every pass alike."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from batchsvm.files.errors import SourceChangedError
from batchsvm.files.sources import open_source


class Again:
    """Chunks that are made anew in each iteration; counts the iterations and the chunks."""

    def __init__(self, make, count):
        self.make, self.count = make, count
        self.begun = self.made = 0

    def __iter__(self):
        self.begun += 1
        for k in range(self.count):
            self.made += 1
            yield self.make(k)


def chunk(k, n=10, d=3):
    rng = np.random.default_rng(k)
    return rng.normal(size=(n, d)), rng.integers(0, 2, n), rng.random(n)


def read_all(source, max_bytes=1 << 20):
    return [
        [np.concatenate([piece[j] for piece in pieces]) for j in range(3)]
        for _, chunks in source.one_pass(max_bytes)
        for pieces in [list(chunks)]
    ]


@pytest.mark.parametrize("max_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("as_list", [True, False])
def test_chunks_come_as_they_are(as_list, max_bytes):
    given = Again(chunk, 5)
    source = open_source(list(given) if as_list else given)
    for _ in range(2):
        for k, found in enumerate(read_all(source, max_bytes)):
            for mine, theirs in zip(found, chunk(k), strict=True):
                np.testing.assert_array_equal(mine, theirs)
    assert [part.name for part in source.parts] == [f"chunk {k}" for k in range(5)]
    [*pieces] = source.parts[3].chunks(max_bytes)
    np.testing.assert_array_equal(np.vstack([piece.X for piece in pieces]), chunk(3)[0])


def test_a_pass_iterates_once_and_parts_are_counted_once():
    given = Again(chunk, 7)
    source = open_source(given)
    assert given.made == 0
    read_all(source)
    assert (given.begun, given.made) == (1, 7)
    parts = source.parts
    fingerprints = [part.fingerprint() for part in parts]
    assert (given.begun, given.made) == (1, 7)
    assert len(set(fingerprints)) == 7
    read_all(source)
    assert (given.begun, given.made) == (2, 14)
    assert [part.fingerprint() for part in source.parts] == fingerprints
    fresh = open_source(given)
    assert [part.fingerprint() for part in fresh.parts] == fingerprints


def test_a_part_of_a_list_is_taken_directly():
    made = [chunk(k) for k in range(4)]
    source = open_source(made)
    fingerprint = source.parts[2].fingerprint()
    assert fingerprint == open_source(Again(chunk, 4)).parts[2].fingerprint()
    made[0] = None  # not looked at
    assert len(list(source.parts[2].chunks(1))) == 10


def test_one_chunk_is_held_at_a_time():
    seen = []

    def make(k):
        assert all(array() is None for array in seen)
        X, y, _ = chunk(k)
        seen.append(weakref.ref(X))
        return X, y

    for _, chunks in open_source(Again(make, 4)).one_pass(100):
        for piece in chunks:
            assert seen[-1]() is not None
            del piece
    assert len(seen) == 4


def test_types_of_chunks():
    words = np.array(["a", "b"], dtype=object)
    cases = [
        (np.ones((2, 2), dtype=np.float32), np.float32, words),
        (np.ones((2, 2), dtype=np.int8), np.float64, [1, 2]),
        ([[1, 2], [3, 4]], np.float64, np.array([1.5, 2], dtype=object)),
        (sp.csc_array(np.eye(2, dtype=np.float32)), np.float32, [True, False]),
        (np.asfortranarray(np.arange(4.0).reshape(2, 2)), np.float64, ("x", "y")),
    ]
    for X, dtype, y in cases:
        [(_, chunks)] = open_source([(X, y)]).one_pass(1)
        pieces = list(chunks)
        assert [piece.X.dtype for piece in pieces] == [dtype, dtype]
        assert all(not sp.issparse(piece.X) or piece.X.format == "csr" for piece in pieces)
        plain = X.toarray() if sp.issparse(X) else np.asarray(X)
        found = [piece.X.toarray() if sp.issparse(piece.X) else piece.X for piece in pieces]
        np.testing.assert_array_equal(np.vstack(found), plain)
        labels = np.concatenate([piece.y for piece in pieces])
        assert labels.tolist() == list(y)
        assert labels.dtype.kind in "fiubU"
        assert pieces[0].weights is None


@pytest.mark.parametrize("place", [0, 1, 2, (0, "sparse")])
def test_a_chunk_that_changes_between_passes_is_named(place):
    change = [False]

    def make(k):
        parts = list(chunk(k))
        if k == 2 and change[0]:
            j = place if isinstance(place, int) else 0
            parts[j] = parts[j].copy()
            parts[j].flat[-1] += 1
        if not isinstance(place, int):
            parts[0] = sp.csr_array(parts[0])
        return tuple(parts)

    source = open_source(Again(make, 4))
    list(source.one_pass(100))
    list(source.one_pass(100))
    change[0] = True
    with pytest.raises(SourceChangedError, match="chunk 2: is not what it was in the pass before"):
        list(source.one_pass(100))
    with pytest.raises(SourceChangedError, match="chunk 2: is not what it was in the pass before"):
        list(source.parts[2].chunks(100))


def test_another_number_of_chunks_is_noticed():
    given = Again(chunk, 4)
    source = open_source(given)
    list(source.one_pass(100))
    parts = source.parts
    for count in (3, 5, 0):
        given.count = count
        with pytest.raises(SourceChangedError, match=f"are {count} now, and were 4 in the pass"):
            list(source.one_pass(100))
    with pytest.raises(SourceChangedError, match="chunk 3: was there in the pass before"):
        list(parts[3].chunks(100))


X, Y = np.ones((2, 3)), np.array([1, 0])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([X, Y], r"must be a tuple \(X, y\) or \(X, y, weights\), not list"),
        (X, r"must be a tuple \(X, y\) or \(X, y, weights\), not ndarray"),
        ((X,), "not a tuple of 1"),
        ((X, Y, None, None), "not a tuple of 4"),
        ((X[0], Y), r"X must have rows and columns, not shape \(3,\)"),
        ((X[:, :0], Y), r"X must have rows and columns, not shape \(2, 0\)"),
        ((X.astype(complex), Y), "X must hold real numbers, not complex128"),
        ((X.astype(object), Y), "X must hold real numbers, not object"),
        (([[1], [1, 2]], Y), "X cannot be read as an array"),
        ((X, None), "y must be the labels of its rows, not None"),
        ((X, Y[:1]), r"y must be 2 numbers or words, .* not int64 of shape \(1,\)"),
        ((X, [1, "a", None]), "y must be 2 numbers or words"),
        ((X, np.array([1, None])), "y must be 2 numbers or words, .* not object"),
        ((X, Y, [1.0]), r"weights must be 2 numbers, .* not float64 of shape \(1,\)"),
        ((X, Y, ["a", "b"]), "weights must be 2 numbers, .* not <U1"),
        ((np.ones((2, 4)), Y, Y), "has 4 columns, but chunk 0 has 3 columns"),
        ((sp.csr_array(X), Y, Y), "has sparse rows, but chunk 0 has dense rows"),
        ((X.astype(np.float32), Y, Y), "has numbers of float32, but chunk 0 has .* float64"),
        ((X, ["a", "b"], Y), "has words as labels, but chunk 0 has numbers as labels"),
        ((X, Y), "has no weights, but chunk 0 has weights"),
    ],
)
def test_chunks_that_are_refused(bad, words):
    source = open_source([(X, Y, Y), bad, (X, Y, Y)])
    with pytest.raises(ValueError, match=f"^chunk 1: .*{words}"):
        list(source.one_pass(100))


def test_a_broken_matrix_is_refused():
    broken = sp.csr_array(np.eye(3))
    broken.indices[1] = 7
    with pytest.raises(ValueError, match=r"chunk 0: X cannot be read .* between 0 and 2, not 7"):
        list(open_source([(broken, [1, 2, 3])]).one_pass(100))


def test_the_number_of_columns_that_is_asked_for():
    with pytest.raises(ValueError, match="chunk 0: has 3 columns, not 4 as n_features says"):
        list(open_source([(X, Y)], n_features=4).one_pass(100))


def test_labels_may_be_missing_where_nobody_needs_them():
    [(_, chunks)] = open_source([(X, None)], needs_labels=False).one_pass(100)
    assert next(chunks).y is None


def test_chunks_without_rows():
    source = open_source([(X[:0], Y[:0]), (X, Y)])
    assert [len(list(chunks)) for _, chunks in source.one_pass(1000)] == [0, 1]
    for empty in ([(X[:0], Y[:0])], Again(chunk, 0)):
        with pytest.raises(ValueError, match=r"the chunks of .*: hold no rows"):
            list(open_source(empty).one_pass(100))
