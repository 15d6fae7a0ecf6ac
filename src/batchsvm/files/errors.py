"""Errors of data files: what is wrong, in which file, on which line."""

from __future__ import annotations

from os import PathLike
from typing import Any


class DataFileError(ValueError):
    """A data file that cannot be read; the message names the file, and the line if there is one."""

    def __init__(self, path: str | PathLike[str], what: str, line: int | None = None) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {what}")
        self.path, self.line = str(path), line

    def __reduce__(self) -> Any:
        """What it takes to raise it in another process; Python would call it with the message."""
        return _raised_before, (type(self), self.args, self.path, self.line)


def _raised_before(
    kind: type[DataFileError], args: tuple[Any, ...], path: str, line: int | None
) -> DataFileError:
    error = kind(path, "")
    error.args, error.line = args, line
    return error


class IndexBaseError(DataFileError):
    """An index of LIBSVM text that would fit if indices counted from the other of 0 and 1."""


class SourceChangedError(DataFileError):
    """A part of a source that is not what it was when it was read before."""
