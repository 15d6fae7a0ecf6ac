"""Placing X, once for many fits or for one: arrays, or a source with its labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple, TypedDict, Unpack

from batchsvm.core import checks
from batchsvm.engines import Dataset, is_placed, place_on, placed
from batchsvm.files.sources import is_ray_dataset, is_source, open_source


class Placing(TypedDict, total=False):
    """Options of `batchsvm.place` for rows that are not in the memory of this process."""

    columns: Sequence[str] | None
    max_memory: int | str | None
    cache: str | PathLike[str] | None
    workers: int | None
    worker_resources: dict[str, Any] | None
    timeout: float | None


class Rows(NamedTuple):
    """What was given, ready to be placed."""

    X: Any
    y: Any  # None where X holds it
    sample_weight: Any
    options: dict[str, Any]  # names that are looked up where X is placed


def place(
    X: Any,
    engine: str = "auto",
    n_jobs: int | None = None,
    *,
    device: int | None = None,
    deterministic: bool = False,
    y: str | None = None,
    sample_weight: str | None = None,
    **placing: Unpack[Placing],
) -> Dataset:
    """Place X where an engine works on it, once, for any number of fits.

    Everything that does not depend on y and lam is done once: checks, norms of rows, the division
    among threads, sigma^2.  `fit`, `fit_many`, `path`, `certify`, `plan`, `sigma2` and the
    estimators take the result in place of X, one after another or from several threads at once.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d), or a source
        float32 or float64, used in place: it must not change until the data set is closed.  A
        source is data that need not fit into memory: a folder, a pattern or a list of files, or a
        re-iterable of chunks `(X, y)` or `(X, y, weights)` (docs/streamed.md), or a
        `ray.data.Dataset`.
    engine : {"auto", "cpu", "gpu", "streamed", "ray", "reference"}
        "auto" is "gpu" for arrays of a CUDA device (CuPy, torch, JAX), "streamed" for a source
        that takes more than an eighth of this machine's memory, "ray" for a `ray.data.Dataset`,
        and "cpu" for all others.  "gpu" uploads host data, "streamed" writes them to the disk,
        "ray" distributes them among the workers of a cluster, and "cpu" reads a source into
        memory.
    n_jobs : int
        Threads for each fit; -1 means all cores, None means one.  It has no effect on the gpu
        engine.
    device : int, optional
        The number of the CUDA device, where there are several.
    deterministic : bool
        Whether the same seed gives the same bits on the gpu engine, on the same kind of device.
        There, many threads add up sparse rows, and any rows with a method other than "gram", in no
        fixed order, so that results differ in their last digits from run to run, and sometimes in
        the number of epochs.  Certificates hold in either case.  With True, steps are added up in
        integers, and full passes read a transposed copy of sparse rows, which doubles the memory
        and makes a fit slower.  The other engines, and "gram", do not need it.  On the ray engine
        it fixes the length of a round, which otherwise adapts to the cost of an exchange.

    y, sample_weight : str, optional
        The columns of the labels and of the weights, where a source consists of tables.
    columns : list of str, optional
        The columns of such tables that are features; by default all others.
    max_memory : int or str, optional
        For the streamed engine: a limit, in bytes or as a string such as "600MB", on what grows
        with the data; by default a quarter of the memory of this machine.
    cache : path, optional
        For the streamed engine: a folder that keeps what the first pass over a source has written,
        for the next call with the same source; by default a temporary folder.
    workers : int, optional
        For the ray engine: the number of workers; by default as many as the cluster has CPUs
        for.
    worker_resources : dict, optional
        For the ray engine: options of Ray's actors for each worker, such as ``{"num_cpus": 4}``.
    timeout : float, optional
        For the ray engine: a worker that has not answered for this many seconds is replaced; 60 by
        default.

    Returns
    -------
    Dataset
        A context manager; `close()` releases its threads, and its memory on a device.  It cannot be
        pickled: place X again in the other process.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    >>> with batchsvm.place(X) as data:
    ...     gaps = [batchsvm.fit(data, [1, 1, -1], lam=lam).certificate.gap for lam in (0.1, 0.01)]
    >>> max(gaps) <= 1e-3
    True
    """
    checks.choice("deterministic", deterministic, (False, True))
    placing = _known(placing)
    if is_placed(X):
        raise ValueError("X must be data that are not placed yet; these are: use them as they are")
    jobs, number = checks.read_jobs(n_jobs), checks.read_device(device)
    rows = opened(X, y, sample_weight, placing.pop("columns", None))
    for name in ("y", "sample_weight"):
        if getattr(rows, name) is not None:
            raise ValueError(f"{name} must be None for X in memory: give it to each fit")
    options = {**placing, **rows.options, "device": number, "deterministic": bool(deterministic)}
    return place_on(engine, rows.X, jobs, **options)


def opened(X: Any, y: Any = None, sample_weight: Any = None, columns: Any = None) -> Rows:
    """X, y and the weights; of a source, y and the weights are in it, and the names of their
    columns were given."""
    of_ray = is_ray_dataset(X)
    if not (of_ray or is_source(X) or _can_be_read_once(X)):
        if columns is not None:
            raise ValueError(
                "columns must be None for X in memory: choose its columns before, by X[:, columns]"
            )
        return Rows(X, y, sample_weight, {})
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if not (value is None or isinstance(value, str)):
            raise ValueError(
                f"{name} must be the name of a column for a source, or None where the source holds"
                f" it, not {type(value).__name__}"
            )
    names = {"y": y, "sample_weight": sample_weight, "columns": columns}
    return Rows(X, None, None, names) if of_ray else Rows(open_source(X, **names), None, None, {})


def _known(placing: Placing) -> Placing:
    """The options, refused as Python does it if there is no such one."""
    for name in placing:
        if name not in Placing.__annotations__:
            raise TypeError(f"there is no parameter {name!r}")
    return placing


def _can_be_read_once(X: Any) -> bool:
    """Whether X is an iterator, which `open_source` refuses with a sentence of its own."""
    return hasattr(X, "__next__")


@contextmanager
def placed_rows(
    X: Any,
    y: Any,
    sample_weight: Any,
    where: tuple[str, int | None, Any],
    once: bool = False,
    **how: Unpack[Placing],
) -> Iterator[tuple[Dataset, Any, Any]]:
    """X as placed data, y and the weights; `where` is engine, n_jobs and device."""
    (engine, n_jobs, device), how = where, _known(how)
    rows = opened(X, y, sample_weight, how.pop("columns", None))
    number = checks.read_device(device)
    with placed(rows.X, engine, n_jobs, once, number, **how, **rows.options) as data:
        yield data, rows.y, rows.sample_weight
