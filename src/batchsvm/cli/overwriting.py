"""No command writes over what it reads, nor one of its results over another.

The files of a run are compared before any work, so that a slip of the hand costs neither
the data nor the time of a training.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

Files = dict[str, str | None]  # what the command calls it, and the file if one was given


def refuse_overwriting(outputs: Files, inputs: Files) -> None:
    """UsageError if an output is one of the inputs, or another output."""
    known = [(name, file) for name, file in inputs.items() if file]
    for name, file in outputs.items():
        if not file:
            continue
        for other, taken in known:
            if _same(file, taken):
                raise click.UsageError(f"{name} must be another file than {other}, not {file!r}")
        known.append((name, file))


def with_labels(name: str, file: str) -> Files:
    """A data file, and the file beside it that has the labels of an .npy."""
    from batchsvm.files.arrays import labels_beside

    if not file.lower().endswith(".npy"):
        return {name: file}
    return {name: file, f"the labels of {name}": os.fspath(labels_beside(Path(file)))}


def _same(first: str, second: str) -> bool:
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    try:
        return os.path.samefile(first, second)  # hard links, and disks that ignore case
    except OSError:  # one of them is not there yet
        return False
