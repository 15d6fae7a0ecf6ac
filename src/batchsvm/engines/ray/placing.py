"""Placing rows on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from batchsvm.core import checks
from batchsvm.core.data_checks import as_matrix, refuse_device_array, refuse_infinite
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines.labels import MAX_CLASSES, Labels
from batchsvm.engines.part_handles import Cut, Place
from batchsvm.engines.ray import cluster
from batchsvm.engines.ray.actors import Actors
from batchsvm.engines.ray.dataset import RayDataset
from batchsvm.engines.ray.errors import WorkerLost, WorkersLostError
from batchsvm.engines.ray.library import load_ray
from batchsvm.engines.ray.origins import MatrixOrigin, deal_out
from batchsvm.engines.ray.tables import NAME as TABLES
from batchsvm.engines.ray.tables import deal_out_tables
from batchsvm.engines.ray.worker import PartFacts, Placing, Shape
from batchsvm.engines.ray.workers import Workers
from batchsvm.files.sources import is_ray_dataset

TIMEOUT = 60.0  # seconds
MAX_WORKERS = 4096
NO_DIGEST = ""  # of labels that no worker has seen in the order of their source
SEED = 20260102  # of the rows of X that a worker gets


def place(
    X: Any,
    jobs: int = 1,
    tuning: Tuning = DEFAULT_TUNING,
    keeps_norms: bool = True,
    deterministic: bool = False,
    **options: Any,
) -> RayDataset:
    """X in memory, or a source, in parts on the workers of a cluster.

    Parameters
    ----------
    jobs : int
        Threads of each worker.
    deterministic : bool
        Whether rounds have a fixed size, so that the same seed gives the same bits; else they are
        sized to what an exchange is seen to cost.
    workers : int, optional
        As many as the cluster has CPUs for if missing, but for little data no more than there are
        parts of `tuning.min_part_rows` rows.
    worker_resources : dict, optional
        Options of Ray's actors, such as ``{"num_cpus": 4, "memory": 8e9}``.
    timeout : float
        A worker that has not answered for so many seconds is replaced.
    y, sample_weight, columns : str, str and list of str, optional
        The columns of a `ray.data.Dataset` with the labels and the weights, and those that are
        features; all others if missing.
    """
    options, table = options.copy(), {}
    for name in ("y", "sample_weight", "columns"):
        table[name] = options.pop(name, None)
    workers, resources, timeout = _read_options(**options)
    of_ray, in_memory = is_ray_dataset(X), not (is_ray_dataset(X) or hasattr(X, "parts"))
    for name, value in table.items() if not of_ray else ():
        if value is not None:
            raise ValueError(f"{name} must be None unless X is a ray.data.Dataset, not {value!r}")
    if in_memory:
        refuse_device_array(X)
        X = as_matrix(X)
    cluster.enter()
    try:
        count = workers or max(1, cluster.cpus() // max(1, int(resources.get("num_cpus", jobs))))
        if in_memory:
            count = min(count, max(1, X.shape[0] // tuning.min_part_rows))
        found = Workers(Actors({"num_cpus": jobs, **resources}, timeout), timeout)
        try:
            found.start(count)
            how = Placing(0, False, jobs, tuning, keeps_norms)
            if of_ray:
                shapes = found.read(deal_out_tables(X, found.actors, **table))
                data = _place_read(found, TABLES, shapes, how)
            elif in_memory:
                data = _place_matrix(found, X, how)
            else:
                data = _place_read(found, X.name, found.read(deal_out(X, count)), how)
        except BaseException:
            found.close()
            raise
    except WorkerLost:
        cluster.leave()
        raise WorkersLostError("a worker was lost while it took its part of the rows") from None
    except BaseException:
        cluster.leave()
        raise
    data.deterministic = deterministic
    return data


def _read_options(
    workers: Any = None, worker_resources: Any = None, timeout: Any = TIMEOUT
) -> tuple[int, dict[str, Any], float]:
    if workers is not None:
        workers = checks.whole(
            "workers", workers, 1, MAX_WORKERS, "None or an integer from 1 to 4096"
        )
    if worker_resources is not None and not isinstance(worker_resources, dict):
        raise ValueError(
            "worker_resources must be a dict of options of Ray's actors or None, not"
            f" {worker_resources!r}"
        )
    timeout = checks.number("timeout", timeout, "a finite positive number of seconds", 0.0)
    return workers or 0, dict(worker_resources or {}), timeout


def _place_matrix(workers: Workers, X: Any, how: Placing) -> RayDataset:
    """Rows are dealt out at random: neighbours are often alike, and parts that are like the whole
    need fewer rounds."""
    n, unit = X.shape[0], how.tuning.min_part_rows
    edges = [unit * round(n * p / (unit * len(workers))) for p in range(len(workers))]
    order = np.random.default_rng(SEED).permutation(n)
    places = [np.sort(order[a:b]) for a, b in zip(edges, [*edges[1:], n], strict=True)]
    put = load_ray().put
    shapes = workers.read([MatrixOrigin(put(X[place])) for place in places])
    cut = Cut(n, places)
    return _placed(workers, shapes, cut, how)


def _place_read(workers: Workers, name: str, shapes: list[Shape], how: Placing) -> RayDataset:
    """Place what workers have read of a source of this name."""
    empty = [p for p, shape in enumerate(shapes) if shape.rows == 0]
    if len(empty) == len(shapes):
        raise ValueError(f"{name} must hold at least one row, but it is empty")
    if empty:
        workers.dismiss(empty)
        shapes = [shape for shape in shapes if shape.rows]
    cut = _cut_of([shape.pieces for shape in shapes])
    labels = _joined_labels([shape.labels for shape in shapes])
    if len({shape.has_weights for shape in shapes}) > 1:
        raise ValueError("sample_weight must be there for all rows of a source or for none")
    data = _placed(workers, shapes, cut, how)
    if labels is not None:
        data.labels = labels
        data.own_labels = [_translated(labels, shape.labels) for shape in shapes]
    return data


def _placed(workers: Workers, shapes: list[Shape], cut: Cut, how: Placing) -> RayDataset:
    columns = max(shape.columns for shape in shapes)
    is_sparse = any(shape.is_sparse for shape in shapes)
    if not is_sparse and any(shape.columns != columns for shape in shapes):
        raise ValueError("X must have the same columns in all parts of a source")
    facts = workers.place(replace(how, columns=columns, is_sparse=is_sparse))
    _refuse_infinite(cut, facts)
    return RayDataset(workers, cut, columns, facts, how.jobs, how.tuning, False)


def _refuse_infinite(cut: Cut, facts: Sequence[PartFacts]) -> None:
    found = [
        (int(_number(place, part.not_finite[0])), part.not_finite[1])
        for place, part in zip(cut.places, facts, strict=True)
        if part.not_finite is not None
    ]
    refuse_infinite(min(found) if found else None)


def _number(place: Place, row: int) -> int:
    return range(place.stop)[place][row] if isinstance(place, slice) else place[row]


def _cut_of(pieces: Sequence[Sequence[Any]]) -> Cut:
    """Rows are numbered as they follow each other in the source, whoever has read them."""
    every = sorted((*piece, p) for p, own in enumerate(pieces) for piece in own)
    ends = np.cumsum([rows for _, _, rows, _ in every])
    places = [
        np.concatenate(
            [
                np.arange(end - rows, end)
                for (_, _, rows, worker), end in zip(every, ends, strict=True)
                if worker == p
            ]
        )
        for p in range(len(pieces))
    ]
    return Cut(int(ends[-1]), places)


def _joined_labels(found: Sequence[Labels | None]) -> Labels | None:
    """The labels of all parts, from those of each."""
    known = [labels for labels in found if labels is not None]
    if not known:
        return None
    if len(known) < len(found) or len({labels.codes is None for labels in known}) > 1:
        raise ValueError("y must be of one kind in all parts: all words, all numbers, or none")
    classes = [labels.classes for labels in known if labels.classes is not None]
    if len(classes) < len(known):
        return Labels(None, None, NO_DIGEST)
    every = np.unique(np.concatenate(classes))
    if known[0].codes is None:
        return Labels(every if every.size <= MAX_CLASSES else None, None, NO_DIGEST)
    return Labels(every, np.arange(every.size, dtype=np.int32), NO_DIGEST)


def _translated(every: Labels, own: Labels | None) -> Labels:
    """The labels of all parts, by the codes that one worker has given to words."""
    assert own is not None
    if own.codes is None or every.classes is None or own.classes is None:
        return every
    codes = np.searchsorted(every.classes, own.classes)[own.codes]
    others = np.setdiff1d(np.arange(every.classes.size), codes)  # which no row of this worker has
    return Labels(every.classes, np.concatenate([codes, others]).astype(np.int32), every.digest)
