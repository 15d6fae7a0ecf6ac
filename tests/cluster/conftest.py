"""Tests of this folder need Ray: without it they are skipped, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchsvm.engines.ray import placing
from batchsvm.engines.ray.actors import Actors
from small_cluster import HAS_RAY, MISSING

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if not HAS_RAY and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture
def fresh_actors(_cluster, monkeypatch):
    """Actors of this test alone, which may be killed."""
    monkeypatch.setattr(placing, "Actors", Actors)
