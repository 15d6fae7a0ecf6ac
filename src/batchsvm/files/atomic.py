"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], text: bool = False) -> Iterator[IO[Any]]:
    """A new file that takes the place of `path` when the block ends without an error.

    It is written beside `path` under another name, brought to the disk, and renamed, which
    file systems do in one step: whoever reads `path` finds the old file or the new one.

    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "notes"
    >>> with replacing(path, text=True) as sink:
    ...     _ = sink.write("whole")
    >>> path.read_text()
    'whole'
    >>> folder.cleanup()
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    try:
        with open(handle, "w" if text else "wb", encoding="utf-8" if text else None) as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        os.chmod(name, _mode_for(path))
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _mode_for(path: Path) -> int:
    """The permissions of the file that is replaced, or those any new file would get."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
