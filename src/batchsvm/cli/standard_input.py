"""DATA that is `-`: standard input, kept in a file while a command runs.

Data are read more than once, and a reader is chosen by the name of a file, so that what comes in is
written to a temporary file.  Where that file is named in a message, it is called "-".
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

NAME = "-"
_files: list[str] = []


class DataPath(click.Path):
    """A data file, a folder, a pattern, or `-`."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value != NAME or ctx is None:
            return super().convert(value, param, ctx)
        folder = tempfile.mkdtemp(prefix="batchsvm-")
        ctx.call_on_close(lambda: shutil.rmtree(folder, ignore_errors=True))
        path = _keep(Path(folder))
        _files.append(str(path))
        return str(path)


def _keep(folder: Path) -> Path:
    """Standard input in a file; a first line with a comma is that of a CSV file."""
    if sys.stdin is None:
        raise click.UsageError("DATA must be a file where standard input is closed, not -")
    stream = sys.stdin.buffer
    first = stream.readline()
    if first.startswith((b"PAR1", b"PK", b"\x93NUMPY", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
        raise click.UsageError(
            "DATA must be LIBSVM text or CSV on standard input, not compressed or binary data"
        )
    path = folder / ("stdin.csv" if b"," in first else "stdin.svm")
    with path.open("wb") as sink:
        sink.write(first)
        shutil.copyfileobj(stream, sink)
    return path


def is_spooled(file: str) -> bool:
    """Whether this file holds what came by standard input."""
    return file in _files


def as_typed(text: str) -> str:
    """The text with `-` in the place of files that hold standard input."""
    for file in _files:
        text = text.replace(file, NAME)
    return text
