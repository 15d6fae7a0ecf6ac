"""No command writes over what it reads, nor one of its results over another, nor into its source.

The files of a run are compared before any work, so that a slip of the hand costs neither
the data nor the time of a training.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
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


def refuse_in_source(outputs: Files, data: str, files: Iterable[Path]) -> None:
    """UsageError if an output is a file of the source DATA, or would become one."""
    given = [(name, file) for name, file in outputs.items() if file]
    for name, file in given:
        if _would_be_part(file, data):
            raise click.UsageError(
                f"{name} must lie outside of DATA, {data!r}, a part of which it would become, not"
                f" {file!r}"
            )
    there = [(name, file, os.path.realpath(file)) for name, file in given if os.path.exists(file)]
    for part in files if there else ():
        for taken in with_labels("", os.fspath(part)).values():
            for name, file, real in there:
                if taken and (os.path.realpath(taken) == real or _same(file, taken)):
                    raise click.UsageError(
                        f"{name} must be another file than {taken} of DATA, not {file!r}"
                    )


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


def _would_be_part(file: str, data: str) -> bool:
    """Whether a file of this name would be read as a part of a folder or of a pattern."""
    path = Path(os.path.realpath(file))
    if os.path.isdir(data):
        below = _below(path, Path(os.path.realpath(data)))
        return below is not None and not any(name.startswith((".", "_")) for name in below)
    if os.path.exists(data) or not glob.has_magic(data):
        return False
    pattern = Path(os.path.abspath(data)).parts
    names = Path(os.path.abspath(file)).parts
    # All files of a folder that matches are parts.
    return any(_matches(names[:end], pattern) for end in range(1, len(names) + 1))


def _below(path: Path, folder: Path) -> Sequence[str] | None:
    return path.relative_to(folder).parts if path.is_relative_to(folder) else None


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path matches a pattern, in which ** stands for any folders.

    >>> _matches(("a", "b", "c.svm"), ("a", "**", "*.svm")), _matches(("a", "b"), ("a", "x*"))
    (True, False)
    """
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(_matches(names[skip:], pattern[1:]) for skip in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])
