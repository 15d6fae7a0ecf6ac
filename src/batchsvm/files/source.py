"""What streamed and distributed data come from: parts that can be read again, chunk by chunk.

A source is a list of parts, each of them a file or one chunk of a re-iterable.  A part is read in
chunks of a bounded number of rows, so that no part has to fit into memory.  `open_source`
(`files/sources.py`) makes a source of what a caller gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np


class Chunk(NamedTuple):
    """Some rows of a part, in its order."""

    X: Any  # a CSR array or a two-dimensional array, of float32 or float64
    y: np.ndarray | None  # labels as they stand in the source, (rows,)
    weights: np.ndarray | None  # (rows,)


class Part(Protocol):
    """Rows that are read together."""

    @property
    def name(self) -> str:
        """What errors call it: the path of a file, or "chunk 3"."""
        ...

    def fingerprint(self) -> str:
        """Changes if what the part holds has changed; cheap: of a file, its size and times."""
        ...

    def chunks(self, max_bytes: int) -> Iterator[Chunk]:
        """The rows from the first one on, in chunks of about so many bytes at the most."""
        ...


class Source(Protocol):
    """All parts, in order.

    X may differ from chunk to chunk.  Files of several formats are dense and sparse, of float32
    and of float64.  Where all parts are LIBSVM text, chunks differ in their number of columns, and
    the largest is that of the data.  In all other cases it is the same throughout.
    """

    @property
    def name(self) -> str: ...
    @property
    def parts(self) -> Sequence[Part]:
        """To read one of them again; of a re-iterable, this may make a pass to count them."""
        ...

    def one_pass(self, max_bytes: int) -> Iterator[tuple[Part, Iterator[Chunk]]]:
        """Every part in order, with its chunks, which are read before the next part is.

        A re-iterable is iterated once; its parts, one by one, would be so once for each of them.
        """
        ...
