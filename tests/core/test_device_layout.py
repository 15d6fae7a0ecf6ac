"""Layouts on a device: what is chosen, what it takes, what is done where memory is short."""

from __future__ import annotations

import pytest

from batchsvm.core.device_layout import (
    MAX_BATCH_ROWS,
    PASS_BYTES,
    DeviceSize,
    DeviceWork,
    lay_out_on_device,
    memory_of,
    problems_that_fit,
    rows_memory,
)
from batchsvm.methods import Aggressive, Asynchronous, Blocks, Gram, Guarded

GIB = 2**30


def work(n=1_000_000, columns=512, problems=1, free=100 * GIB, dense=True):
    size = DeviceSize("a device", 132, free, 4 * n * columns, dense)
    return DeviceWork(n, columns, n * columns, problems, size)


@pytest.mark.parametrize("problems", [1, 7, 8, 1000])
def test_rows_of_a_round_fill_a_device_whatever_the_problems(problems):
    layout = lay_out_on_device(work(problems=problems), None, None)
    assert isinstance(layout.method, Gram)
    assert layout.batches * layout.batch_size == 2048
    assert f"{layout.batches} batches at once" in layout.reason
    assert "memory beside X" in layout.reason


def test_few_rows_make_few_batches_at_once():
    assert lay_out_on_device(work(n=150), None, None).batches == 1
    layout = lay_out_on_device(work(n=3000), None, None)
    assert layout.batches * 8 <= -(-3000 // layout.batch_size)
    assert 'engine="cpu" is likely to be faster' in layout.reason
    assert "likely to be faster" not in lay_out_on_device(work(), None, None).reason


def test_what_was_asked_for_is_taken():
    layout = lay_out_on_device(work(), Gram(batches=3), 100)
    assert (layout.batch_size, layout.batches) == (100, 3)
    assert lay_out_on_device(work(dense=False), None, 77).batch_size == 77
    assert lay_out_on_device(work(n=200), Gram(batches=50), 64).batches == 4  # all there are


@pytest.mark.parametrize(
    ("dense", "method", "words"),
    [
        (True, Guarded(), 'for dense rows on the gpu engine, not "guarded"'),
        (False, Blocks(), 'for sparse rows on the gpu engine, not "blocks"'),
        (False, Gram(), 'for sparse rows on the gpu engine, not "gram"'),
    ],
)
def test_other_methods_are_refused_with_those_that_are_offered(dense, method, words):
    with pytest.raises(ValueError, match=words) as error:
        lay_out_on_device(work(dense=dense), method, None)
    assert '"aggressive"' in str(error.value)


def test_batches_that_no_warp_can_hold_are_refused():
    with pytest.raises(ValueError, match=f"batch_size must be at most {MAX_BATCH_ROWS}"):
        lay_out_on_device(work(), Gram(), MAX_BATCH_ROWS + 1)


def test_memory_is_what_the_arrays_take():
    memory = memory_of(work(n=1000, columns=10, problems=5), size=100, batches=2, keeps_gram=True)
    rows = 10 * 128  # ten batches, padded to warps
    assert memory.alpha == 2 * 4 * rows * 5
    assert memory.gram == 4 * 10 * 128 * 128
    assert memory.space < PASS_BYTES  # little data need little
    large = memory_of(work(problems=5), 100, 2, keeps_gram=True)
    assert large.space > PASS_BYTES
    kept = memory_of(work(n=1000, columns=10, problems=5), 100, 2, keeps_gram=False)
    assert kept.gram == 4 * 2 * 128 * 128


def test_gram_matrices_are_given_up_first_then_the_size_of_batches():
    def layout_with(free):
        return lay_out_on_device(work(problems=100, free=int(free)), None, None)

    full = memory_of(work(problems=100), 128, 16, keeps_gram=True).total / 0.9
    without = memory_of(work(problems=100), 128, 16, keeps_gram=False).total / 0.9
    assert layout_with(full + 100).keeps_gram
    short = layout_with(full - 10_000)
    assert not short.keeps_gram
    assert short.batch_size == 128
    assert "computed anew in each round for want of room" in short.reason
    shorter = layout_with(without - 10_000)
    assert shorter.batch_size < 128


def test_what_does_not_fit_is_refused_with_the_numbers():
    with pytest.raises(ValueError, match=r"alpha .* 2 GiB are free") as error:
        lay_out_on_device(work(problems=10_000, free=2 * GIB), None, None)
    for word in ("10000 problems", "1,000,000 rows", "of X", 'engine="cpu"'):
        assert word in str(error.value)


def test_as_many_problems_are_trained_at_once_as_fit():
    small = work(free=20 * GIB)
    count = problems_that_fit(small)
    assert 1 < count < 10_000
    lay_out_on_device(small._replace(problems=count), None, None)
    assert problems_that_fit(work(free=GIB)) == 1


def test_sparse_rows_are_trained_without_waiting_or_with_the_same_bits():
    sparse = work(dense=False)
    layout = lay_out_on_device(sparse, None, None)
    assert isinstance(layout.method, Asynchronous)
    assert layout.batch_size == 16 * sparse.device.multiprocessors
    assert "half as many after an epoch in which the dual objective falls" in layout.reason
    assert lay_out_on_device(work(n=320, dense=False), None, None).batch_size == 10
    assert lay_out_on_device(work(n=5, dense=False), None, None).batch_size == 1
    fixed = sparse._replace(device=sparse.device._replace(deterministic=True))
    assert isinstance(lay_out_on_device(fixed, None, None).method, Aggressive)
    with pytest.raises(ValueError, match='deterministic=True, not "asynchronous"'):
        lay_out_on_device(fixed, Asynchronous(), None)


def test_as_many_problems_of_sparse_rows_as_fit_are_trained_at_once():
    sparse = work(dense=False)
    small = sparse._replace(device=sparse.device._replace(free_bytes=5 * rows_memory(sparse)))
    assert problems_that_fit(sparse) > problems_that_fit(small) == 4
    lay_out_on_device(small._replace(problems=4), None, None)
    with pytest.raises(ValueError, match=r"^X must leave room on a device: 6 problems over"):
        lay_out_on_device(small._replace(problems=6), None, None)
