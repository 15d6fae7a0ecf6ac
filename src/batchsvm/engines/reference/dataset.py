"""The reference engine's data set: plain NumPy and SciPy, one thread, slow and obvious."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.core.data_checks import as_matrix, refuse_broken, refuse_infinite
from batchsvm.core.problem import Problem
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines.host_dataset import HostDataset
from batchsvm.engines.host_problem import AlphaOf
from batchsvm.engines.reference.group import TrainerGroup
from batchsvm.engines.reference.problem import ReferenceProblem
from batchsvm.engines.reference.steppers import make_stepper
from batchsvm.engines.trainer import HostTrainer
from batchsvm.methods import Method, Newton


class ReferenceDataset(HostDataset):
    """A `Dataset`: see `engines/protocol.py`."""

    engine = "reference"
    sliceable = True

    def __init__(self, X: Any, jobs: int = 1, tuning: Tuning = DEFAULT_TUNING) -> None:
        matrix = as_matrix(X)
        self.bytes_per_row = _stored_bytes(matrix) / matrix.shape[0]
        sparse = scipy.sparse.issparse(matrix)
        if sparse:
            refuse_broken(matrix)
            self.X = scipy.sparse.csr_array(matrix.copy())
            self.X.sum_duplicates()  # in the type that it has, as in the cpu engine
            self.X = self.X.astype(np.float64)
        else:
            self.X = matrix.astype(np.float64)
        self.n, self.d = self.X.shape
        self.jobs, self.tuning, self.memo = jobs, tuning, {}
        self.nonzeros = self.X.nnz if sparse else self.X.size
        self.longest_row = int(np.diff(self.X.indptr).max()) if sparse else self.d
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self.X.multiply(self.X) if sparse else self.X * self.X
            self.norms2 = np.asarray(squares.sum(axis=1)).ravel()
        refuse_infinite(self._first_not_finite())

    def _first_not_finite(self) -> tuple[int, float] | None:
        bad = np.flatnonzero(~np.isfinite(self.norms2))
        if not bad.size:
            return None
        row = self.sample(bad[:1])
        row = row.data if scipy.sparse.issparse(row) else row[0]
        worst = row[~np.isfinite(row)]
        return int(bad[0]), float(worst[0] if worst.size else row[np.argmax(np.abs(row))])

    @property
    def mean_norm2(self) -> float:
        return float(self.norms2.sum()) / self.n

    def bind(self, problem: Problem) -> ReferenceProblem:
        return ReferenceProblem(self, problem)

    def problems_at_once(self, method: Method | None = None) -> float:
        return 1 if isinstance(method, Newton) else inf

    def trainer(self, problem: Problem) -> TrainerGroup:
        self.require_open()
        trainers = [
            HostTrainer(
                self.bound_anew(problem.only(k)), make_stepper, self.bytes_per_row, self.tuning
            )
            for k in range(problem.k)
        ]
        return TrainerGroup(trainers)

    def _scaled(self, normalize: bool, bias: float | None) -> Any:
        """X with its bias column, rows scaled to norm 1 if asked for."""
        self.require_open()
        X, norms2 = self.X, self.norms2
        if bias is not None:
            column = np.full((self.n, 1), bias)
            sparse = scipy.sparse.issparse(X)
            X = scipy.sparse.hstack([X, column], "csr") if sparse else np.hstack([X, column])
            norms2 = norms2 + bias**2
        if not normalize:
            return X
        scale = np.divide(1.0, np.sqrt(norms2), out=np.zeros(self.n), where=norms2 > 0)
        return scipy.sparse.diags_array(scale) @ X

    def combine(self, coefficients: AlphaOf, bias: float | None) -> np.ndarray:
        c = coefficients(0, self.n)
        v = self.X.T @ c
        return v if bias is None else np.append(v, bias * np.sum(c))

    def gram_times(
        self, V: np.ndarray, normalize: bool = True, bias: float | None = None
    ) -> np.ndarray:
        X = self._scaled(normalize, bias)
        return X.T @ (X @ V)

    def absolute_sums(
        self, normalize: bool = True, bias: float | None = None
    ) -> tuple[np.ndarray, float]:
        X = abs(self._scaled(normalize, bias))
        return np.asarray(X.sum(axis=0)).ravel(), float(X.sum(axis=1).max())

    def column_norms2(self) -> np.ndarray:
        self.require_open()
        squares = self.X.multiply(self.X) if scipy.sparse.issparse(self.X) else self.X * self.X
        return np.asarray(squares.sum(axis=0)).ravel()

    def sample(self, rows: np.ndarray) -> Any:
        self.require_open()
        return self.X[np.asarray(rows)]

    def subset(self, rows: np.ndarray) -> ReferenceDataset:
        return ReferenceDataset(self.sample(rows), self.jobs, self.tuning)

    def share(self, jobs: int) -> ReferenceDataset:
        self.require_open()
        view = self._view()
        view.jobs = jobs
        return view

    def scores(self, W: np.ndarray) -> np.ndarray:
        self.require_open()
        return np.asarray(self.X @ W)


def _stored_bytes(matrix: Any) -> int:
    if scipy.sparse.issparse(matrix):
        return matrix.data.nbytes + matrix.indices.nbytes
    return matrix.nbytes


def place(
    X: Any, jobs: int = 1, tuning: Tuning = DEFAULT_TUNING, keeps_norms: bool = True
) -> ReferenceDataset:
    """X in float64, whatever it was."""
    return ReferenceDataset(X, jobs, tuning)
