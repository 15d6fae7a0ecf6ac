"""What can go wrong with parts on a disk."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DamagedPartError(Exception):
    """A packed part is not what was written; it is made anew where its source is there."""


@contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Say which folder it is that cannot be written to."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(
                errno.ENOSPC,
                f"the disk of the cache folder {folder} is full: free some space, or name another"
                " folder by cache",
            ) from None
        raise
