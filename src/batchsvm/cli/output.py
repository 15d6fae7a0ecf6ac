"""What people see: text or JSON on stdout, progress bars on a terminal's stderr."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

Step = Callable[[float], None]


def plain(value: Any) -> Any:
    """A value as JSON has it: no infinities, no NumPy."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value


def print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def label_text(label: Any) -> str:
    """A label or a number in the fewest digits that tell it from all others."""
    label = label.item() if hasattr(label, "item") else label
    if isinstance(label, float) and label.is_integer() and abs(label) < 1e16:
        return str(int(label))
    return str(label)


def table(head: list[str], rows: list[list[str]], left: int = 1) -> str:
    """Columns under their heads; the first `left` of them are words, the others numbers."""
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]

    def line(row: list[str]) -> str:
        cells = [
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in [head, *rows])


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[float, str], None]]:
    """A bar while the block runs, if stderr is a terminal; call it with a share and words."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda share, words: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[words]}", markup=False),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=1.0, words="")

        def update(share: float, words: str) -> None:
            bars.update(task, completed=min(max(share, 0.0), 1.0), words=words)

        yield update


@contextlib.contextmanager
def simple_progress(what: str) -> Iterator[Step]:
    with progress(what) as update:
        yield lambda share: update(share, "")


def certificate_facts(certificate: Any) -> dict[str, Any]:
    return {
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.gap,
        "rounding": certificate.rounding,
        "bound": certificate.bound,
        "relative_gap": certificate.relative_gap,
        "support_vectors": certificate.support_vectors,
    }
