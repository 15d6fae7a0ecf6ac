"""Arrays that begin with a cache line."""

from __future__ import annotations

import numpy as np
import pytest

from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.engines.cache_lines import LINE_BYTES, empty_in_lines
from batchsvm.engines.host_problem import EXAMPLE
from batchsvm.losses import LOSSES
from helpers import HOST_ENGINES, toy


@pytest.mark.parametrize("dtype", [np.float64, np.int8, EXAMPLE])
def test_arrays_begin_with_a_cache_line_and_have_memory_of_their_own(dtype):
    made = [empty_in_lines(count, dtype) for count in (1, 7, 64, 1000) for _ in range(5)]
    for array in made:
        assert array.ctypes.data % LINE_BYTES == 0
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
    for k, array in enumerate(made):
        array.view(np.uint8)[:] = k
    for k, array in enumerate(made):
        assert (array.view(np.uint8) == k).all()
    assert empty_in_lines(0, dtype).size == 0


@pytest.mark.parametrize("engine", HOST_ENGINES)
def test_no_record_of_a_row_lies_in_two_cache_lines(engine):
    assert LINE_BYTES % EXAMPLE.itemsize == 0
    X, y = toy("hinge")
    kept = []
    with place_on(engine, X, 1) as data:
        for _ in range(20):  # by chance, one record of four begins with a line anyway
            kept.append(data.bind(make_problem(data.targets(y), LOSSES["hinge"](), 0.1)))
            assert kept[-1].examples.ctypes.data % LINE_BYTES == 0
