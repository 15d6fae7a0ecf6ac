"""Sources for a trained model: the same columns as in training, whatever file they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from batchsvm.files.errors import DataFileError, IndexBaseError
from batchsvm.files.file_source import TABLES
from batchsvm.files.formats import format_of
from batchsvm.files.source import Source
from batchsvm.files.source_paths import data_files
from batchsvm.files.sources import is_paths, open_source
from batchsvm.files.table_chunks import column_names
from batchsvm.files.tables import refuse_others, some
from batchsvm.models.model import Model


def open_for_model(
    model: Model,
    source: Any,
    y: str | None = None,
    sample_weight: str | None = None,
    columns: Sequence[str] | None = None,
    zero_based: bool | None = None,
    needs_labels: bool = False,
) -> Source:
    """A source whose columns are those that the model was trained on.

    Columns of tables go by name.  Without `columns`, a table must have those of the model and none
    beside them, `y` and `sample_weight`; with `columns`, others are left out.  Indices of LIBSVM
    text count from where those of the training data did, unless `zero_based` says otherwise.
    """
    names = model.feature_names
    if columns is not None and names is not None and set(columns) != set(names):
        raise ValueError(
            f"columns must be those of the training data, {some(list(names))}, not"
            f" {some(list(columns))}"
        )
    first = first_table(source)
    if first is not None and names is not None:
        if columns is None:
            found = column_names(first)
            features = [name for name in found if name not in (y, sample_weight)]
            refuse_others(first, features, names, y)
        if all(format_of(file) in TABLES for file in data_files(source)):
            columns = names
    base = model.zero_based if zero_based is None else zero_based
    opened = open_source(
        source, y, sample_weight, columns, model.n_features, "auto" if base is None else base,
        needs_labels,
    )  # fmt: skip
    found_names = getattr(opened, "feature_names", None)
    if names is not None and found_names is not None and tuple(found_names) != tuple(names):
        raise DataFileError(  # a mixture of tables and other files, which are not put in order
            opened.name,
            f"must have the columns of the training data in their order: {some(list(names))}",
        )
    return opened


def first_table(source: Any) -> Path | None:
    """The first table of files that is not empty."""
    if not is_paths(source):
        return None
    tables = (file for file in data_files(source) if format_of(file) in TABLES)
    return next((file for file in tables if file.stat().st_size), None)


@contextmanager
def naming_base(
    model: Model | None, zero_based: bool | None, options: tuple[str, str]
) -> Iterator[None]:
    """Say where the indices of the training data count from, if those of another file do not; the
    options say how to read it from 0, and from 1."""
    try:
        yield
    except IndexBaseError as error:
        words = str(error).replace("zero_based=True", options[0])
        if zero_based is None and model is not None and model.zero_based is not None:
            base, other = ("0", options[1]) if model.zero_based else ("1", options[0])
            words += f"; the model's training data counts from {base}; if this file does not, say"
            words += f" {other}"
        error.args = (words,)
        raise
