"""Ray, imported when it is needed: `batchsvm` works without it."""

from __future__ import annotations

import os
import sys
from typing import Any

# Ray prints a paragraph for every process that dies; this engine says it in one line.
HIDDEN = "A worker died or was killed"


def load_ray() -> Any:
    """The library; it is an extra of this package."""
    if "ray" not in sys.modules:  # Ray reads it when it is imported
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", HIDDEN)
    try:
        import ray
    except ImportError:
        raise ModuleNotFoundError('engine="ray" needs Ray: pip install "batchsvm[ray]"') from None
    return ray
