"""The examples of README.md and of the pages in docs/ run in an empty folder of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def folder_of_a_page(request, tmp_path_factory, monkeypatch):
    if request.node.path.suffix == ".md":
        monkeypatch.chdir(tmp_path_factory.mktemp("page"))
