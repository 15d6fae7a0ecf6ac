"""Bytes of a file that may be compressed, in blocks that end at the end of a line."""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import lzma
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, BinaryIO

from batchsvm.files.errors import DataFileError

BLOCK = 1 << 24
LONGEST_LINE = 1 << 30  # bytes; a compressed file of some kilobytes can hold more
READERS: dict[str, Callable[[Any], Any]] = {
    "": lambda raw: raw,
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
WRITERS: dict[str, Callable[[Any], Any]] = {
    "": contextlib.nullcontext,
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw, mode="wb", mtime=0),
    ".bz2": functools.partial(bz2.BZ2File, mode="wb"),
    ".xz": functools.partial(lzma.LZMAFile, mode="wb"),
}
# What Python raises for streams that are cut short or damaged, beside OSError.
DAMAGED = (EOFError, ValueError, zlib.error, lzma.LZMAError)
Progress = Callable[[float], None]


def compression(path: Path) -> str:
    """The suffix that says how a file is compressed, or nothing."""
    return path.suffix.lower() if path.suffix.lower() in READERS else ""


def bare_suffix(path: Path) -> str:
    """The suffix of what is inside: .svm for a.svm.bz2."""
    inside = path.with_suffix("") if compression(path) else path
    return inside.suffix.lower()


def decompressed(path: Path, raw: BinaryIO) -> Any:
    """What is inside `raw`, compressed as the name of `path` says."""
    return READERS[compression(path)](raw)


def compressed(path: Path, sink: Any) -> Any:
    """A stream into `sink` that compresses as the name of `path` asks for."""
    return WRITERS[compression(path)](sink)


def blocks_of_lines(
    path: Path, progress: Progress | None = None, block: int | None = None
) -> Generator[bytes, None, None]:
    """The file's text in blocks of whole lines; `progress` is told the share that is read.

    A block has about `block` bytes (`BLOCK` if missing), or one line if that is longer.
    """
    size = max(path.stat().st_size, 1)
    try:
        with path.open("rb") as raw:
            stream: BinaryIO = decompressed(path, raw)
            rest: list[bytes] = []
            while chunk := stream.read(block or BLOCK):
                if progress is not None:
                    progress(min(raw.tell() / size, 1.0) if raw.seekable() else 0.0)
                end = chunk.rfind(b"\n") + 1
                if end == 0:
                    rest.append(b" " if chunk.isspace() else chunk)  # any number of blanks is one
                    if sum(map(len, rest)) > LONGEST_LINE:
                        raise DataFileError(
                            path, f"has a line of more than {LONGEST_LINE >> 20} MiB"
                        )
                    continue
                rest.append(chunk[:end])
                yield b"".join(rest)
                rest = [chunk[end:]]
            if last := b"".join(rest):
                yield last
    except EOFError:
        raise DataFileError(path, "the compressed file ends early") from None
    except (lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFileError(path, f"cannot be decompressed ({error})") from None
    except OSError as error:
        if error.errno is not None:  # the file system's own words name the file
            raise
        raise DataFileError(path, f"cannot be decompressed ({error})") from None
