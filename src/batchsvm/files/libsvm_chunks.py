"""LIBSVM text in chunks, through the compiled reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from batchsvm.files.cutting import LEAST_BLOCK, block_bytes, cut
from batchsvm.files.errors import IndexBaseError
from batchsvm.files.libsvm import LARGEST_INDEX, Part, cores, parsed
from batchsvm.files.source import Chunk
from batchsvm.files.streams import blocks_of_lines

# How much text is looked at to see whether indices count from 0: blocks of `SAMPLE_BLOCK` bytes.
SAMPLE_BLOCKS, SAMPLE_BLOCK = 16, 1 << 20


def counts_from_zero(paths: Sequence[Path]) -> bool:
    """Whether an index 0 occurs in the first blocks of text of the first files.

    One answer holds for all files of a source.  If it is no, and an index 0 comes later,
    `libsvm_chunks` raises an error: nothing is read by two rules.
    """
    each = max(SAMPLE_BLOCKS // len(paths), 1)
    for path in paths[:SAMPLE_BLOCKS]:
        with closing(blocks_of_lines(path, block=SAMPLE_BLOCK)) as blocks:
            few = islice(blocks, each)
            with closing(parsed(path, few, 0, LARGEST_INDEX, 1)) as parts:
                if any(part.lowest == 0 for part in parts):
                    return True
    return False


def libsvm_chunks(
    path: Path, zero_based: bool, width: int | None, max_bytes: int, is_guess: bool
) -> Iterator[Chunk]:
    """The rows of a file in chunks, blocks of text parsed ahead in threads.

    Without a `width`, X of a chunk has as many columns as its largest index asks for, and the
    largest number over all chunks is that of the data.
    """
    base = 0 if zero_based else 1
    high = LARGEST_INDEX if width is None else width - 1 + base
    jobs = cores()
    # jobs + 2 blocks are there at once, each as text and as arrays, which can be three times it.
    size = block_bytes(max_bytes, 4 * (jobs + 2))
    if size == LEAST_BLOCK:
        jobs = 1
    try:
        with (
            closing(blocks_of_lines(path, block=size)) as blocks,
            closing(parsed(path, blocks, base, high, jobs)) as parts,
        ):
            for part in parts:
                yield from cut(_matrix(part, base, width), part.labels, None, max_bytes)
    except IndexBaseError as error:
        if zero_based or not is_guess:
            raise
        raise IndexBaseError(
            path,
            "has an index 0, but the text at the beginning of the data has none, so that indices"
            " were taken to count from 1; zero_based=True says that they count from 0",
            error.line,
        ) from None


def _matrix(part: Part, base: int, width: int | None) -> sp.csr_array:
    d = max(part.highest + 1 - base, 1) if width is None else width
    index = np.int32 if max(d, part.indices.size) < 2**31 else np.int64
    indices = part.indices
    indices -= base
    matrix = sp.csr_array(
        (part.values, indices.astype(index, copy=False), part.indptr.astype(index)),
        shape=(part.labels.size, d),
    )
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix
