"""The first pass of the streamed engine: which rows go where, what is checked, what is stored."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from setting import dense
from sources_here import PartHere, SourceHere, own_problem, placed, rows_like_text, source_of

from batchsvm.engines.labels import LabelCollector
from batchsvm.engines.streamed import packing
from batchsvm.files.errors import SourceChangedError
from helpers import FORMATS, toy


@pytest.mark.parametrize("form", FORMATS)
def test_every_row_is_in_one_part_and_is_what_it_was(form):
    X, y = toy("hinge", n=400)
    stored, weights = FORMATS[form](X), np.arange(400) / 4 + 1
    with placed(source_of(stored, y, weights), parts=7, max_memory="40KB") as data:
        assert (data.n, data.d, data.nonzeros) == (400, 6, getattr(stored, "nnz", stored.size))
        assert data.mean_norm2 == pytest.approx((X**2).sum() / 400)
        seen = np.concatenate(data.cut.places)
        np.testing.assert_array_equal(np.sort(seen), np.arange(400))
        for part in data.visit(range(len(data.cut.places))):
            numbers = data.cut.places[part.number]
            assert np.all(np.diff(numbers) > 0)
            rows = part.data.sample(np.arange(part.data.n))
            np.testing.assert_array_equal(dense(rows), X[numbers])
            assert part.data.rows.values.dtype == stored.dtype
            np.testing.assert_allclose(part.data.norms2, (X[numbers] ** 2).sum(axis=1))
            np.testing.assert_array_equal(part.y, y[numbers])
            np.testing.assert_array_equal(part.weights, weights[numbers])
        np.testing.assert_array_equal(dense(data.sample(np.arange(400))), X)


def test_rows_that_come_sorted_are_spread_over_the_parts():
    X, y = rows_like_text()
    with placed(source_of(X, y)) as data:
        shares = [(part.y > 0).mean() for part in data.visit(range(6), rows=False)]
    assert np.ptp(y[:100]) == 0  # they come sorted
    assert max(abs(share - (y > 0).mean()) for share in shares) < 0.12


def test_parts_are_of_the_size_that_the_budget_allows():
    X, y = rows_like_text(n=4000)
    small, large = (placed(source_of(X, y), max_memory=size) for size in ("100KB", "100MB"))
    with small, large:
        assert len(large.packed.parts) == 6
        assert len(small.packed.parts) > 12  # more than one generation
        limit = packing.Cutting(*small._reader.origin.cutting).part_bytes
        chunk = small._reader.origin.cutting.chunk_bytes
        sizes = [small.packed.loaded_bytes(p) for p in range(len(small.packed.parts))]
        assert max(sizes) <= 1.5 * (limit + chunk / 6)
        rows = [part.rows for part in large.packed.parts]
        assert max(rows) - min(rows) <= packing.WINDOW_ROWS_PER_PART
        np.testing.assert_array_equal(dense(small.sample(np.arange(50))), X[:50].toarray())


def test_sparse_chunks_may_have_any_number_of_columns():
    X, y = rows_like_text(n=100, d=50)
    narrow = sp.csr_array(X[:40, :30])
    source = SourceHere(
        [PartHere("a", narrow, y[:40]), PartHere("b", sp.csr_array(X[40:]), y[40:])]
    )
    with placed(source) as data:
        assert data.d == 50
        np.testing.assert_array_equal(dense(data.sample(np.arange(40)))[:, :30], narrow.toarray())


@pytest.mark.parametrize("second", [[1, 1], [1, 0]])
def test_indices_in_any_order_are_sorted_and_repeated_ones_added_up(second):
    indices = np.array([2, 0, *second])
    given = np.array([1.0, 2.0, 4.0, 8.0]), indices, np.array([0, 2, 4])
    rows = sp.csr_array(given, shape=(2, 3))
    repeated = second == [1, 1]
    with pytest.warns(Warning, match="repeated indices") if repeated else nullcontext():
        data = placed(SourceHere([PartHere("a", rows)]))
    last = [0, 12, 0] if repeated else [8, 4, 0]
    with data:
        np.testing.assert_array_equal(dense(data.sample(np.arange(2))), [[2, 0, 1], last])
        for part in data.visit(range(len(data.cut.places))):
            assert all(np.diff(np.split(part.data.rows.indices, [0, 2])[1].astype(int)) > 0)


def of(**changes):
    """Two parts, the second of which is changed."""
    X, y = toy("hinge", n=40)
    first = {"X": X[:20], "y": y[:20], "weights": None}
    second = {"X": X[20:], "y": y[20:], "weights": None, **changes}
    return SourceHere([PartHere("a.npz", **first), PartHere("b.npz", **second)])


def bad_row():
    X, _ = toy("hinge", n=40)
    X[27, 1] = np.nan
    return X[20:]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": bad_row()}, r"^b.npz: X must be finite .* row 7 holds nan$"),
        (
            {"X": np.ones((20, 5))},
            "^b.npz: X must have 6 columns as in the chunks before it, not 5",
        ),
        ({"y": None}, "y must be of one kind in all parts, but b.npz has no labels where parts"),
        ({"y": np.array(["a"] * 20)}, "b.npz has words where parts before it have numbers"),
        ({"y": np.full(20, np.inf)}, "^y must be finite, but b.npz holds inf$"),
        ({"y": np.ones(19)}, "^b.npz: y and weights must have one entry per row of X, 20, not"),
        ({"weights": np.ones(20)}, "sample_weight must be given for all parts or for none, but b"),
    ],
)
def test_what_is_wrong_in_a_part_is_named(changes, words):
    with pytest.raises(ValueError, match=words):
        placed(of(**changes))


def test_values_do_not_lose_digits_and_do_not_change_their_kind():
    X, y = toy("hinge", n=40)
    first = PartHere("a", X[:20].astype(np.float32), y[:20])
    with pytest.raises(ValueError, match=r"^b: X must have float32 values as in the chunks before"):
        placed(SourceHere([first, PartHere("b", X[20:] / 3, y[20:])]))
    sparse = PartHere("a", sp.csr_array(X[:20]), y[:20])
    with placed(SourceHere([sparse, PartHere("b", X[20:].astype(np.float32), y[20:])])) as data:
        assert not data.packed.dense
        np.testing.assert_array_equal(dense(data.sample(np.arange(40))), X)


def test_weights_are_checked_and_a_chunk_may_weigh_nothing():
    X, y = toy("hinge", n=40)
    weights = np.ones(40)
    weights[:20] = 0.0
    with placed(source_of(X, y, weights), max_memory="10KB") as data:
        assert data.facts(own_problem(data)).total_weight[0] == 20
    weights[30] = -1.0
    with pytest.raises(ValueError, match="sample_weight must be finite and not negative"):
        placed(source_of(X, y, weights))


def test_a_source_without_rows_is_refused():
    with pytest.raises(
        ValueError, match=r"^the source must hold at least one row, but it is empty"
    ):
        placed(SourceHere([]))


def test_a_part_that_changes_while_it_is_read_is_named():
    X, y = toy("hinge")
    source = source_of(X, y)
    part, chunks = source.parts[1], source.parts[1].chunks

    def changing(max_bytes):
        yield from chunks(max_bytes)
        part.version += 1

    part.chunks = changing
    with pytest.raises(SourceChangedError, match=r"^chunk 1: it has changed while it was read$"):
        placed(source)


def test_a_full_disk_is_said_so(monkeypatch):
    X, y = toy("hinge")
    monkeypatch.setattr(packing, "part_path", lambda *_: Path("/dev/full"))
    with pytest.raises(OSError, match=r"^.*the disk of the cache folder .* is full: ") as caught:
        placed(source_of(X, y))
    assert caught.value.errno == errno.ENOSPC


# Labels.


def labels_of(y):
    X, _ = toy("hinge", n=len(y))
    return placed(source_of(X, np.asarray(y)), max_memory="20KB")


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([3, 7] * 20, [3, 7]),
        ([-1.0, 1.0] * 20, [-1, 1]),
        (["yes", "no"] * 20, ["no", "yes"]),
        ([True, False] * 20, [False, True]),
    ],
)
def test_two_classes_become_signs(y, classes):
    with labels_of(y) as data:
        assert data.labels.classes.tolist() == classes
        assert data.labels.classes.dtype.kind == np.asarray(y).dtype.kind
        problem = own_problem(data)
        parts = problem.targets.parts
        signs = [part.read(parts[part.number]).values(0, part.data.n) for part in everything(data)]
        found = data.cut.whole(signs)
    np.testing.assert_array_equal(found, np.where(np.asarray(y) == classes[1], 1, -1))


def everything(data):
    return data.visit(range(len(data.cut.places)), rows=False)


def test_more_classes_are_codes_and_numbers_are_targets():
    y = np.array([2, 5, 9, 5] * 10)
    with labels_of(y) as data:
        targets = data.targets(classes=3)
        assert targets.k == 3
        for part in everything(data):
            numbers = data.cut.places[part.number]
            for k, label in enumerate([2, 5, 9]):
                signs = part.read(targets.only(k).parts[part.number]).values(0, part.data.n)
                np.testing.assert_array_equal(signs, np.where(y[numbers] == label, 1, -1))
            plain = part.read(data.targets().parts[part.number]).values(0, part.data.n)
            np.testing.assert_array_equal(plain, y[numbers])
        with pytest.raises(
            ValueError, match=r"two classes .*, not 3 \(the first are \[2, 5, 9\]\)"
        ):
            data.own_targets("signs")
    with labels_of(["a", "b", "c", "b"] * 10) as data:
        with pytest.raises(
            ValueError, match="y must hold numbers for a regression loss, not words"
        ):
            data.targets()
        codes = [
            part.read(data.targets(classes=3).parts[part.number]).y for part in everything(data)
        ]
        assert data.cut.whole(codes)[:4].tolist() == [0, 1, 2, 1]


def test_a_source_without_labels_asks_for_y():
    X, y = toy("hinge")
    with placed(source_of(X)) as data:
        assert data.labels is None
        with pytest.raises(ValueError, match=r"^y must be given: this data set has no labels"):
            data.targets()
        assert data.targets(y).k == 1


def test_one_class_is_taken_by_its_sign():
    for y, sign in ((np.full(30, 4), 1), (np.full(30, -4), -1), (np.array(["x"] * 30), 1)):
        collector = LabelCollector()
        stored = collector.take(y, "a")
        assert set(collector.found().signs(stored).tolist()) == {sign}
