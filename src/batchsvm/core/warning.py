"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings

OURS = ("batchsvm", "sklearn", "contextlib")


def warn_user(sentence: str, category: type[Warning]) -> None:
    """Warn at the line that called us, not at one of ours or scikit-learn's."""
    depth, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals["__name__"].split(".")[0] in OURS:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(sentence, category, stacklevel=depth)
