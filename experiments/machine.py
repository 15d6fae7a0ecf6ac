"""What kind of machine this is, with which versions and which code; no names, no paths."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import numba
import numpy
import scipy
import sklearn

import batchsvm


def machine() -> str:
    """Cores and CPU model, such as "2 cores of AMD EPYC"."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return f"{os.cpu_count()} cores of {model}"


def versions() -> str:
    """Python's and the libraries' versions."""
    modules = (batchsvm, numpy, scipy, sklearn, numba)
    named = ", ".join(f"{module.__name__} {module.__version__}" for module in modules)
    return f"Python {platform.python_version()}, {named}"


def fingerprint() -> str:
    """A hash of the code that cells depend on: the library and `cells.py`."""
    library = Path(batchsvm.__file__).parent
    files = [*sorted(library.rglob("*.py")), Path(__file__).with_name("cells.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
