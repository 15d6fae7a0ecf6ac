"""What people see: text or JSON on stdout, progress bars on a terminal's stderr."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from batchsvm.cli.standard_input import as_typed

Step = Callable[[float], None]
MOST_CLASSES = 4  # that get a line each


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
    text = json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    click.echo(as_typed(text))


def label_text(label: Any) -> str:
    """A label or a number in the fewest digits that tell it from all others."""
    label = label.item() if hasattr(label, "item") else label
    if isinstance(label, float) and label.is_integer() and abs(label) < 1e16:
        return str(int(label))
    return str(label)


def class_lines(
    certificates: Sequence[Any], classes: Any, tails: Sequence[str] | None = None
) -> list[str]:
    """A line for each class, or for many classes a summary: how many there are, and the worst."""
    tails = [""] * len(certificates) if tails is None else tails
    if len(certificates) == 1 or classes is None:
        return [f"{tail}{c}" for c, tail in zip(certificates, tails, strict=True)]
    names = [f"class {label_text(label)} against the rest" for label in classes]
    if len(certificates) <= MOST_CLASSES:
        return [f"{name}: {tail}{c}"
                for name, tail, c in zip(names, tails, certificates, strict=True)]  # fmt: skip
    worst = max(range(len(certificates)), key=lambda k: certificates[k].relative_gap)
    return [
        f"{len(certificates):,} classes, each against the rest; the worst is"
        f" {names[worst].removesuffix(' against the rest')}: {tails[worst]}{certificates[worst]}"
    ]


def status_words(name: str) -> str:
    """The name of a `Status` as text and JSON have it, such as "max epochs"."""
    return name.lower().replace("_", " ")


def note(text: str) -> None:
    """A remark on stderr that is neither an error nor a warning."""
    click.echo(f"batchsvm: {as_typed(text)}", err=True)


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
