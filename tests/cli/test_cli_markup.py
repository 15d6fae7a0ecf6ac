"""Square brackets are text: rich would take them for colours, or for an error."""

from __future__ import annotations

import io

import numpy as np
import pytest
import rich.console

from batchsvm import BatchSVC
from batchsvm.api import fit_many
from batchsvm.cli import output

MARKUP = ["[red]a", "[/red]", "[bold]b[/bold]"]


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that is as wide as all words, and what is written to it."""
    shown = io.StringIO()
    console = rich.console.Console(file=shown, force_terminal=True, width=300)
    monkeypatch.setattr(rich.console, "Console", lambda **_: console)
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True, raising=False)
    return shown


@pytest.mark.parametrize("name", MARKUP)
def test_file_names_and_words_of_a_bar(terminal, name):
    with output.progress(f"reading {name}") as update:
        update(0.5, f"class {name}")
    assert f"reading {name}" in terminal.getvalue()
    assert f"class {name}" in terminal.getvalue()


def test_class_names_of_a_bar(terminal):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.array(MARKUP)[np.argmax(X, axis=1)]
    fit_many(X, y, lam=0.1, tol=1e-6, verbose=1)
    assert any(f"class {name!r}" in terminal.getvalue() for name in MARKUP)
    BatchSVC(lam=0.1, verbose=1).fit(X, y)
