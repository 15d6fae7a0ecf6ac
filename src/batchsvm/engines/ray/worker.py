"""What runs in an actor: one part of the rows, an ordinary data set, and the trainings on it.

Calls come one after another, in the order in which the driver has made them.  `pulse` and `halt`
have a thread of their own, so that a worker that is busy answers.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from batchsvm.core.certificate import Sums
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem
from batchsvm.core.tuning import Tuning
from batchsvm.engines import cpu
from batchsvm.engines.cpu.dataset import CpuDataset
from batchsvm.engines.cpu.read import first_row_not_finite
from batchsvm.engines.cpu.rows import some_norms2
from batchsvm.engines.labels import Labels
from batchsvm.engines.ray import handles
from batchsvm.engines.ray.errors import UnknownTrainingError
from batchsvm.engines.ray.library import load_ray
from batchsvm.engines.ray.local_training import LocalTraining, Order, Report, Task
from batchsvm.engines.ray.origins import Piece, Rows, sparse


class Where(NamedTuple):
    """The process of a worker."""

    node: str
    pid: int


class Shape(NamedTuple):
    """What a worker has read, before it is placed."""

    rows: int
    columns: int
    is_sparse: bool
    labels: Labels | None
    has_weights: bool
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Placing:
    """How rows that were read are to be placed, the same for all workers."""

    columns: int
    is_sparse: bool
    jobs: int
    tuning: Tuning
    keeps_norms: bool


class PartFacts(NamedTuple):
    """What a placed part is."""

    rows: int
    nonzeros: int
    norm2: float  # of all rows
    sliceable: bool
    not_finite: tuple[int, float] | None  # the first row that is not, and what it holds


class View(NamedTuple):
    """Some rows of a part, as a data set of its own; it is made when it is first asked for."""

    key: int
    stored: Any  # a reference to the numbers of the rows, in the part


class PartWorker:
    """One worker; see the head of this file."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._rows: Rows | None = None
        self._part: CpuDataset | None = None
        self._views: dict[int, CpuDataset] = {}
        self._trainings: dict[int, LocalTraining] = {}
        self._at_work: tuple[int, StopFlag] | None = None

    def where(self) -> Where:
        return Where(load_ray().get_runtime_context().get_node_id(), os.getpid())

    def pulse(self) -> bool:
        """Answered while other calls run."""
        return True

    def halt(self, key: int) -> None:
        """End the round of a training that is under way, if there is one."""
        at_work = self._at_work
        if at_work is not None and at_work[0] == key:
            at_work[1].set()

    # The part.

    def read(self, origin: Any) -> Shape:
        self.clear()
        rows = self._rows = origin.read(self._timeout)
        n, columns = rows.X.shape
        has_weights = rows.weights is not None
        return Shape(
            n, columns, scipy.sparse.issparse(rows.X), rows.labels, has_weights, rows.pieces
        )

    def place(self, how: Placing) -> PartFacts:
        assert self._rows is not None
        X = sparse(self._rows.X, how.columns) if how.is_sparse else self._rows.X
        part = cpu.place(_writable(X), how.jobs, how.tuning, how.keeps_norms)
        norms2 = np.empty(part.n)
        some_norms2(part.rows, 0, norms2)
        self._rows, self._part = self._rows._replace(X=X), part
        bad = first_row_not_finite(part.rows, norms2)
        return PartFacts(part.n, part.nonzeros, float(norms2.sum()), part.sliceable, bad)

    def clear(self) -> None:
        """Give back all memory."""
        for view in self._views.values():
            view.close()
        if self._part is not None:
            self._part.close()
        self._rows = self._part = None
        self._views, self._trainings = {}, {}

    def _data(self, view: View | None) -> CpuDataset:
        assert self._part is not None
        if view is None:
            return self._part
        if view.key not in self._views:
            rows = load_ray().get(view.stored, timeout=self._timeout)
            self._views[view.key] = self._part.subset(rows)
        return self._views[view.key]

    def forget(self, view: View) -> None:
        """Close some rows that were a data set of their own."""
        if view.key in self._views:
            self._views.pop(view.key).close()

    def _read(self, view: View | None, problem: Problem) -> Problem:
        assert self._rows is not None
        y, weights = self._rows.y, self._rows.weights
        if view is not None and y is not None:
            rows = load_ray().get(view.stored, timeout=self._timeout)
            y, weights = y[rows], None if weights is None else weights[rows]
        return handles.read(problem, y, weights, self._timeout)

    def ask(self, view: View | None, work: Callable[..., Any], *arguments: Any) -> Any:
        """work(part, ...): one of the functions of `engines/parts.py`."""
        own = [self._read(view, a) if isinstance(a, Problem) else a for a in arguments]
        return work(self._data(view), *own)

    def add(self, plus: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
        """A step of a sum over the workers."""
        return plus(one, other)

    # Trainings.

    def begin(self, key: int, view: View | None, task: Task) -> None:
        problem = self._read(view, task.problem)
        task = Task(problem, task.schedule, task.total_weights, task.alpha, task.seed)
        self._trainings[key] = LocalTraining(self._data(view), task)

    def end(self, key: int) -> None:
        self._trainings.pop(key, None)

    def _training(self, key: int) -> LocalTraining:
        if key not in self._trainings:
            raise UnknownTrainingError(key)
        return self._trainings[key]

    def work(self, key: int, order: Order, W: np.ndarray) -> tuple[np.ndarray, Report]:
        stop = StopFlag()
        self._at_work = key, stop
        try:
            return self._training(key).work(order, W, stop)
        finally:
            self._at_work = None

    def settle(self, key: int, number: int, thetas: dict[int, float]) -> None:
        if key in self._trainings:
            self._trainings[key].settle(number, thetas)

    def alphas(self, key: int) -> np.ndarray:
        return self._training(key).alphas()

    def sums(self, key: int, W: np.ndarray, screen: bool) -> Sums:
        return self._training(key).sums(W, screen)

    def combination(self, key: int) -> np.ndarray:
        return self._training(key).combination()


def _writable(X: Any) -> Any:
    """X as it lies in the object store, without a copy.  Its arrays are read-only there, and for
    those all kernels would be compiled a second time; no kernel writes to X."""
    if not scipy.sparse.issparse(X):
        return _writable_array(X)
    parts = [_writable_array(part) for part in (X.data, X.indices, X.indptr)]
    return scipy.sparse.csr_array(tuple(parts), shape=X.shape)


def _writable_array(array: np.ndarray) -> np.ndarray:
    if array.flags.writeable or not array.flags.c_contiguous or not array.size:
        return array
    memory = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return np.frombuffer(memoryview(memory), array.dtype).reshape(array.shape)
