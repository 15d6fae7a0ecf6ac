"""An environment of its own for each peer, built by pip the first time it is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.peers.registry import Peer

ENVIRONMENTS = Path("bench-output") / "envs"


class UnavailableError(Exception):
    """A peer that cannot be installed; the message is the reason, fit for a report."""


def python_of(peer: Peer) -> Path:
    """The interpreter of the peer's environment, which is built if need be."""
    if peer.ours:
        return Path(sys.executable)
    folder = ENVIRONMENTS / (peer.environment or peer.name.lower().replace(" ", "-"))
    python = (folder / "bin" / "python").absolute()
    # Written last, so that an environment cut short is built again.
    ready, wanted = folder / "ready.json", json.dumps(peer.installs)
    if ready.exists() and ready.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    for arguments in peer.installs:
        command = [str(python), "-m", "pip", "install", "--quiet", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise UnavailableError(reason(done.stderr))
    ready.write_text(wanted)
    return python


def version_of(peer: Peer) -> str:
    """Of the peer's package, as its environment has it."""
    ask = f"import importlib.metadata as m; print(m.version({peer.package!r}))"
    command = [str(python_of(peer)), "-c", ask]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def reason(stderr: str) -> str:
    """What pip says went wrong, in one line, without addresses and paths."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error|[A-Za-z.]*Error)\b", line, re.I)]
    line = (errors or lines or ["pip failed without a word"])[-1]
    line = re.sub(r"^error:\s*", "", line, flags=re.I)
    line = re.sub(r"\S+://\S+", "<address>", line)
    return re.sub(r"(?<![\w.])(/[\w.+-]+){2,}/?", "<path>", line)[:300]
