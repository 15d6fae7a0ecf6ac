"""A `ray.data.Dataset` as parts of workers: batches as Arrow tables, never through pandas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from batchsvm.engines.ray.origins import Piece, Rows, collected
from batchsvm.files.source import Chunk
from batchsvm.files.tables import load_arrow, numbers, words_or_numbers

BATCH_ROWS = 65536
NAME = "the ray.data.Dataset"


@dataclass(frozen=True)
class TableOrigin:
    """Some rows of a data set of Ray; its blocks are where Ray has them."""

    shard: Any = field(repr=False)
    number: int
    features: tuple[str, ...]
    y: str | None
    sample_weight: str | None

    def read(self, timeout: float) -> Rows:
        return collected(self._chunks())

    def _chunks(self) -> Iterator[tuple[str, Piece, Chunk]]:
        batches = self.shard.iter_batches(batch_format="pyarrow", batch_size=BATCH_ROWS)
        arrow, path = load_arrow(), Path(NAME)
        for j, table in enumerate(batches):
            columns = [_block(arrow, path, name, table) for name in self.features]
            X = columns[0] if len(columns) == 1 else np.hstack(columns)
            y = weights = None
            if self.y is not None:
                y = words_or_numbers(arrow, path, self.y, table.column(self.y))
            if self.sample_weight is not None:
                weights = numbers(arrow, path, self.sample_weight, table.column(self.sample_weight))
            yield NAME, Piece(self.number, j, len(X)), Chunk(np.ascontiguousarray(X), y, weights)


def _block(arrow: Any, path: Path, name: str, table: Any) -> np.ndarray:
    """A column of numbers, or of vectors of the same length, as columns of X."""
    column, kind = table.column(name), table.schema.field(name).type
    if hasattr(kind, "storage_type"):  # a tensor of Ray's
        vectors: Any = column.combine_chunks().to_numpy(zero_copy_only=False)
        return np.stack(list(vectors)).reshape(len(column), -1).astype(np.float64)
    if arrow.types.is_fixed_size_list(kind):
        flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
        found = flat.reshape(len(column), kind.list_size)
        return found if found.dtype in (np.float32, np.float64) else found.astype(np.float64)
    return numbers(arrow, path, name, column)[:, np.newaxis]


def deal_out_tables(
    data: Any,
    workers: Sequence[Any],
    y: str | None,
    sample_weight: str | None,
    columns: Sequence[str] | None,
) -> list[TableOrigin]:
    """The rows of a data set of Ray among actors, near to where its blocks are."""
    names = list(data.schema().names)
    for what, name in (("y", y), ("sample_weight", sample_weight)):
        if name is not None and name not in names:
            raise ValueError(f"{what} must be the name of a column of {NAME}, not {name!r}")
    for name in columns or ():
        if name not in names:
            raise ValueError(f"columns must be names of columns of {NAME}, not {name!r}")
    features = columns or [name for name in names if name not in (y, sample_weight)]
    if not features:
        raise ValueError(f"{NAME} must have a column beside the labels, not {names!r} alone")
    shards = data.split(len(workers), locality_hints=list(workers))
    return [
        TableOrigin(shard, p, tuple(features), y, sample_weight) for p, shard in enumerate(shards)
    ]
