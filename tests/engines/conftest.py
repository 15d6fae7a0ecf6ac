"""What the tests of engines run over; the losses are those of the tests above."""

from __future__ import annotations

import pytest
from setting import Setting

from batchsvm.engines import ENGINES
from helpers import FORMATS, toy


@pytest.fixture(params=list(ENGINES))
def engine(request):
    return request.param


@pytest.fixture(params=[name for name in ENGINES if name != "reference"])
def tested_engine(request):
    """An engine to be compared with the reference."""
    return request.param


@pytest.fixture(params=[1, 3])
def k(request):
    return request.param


@pytest.fixture
def setting(engine, loss_name, k):
    found = Setting(engine, loss_name, k).place()
    with found.data:
        yield found


@pytest.fixture(params=["dense-float64", "dense-float32", "csr-float64-int32", "csr-float32-int32"])
def stored(request):
    """X in one storage, and in plain float64."""
    X, _ = toy("hinge")
    return FORMATS[request.param](X), X
