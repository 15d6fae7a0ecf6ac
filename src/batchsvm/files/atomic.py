"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".partial"
IN_MEMORY = 1 << 24  # bytes for a device that are not put into a temporary file


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], text: bool = False) -> Iterator[IO[Any]]:
    """A new file that takes the place of `path` when the block ends without an error.

    It is written beside `path` under another name, brought to the disk, and renamed, which
    file systems do in one step: whoever reads `path` finds the old file or the new one.  What a
    writer that was killed has left under such a name is removed.  A device, a FIFO or a socket is
    not replaced: it is written to when the block has ended.

    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "notes"
    >>> with replacing(path, text=True) as sink:
    ...     _ = sink.write("whole")
    >>> path.read_text()
    'whole'
    >>> folder.cleanup()
    """
    if _is_special(path):
        with _sending(path, text) as sink:
            yield sink
        return
    path = Path(os.path.realpath(path))  # a link stays a link
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder")
    _remove_stale(path)
    handle, name = _new_file(path)
    try:
        with _locked(handle):
            with open(handle, "w" if text else "wb", encoding="utf-8" if text else None) as sink:
                yield sink
                sink.flush()
                os.fsync(sink.fileno())
            os.chmod(name, _mode_for(path))
            os.replace(name, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and not error.filename:  # a full disk does not say which file
            raise _about(path, error) from None
        raise


def _about(path: str | os.PathLike[str], error: OSError) -> OSError:
    """The error in words that begin with the file."""
    words = error.strerror or str(error)
    file = os.fspath(path)
    return OSError(words if words.startswith(file) else f"{file}: {words}")


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Whether there is something at `path` that is neither a file nor a folder."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # there is nothing yet, or the lines that write will say what is wrong
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextlib.contextmanager
def _sending(path: str | os.PathLike[str], text: bool) -> Iterator[IO[Any]]:
    """A file whose content goes to a device, a FIFO or a socket once it is whole.

    Writers of .npy and .npz want to know and change their place in a file, which a pipe cannot.
    """
    how: dict[str, Any] = {"mode": "w+", "encoding": "utf-8"} if text else {"mode": "w+b"}
    with tempfile.SpooledTemporaryFile(IN_MEMORY, **how) as sink:
        yield sink
        sink.flush()
        sink.seek(0)
        try:
            with _opened(path) as target:
                if text:
                    target.write(sink.read().encode("utf-8"))
                else:
                    shutil.copyfileobj(sink, target)
        except OSError as error:  # it names the file; a closed reader is no success here
            raise _about(path, error) from None


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        with open(path, "wb", buffering=0) as target:
            yield _Whole(target)
        return
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.fspath(path))
        with line.makefile("wb") as target:
            yield target


class _Whole:
    """A raw file whose `write` writes all bytes; without a buffer, nothing is left to fail in
    `close`."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def write(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self.raw.write(rest) :]


def _new_file(path: Path) -> tuple[int, str]:
    """A new file beside `path`, open and locked."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=SUFFIX, dir=path.parent)
        if fcntl is None:
            return handle, name
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # another writer took it for stale before it was locked


@contextlib.contextmanager
def _locked(handle: int) -> Iterator[None]:
    """Keep the lock of a file until it has its name, so that nobody takes it for stale before."""
    if fcntl is None:
        yield
        return
    lock = os.dup(handle)
    try:
        yield
    finally:
        os.close(lock)


def _remove_stale(path: Path) -> None:
    """Remove what writers of `path` have left behind that were killed: files nobody has locked."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}{re.escape(SUFFIX)}")
    for entry in os.scandir(path.parent):
        if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            with contextlib.suppress(OSError):  # in use, somebody else's, or gone meanwhile
                _remove_unless_locked(entry.path)


def _remove_unless_locked(name: str) -> None:
    if fcntl is None:
        os.unlink(name)
        return
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name)
    finally:
        os.close(handle)


def _mode_for(path: Path) -> int:
    """The permissions of the file that is replaced, or those any new file would get."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
