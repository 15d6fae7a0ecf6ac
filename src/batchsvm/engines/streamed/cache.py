"""Folders for packed parts: one that is kept for the next fit, or a temporary one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from batchsvm.engines.streamed.errors import naming
from batchsvm.engines.streamed.packed import Packed, read_manifest, write_manifest

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX = "batchsvm-"
LOCK = "lock"


class TemporaryFolder:
    """A folder that goes away with its owner: when it is closed, after an exception, at exit."""

    def __init__(self, parent: Path | None = None, prefix: str = PREFIX) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = _locked(self.path / LOCK)
        self._remove = weakref.finalize(self, _remove, self.path, self._lock)

    def close(self) -> None:
        self._remove()


def _locked(path: Path) -> int:
    """A file that is locked as long as its owner lives, open."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def remove_stale(parent: Path, prefix: str) -> None:
    """Remove the temporary folders of processes that were killed: those that nobody has locked."""
    if fcntl is None:
        return
    for path in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # in use, somebody else's, or gone meanwhile
            handle = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def kept_parts(
    cache: Path, key: dict[str, Any], make: Callable[[Path], Packed]
) -> tuple[Packed, bool]:
    """The packed parts that this key stands for, and whether they were there already.

    They lie in a folder of their own in `cache`, which gets its name when it is whole.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"cache must be a folder, but {cache} cannot be made: {error}") from None
    digest = blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=16).hexdigest()
    folder = cache / digest
    found = read_manifest(folder, key)
    if found is not None:
        return found, True
    prefix = f".{PREFIX}{digest}-"
    remove_stale(cache, prefix)
    with contextlib.closing(TemporaryFolder(cache, prefix)) as scratch:
        packed = make(scratch.path)
        write_manifest(packed, key)
        with naming(cache):
            if folder.is_dir():  # not finished, or not ours to read
                shutil.rmtree(folder)
            (scratch.path / LOCK).unlink()
            os.rename(scratch.path, folder)
    found = read_manifest(folder, key)
    assert found is not None
    return found, False
