"""The streamed engine with parts that are small enough for the problems of tests."""

from __future__ import annotations

from dataclasses import replace

from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines import streamed

ROWS = 12  # of a part: five parts of 60 rows


def place_in_small_parts(X, jobs=1, tuning=DEFAULT_TUNING, keeps_norms=True, **options):
    """As the engine does, unless the tuning says how many rows a part has."""
    if tuning.min_part_rows == DEFAULT_TUNING.min_part_rows:
        tuning = replace(tuning, min_part_rows=ROWS)
    return streamed.place(X, jobs, tuning, keeps_norms, **options)
