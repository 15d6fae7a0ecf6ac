"""The rows that a command works on: in memory, or streamed from a folder, a pattern or a file."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np

from batchsvm.cli.loading import ZERO_BASED, facts, load, load_for
from batchsvm.cli.output import label_text
from batchsvm.cli.overwriting import Files, refuse_in_source, refuse_overwriting, with_labels
from batchsvm.core import checks
from batchsvm.files import Data, DataFileError
from batchsvm.files.source import Source

STREAMED = "DATA that is a folder or a pattern, or comes with --max-memory, --cache or --checkpoint"
IN_PARTS = ("auto", "streamed", "ray")  # engines that take such DATA


def is_streamed(data: str, options: dict[str, Any], engine: str = "auto") -> bool:
    """Whether DATA is read part by part: it is not one file, or that is asked for."""
    asked = any(options.get(name) is not None for name in ("max_memory", "cache", "checkpoint"))
    return asked or engine == "streamed" or os.path.isdir(data) or _is_pattern(data)


def _is_pattern(data: str) -> bool:
    return glob.has_magic(data) and not os.path.exists(data)


@dataclass(frozen=True)
class Rows:
    """Rows, labels and weights as the library takes them, and where it is to work on them."""

    X: Any  # an array, a sparse matrix, or placed data that bring their labels and weights
    y: np.ndarray | None
    weights: np.ndarray | None
    where: dict[str, Any]
    data: Data | None = None  # of a file that was read into memory
    names_of: Any = None  # the source of placed data
    columns: dict[str, str | None] = field(default_factory=dict)  # of labels and weights in a table

    @property
    def n(self) -> int:
        return self.X.n if self.data is None else self.X.shape[0]

    @property
    def names(self) -> tuple[str, ...] | None:
        found = self._known("feature_names") if self.data is None else self.data.names
        return None if found is None else tuple(found)

    @property
    def zero_based(self) -> bool | None:
        return self._known("zero_based") if self.data is None else self.data.zero_based

    def _known(self, name: str) -> Any:
        """What the placed data, or else their source, know of the columns."""
        found = getattr(self.X, name, None)
        return getattr(self.names_of, name, None) if found is None else found

    @property
    def label(self) -> str | None:
        """The column of the labels, in a table."""
        return self.columns.get("label")

    @property
    def weights_column(self) -> str | None:
        """The column of the weights, in a table."""
        return self.columns.get("weights")

    def facts(self) -> dict[str, Any]:
        """Shape, fill and labels; the non-zeros of dense rows that are streamed are not counted."""
        if self.data is not None:
            return facts(self.data)
        packed, labels = getattr(self.X, "packed", None), self.X.labels
        classes = None if labels is None else labels.classes
        n, d, stored = self.X.n, self.X.d, self.X.nonzeros
        stored = None if packed is None or packed.dense else stored
        return {
            "rows": n, "columns": d, "nonzeros": stored,
            "fill": None if stored is None else stored / (n * d),
            "storage": "on a cluster" if packed is None else "dense" if packed.dense else "sparse",
            "type": "unknown" if packed is None else str(packed.dtype),
            "labels": None if classes is None or classes.size > 1000
            else [label_text(label) for label in classes],
        }  # fmt: skip


@contextmanager
def rows_of(
    data: str,
    options: dict[str, Any],
    where: dict[str, Any],
    labels_needed: bool,
    model: Any = None,
) -> Iterator[Rows]:
    """The rows of DATA; `where` is engine, device and n_jobs.  With a model, their columns are
    those that it was trained on."""
    if not is_streamed(data, options, where["engine"]):
        if model is None:
            found = load(data, options, labels_needed)
        else:
            found = load_for(model, data, options, labels_needed)
        columns = _table_columns(data, options, model, found.names)
        yield Rows(found.X, found.y, found.weights, where, found, columns=columns)
        return
    from batchsvm.engines import place_on
    from batchsvm.models.sources import naming_base

    if where["engine"] not in IN_PARTS:
        raise ValueError(
            f"engine must be auto, streamed or ray for {STREAMED}, not {where['engine']}"
        )
    source = open_data(data, options, labels_needed, model)
    engine = "ray" if where["engine"] == "ray" else "streamed"
    device, jobs = checks.read_device(where.get("device")), checks.read_jobs(where.get("n_jobs"))
    how: dict[str, Any] = {name: options.get(name) for name in ("max_memory", "cache")}
    if engine == "streamed":
        how["progress"] = True if _on_terminal() else None
    with (
        naming_base(model, options.get("zero_based"), ZERO_BASED),
        place_on(engine, source, jobs, device=device, **how) as placed,
    ):
        columns = _table_columns(data, options, model, getattr(source, "feature_names", None))
        yield Rows(placed, None, None, {}, names_of=source, columns=columns)


def _table_columns(
    data: str, options: dict[str, Any], model: Any, names: Any
) -> dict[str, str | None]:
    """The columns of labels and of weights, where DATA has named columns."""
    if names is None:
        return {}
    label, weights = _named_columns(data, options, labels_needed=False, model=model)
    return {"label": label, "weights": weights}


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def open_data(data: str, options: dict[str, Any], labels_needed: bool, model: Any = None) -> Source:
    """DATA as a source."""
    from batchsvm.files import open_source
    from batchsvm.models.sources import open_for_model

    for name in ("labels", "float32"):
        if options.get(name):
            raise click.UsageError(f"--{name} must be left out for {STREAMED}")
    columns, zero_based = options.get("columns"), options.get("zero_based")
    features = options.get("features")
    if model is not None and features not in (None, model.n_features):
        raise click.UsageError(
            f"--features must be {model.n_features:,}, as the model has, not {features:,}"
        )
    y, weights = _named_columns(data, options, labels_needed, model)
    if model is not None:
        return open_for_model(model, data, y, weights, columns, zero_based, labels_needed)
    base = "auto" if zero_based is None else zero_based
    return open_source(data, y, weights, columns, features, base, labels_needed)


def _named_columns(
    data: str, options: dict[str, Any], labels_needed: bool, model: Any
) -> tuple[str | None, str | None]:
    """The columns of the labels and of the weights, where DATA has tables."""
    from batchsvm.files.tables import Wanted, label_among, some
    from batchsvm.models.sources import first_table

    table = first_table(data)
    label = options.get("label")
    if label is None and table is not None and model is not None and model.label is not None:
        from batchsvm.files.table_chunks import column_names

        label = model.label if model.label in column_names(table) else None
    wanted = Wanted(
        label, options.get("weights"), options.get("columns"),
        None if model is None else model.feature_names,
    )  # fmt: skip
    if table is None:
        for name, value in (("label", wanted.label), ("weights", wanted.weights)):
            if value is not None:
                raise click.UsageError(
                    f"--{name} must name a column of a table (CSV, Parquet), and {data} has none,"
                    f" not {value!r}"
                )
        return None, None
    from batchsvm.files.table_chunks import column_names

    names = column_names(table)
    y = label_among(table, names, wanted)
    if y is None and labels_needed:
        raise DataFileError(
            table, f"has no labels; name their column with --label, one of {some(names)}"
        )
    if wanted.weights is not None and wanted.weights not in names:
        raise DataFileError(
            table, f"has no column {wanted.weights!r} for the weights; it has {some(names)}"
        )
    return y, wanted.weights


def refuse_outputs(
    outputs: Files, data: str, options: dict[str, Any], engine: str = "auto", **inputs: str | None
) -> None:
    """UsageError if an output would be written over an input, over another output, or into the
    source DATA, where it would become a part."""
    from batchsvm.files.source_paths import data_files

    others = {name.upper(): file for name, file in inputs.items()}
    others["--labels"] = options.get("labels")
    if not is_streamed(data, options, engine):
        refuse_overwriting(outputs, others | with_labels("DATA", data))
        return
    refuse_overwriting(outputs, others)
    refuse_in_source(outputs | {"--cache": options.get("cache")}, data, data_files(data))
