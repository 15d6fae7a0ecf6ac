"""Fetch a file: resumed where it broke off, checked, and under its name only when it is whole.

The bytes of a transfer that broke off are kept in NAME.partial with what the server said of
the file (NAME.partial.json); the next call asks for the rest only if the server still says
the same.  The SHA-256 of a whole file is kept beside it in NAME.sha256 and compared whenever
the file is asked for again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchsvm.files.atomic import replacing

BLOCK = 1 << 18
PATIENCE = 30.0  # seconds without a byte
Progress = Callable[[float], None]


class DownloadError(OSError):
    """A file that could not be fetched, or is not the one that was expected."""


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(
    url: str, target: Path, sha256: str | None = None, progress: Progress | None = None
) -> Path:
    """The file at `url`, kept as `target`.

    Raises
    ------
    DownloadError
        If the server cannot be reached or sends something else than `sha256`; if the transfer
        breaks off (what came is kept, and another call resumes); if `target` has changed
        since it was fetched.
    """
    if target.exists():
        verify(target, sha256)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    try:
        _transfer(url, partial, progress)
    except (OSError, ValueError) as error:
        raise DownloadError(
            f"{url}: {_reason(error)}"
            + (f"; {partial.stat().st_size:,} bytes are kept for the next try" if partial.exists()
               and partial.stat().st_size else "")
        ) from None  # fmt: skip
    digest = sha256_of(partial)
    _note(partial).unlink(missing_ok=True)
    if sha256 is not None and digest != sha256:
        partial.unlink()
        raise DownloadError(f"{url}: has SHA-256 {digest}, not {sha256}; it was not kept")
    with replacing(_sum(target), text=True) as sink:
        sink.write(f"{digest}  {target.name}\n")
    partial.replace(target)
    return target


def verify(path: Path, sha256: str | None = None) -> None:
    """DownloadError if a file is not the one expected, or not the one that was fetched."""
    noted = _sum(path)
    expected = sha256
    if expected is None and noted.exists():
        expected = noted.read_text().split()[0] if noted.read_text().split() else None
    if expected is not None and (found := sha256_of(path)) != expected:
        raise DownloadError(
            f"{path}: has SHA-256 {found}, not {expected}: it has changed or is another file"
        )


def _sum(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _note(partial: Path) -> Path:
    return partial.with_name(partial.name + ".json")


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return " ".join(str(reason).split()) or type(error).__name__


def _transfer(url: str, partial: Path, progress: Progress | None) -> None:
    """Bring `partial` up to the whole file, from where it is if the server's file is the same."""
    have, known = _kept(partial)
    headers = {"Range": f"bytes={have}-", "If-Range": known["tag"]} if have else {}
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 416:  # nothing to send beyond what we have
                raise
        partial.unlink()
        return _transfer(url, partial, progress)
    with response:
        resumed = getattr(response, "status", 200) == 206
        length = response.headers.get("Content-Length")
        start = have if resumed else 0
        whole = None if length is None else start + int(length)
        tag = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        with replacing(_note(partial), text=True) as sink:
            json.dump({"tag": tag, "size": whole}, sink)
        with partial.open("ab" if resumed else "wb") as sink:
            got = start
            while block := response.read(BLOCK):
                sink.write(block)
                got += len(block)
                if progress is not None and whole:
                    progress(got / whole)
    if whole is not None and got != whole:
        raise OSError(f"the transfer broke off after {got:,} of {whole:,} bytes")
    return None


def _kept(partial: Path) -> tuple[int, dict[str, Any]]:
    """How many bytes an earlier try left, if the server can be asked whether they still hold."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        note = json.loads(_note(partial).read_text())
        size = partial.stat().st_size
        # A weak tag does not promise the same bytes, so that servers ignore it here.
        if size and isinstance(note["tag"], str) and note["tag"][:2] not in ("", "W/"):
            return size, note
    return 0, {"tag": ""}
