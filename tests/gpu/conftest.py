"""Tests of this folder need a CUDA device: without one they are skipped, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchsvm.engines.gpu.device import DeviceError, device_count, device_of

HERE = Path(__file__).parent


def why_not() -> str:
    """Why there is no device; empty if there is one."""
    try:
        return "" if device_count() else "there is no CUDA device"
    except DeviceError as error:
        return str(error)


def pytest_collection_modifyitems(items):
    reason = why_not()
    for item in items:
        if reason and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cuda():
    """The first device, as the engine sees it."""
    return device_of(0)
