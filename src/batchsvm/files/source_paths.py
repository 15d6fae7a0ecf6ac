"""Folders, patterns and lists of files, as one list of files in a fixed order."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from batchsvm.files.arrays import labels_beside
from batchsvm.files.formats import FORMATS

PATH_LIKE = (str, os.PathLike)


def data_files(given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files that are meant: those of a list in its order, those of a folder sorted by name."""
    listed = [given] if isinstance(given, PATH_LIKE) else list(given)
    files: list[Path] = []
    for item in listed:
        if not isinstance(item, PATH_LIKE):
            raise TypeError(
                f"a list of files must hold paths alone, not {type(item).__name__} {item!r:.60}"
            )
        files += _files_of(item)
    seen: dict[str, Path] = {}
    for file in files:
        first = seen.setdefault(os.path.realpath(file), file)
        if first is not file:
            also = "" if first == file else f", also as {first}"
            raise ValueError(f"{file}: is named twice{also}; its rows would count twice")
    return files


def _files_of(item: str | os.PathLike[str]) -> list[Path]:
    path = Path(item)
    if path.is_dir():
        return _files_in(path)
    if path.exists():
        if not path.is_file():
            raise ValueError(f"{path}: is no regular file, and a source is read more than once")
        return [path]
    if not glob.has_magic(str(path)):
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    found = [Path(name) for name in glob.glob(str(path), recursive=True)]
    if not found:
        raise FileNotFoundError(f"{path}: no file matches this pattern")
    # With "**" a folder is found beside the files in it, which are then those of the folder.
    files = {file for place in found for file in (_walk(place) if place.is_dir() else [place])}
    return _sorted(path, files)


def _files_in(folder: Path) -> list[Path]:
    return _sorted(folder, _walk(folder))


def _sorted(given: Path, files: Iterable[Path]) -> list[Path]:
    kept = {file for file in files if not _is_hidden(file) and file.is_file()}
    labels = {labels_beside(file) for file in kept if file.suffix.lower() == ".npy"}
    if not kept - labels:
        raise FileNotFoundError(f"{given}: holds no data file; files are {_formats()}")
    return sorted(kept - labels)


def _walk(folder: Path, above: frozenset[str] = frozenset()) -> Iterator[Path]:
    """All files below a folder; links are followed, unless they lead in a circle."""
    above = above | {os.path.realpath(folder)}
    for path in folder.iterdir():
        if not path.is_dir():
            yield path
        elif not _is_hidden(path) and os.path.realpath(path) not in above:
            yield from _walk(path, above)


def _is_hidden(path: Path) -> bool:
    """Whether a file is none of the data, by its name: `.crc` files, `_SUCCESS`."""
    return path.name.startswith((".", "_"))


def _formats() -> str:
    named = [suffix for suffix in FORMATS if suffix != "other"]
    return f"{', '.join(named)}, and LIBSVM text under any other name"
