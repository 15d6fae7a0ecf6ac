"""Errors of data files: what is wrong, in which file, on which line."""

from __future__ import annotations

from os import PathLike


class DataFileError(ValueError):
    """A data file that cannot be read; the message names the file, and the line if there is one."""

    def __init__(self, path: str | PathLike[str], what: str, line: int | None = None) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {what}")
        self.path, self.line = str(path), line


class IndexBaseError(DataFileError):
    """An index of LIBSVM text that would fit if indices counted from the other of 0 and 1."""
