"""Problems that the conformance suite states on every engine, and what each engine offers.

Each loss comes with one storage, and with some of weights, bias, offset and radius, so that all of
them occur and few kernels are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import pytest
import scipy.sparse as sp

import oracle
from batchsvm.core.layout import Schedule
from batchsvm.core.problem import Problem, make_problem
from batchsvm.core.training import Start, train
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines import ENGINES, place_on
from batchsvm.losses import LOSSES
from batchsvm.methods import (
    Aggressive,
    Asynchronous,
    Blocks,
    Gram,
    Guarded,
    Naive,
    Pegasos,
    Safe,
)
from helpers import FORMATS, HOST_ENGINES, LAM, toy

FORMS = {"dense": "dense-float64", "csr": "csr-float64-int32"}
CLOSED = "^this data set is closed: place X again to use it$"
# Threads, many small blocks of rows, and more columns than workers exchange.
CUT_SMALL = Tuning(
    min_parallel_nonzeros=0, min_worker_rows=1, max_block_rows=16, max_exchanged_columns=4
)
LAMS = np.array([LAM, 0.02, 0.3])
CONSTANTS = np.array([-0.37, 0.21, 1.13])  # away from all kinks
HARD = 1e-5  # a lam with which no run comes to its end while a test lasts
ENDLESS = {"tol": 0.0, "max_epochs": 1e6}


@dataclass(frozen=True)
class Case:
    """How the problems of one loss are stated."""

    form: str
    bias: float | None = None
    weighted: bool = False
    offset: bool = False
    radius: float = inf
    jobs: int = 1


CASES = {
    "hinge": Case("dense-float64", jobs=2),
    "smoothed_hinge": Case("csr-float32-int32", bias=0.5, weighted=True),
    "squared_hinge": Case("csr-float64-int32", weighted=True, offset=True),
    "logistic": Case("dense-float32", bias=2.0, radius=0.8),
    "absolute": Case("csr-float64-int32", radius=1.0, jobs=2),
    "epsilon_insensitive": Case("dense-float64", bias=1.5, weighted=True),
    "squared_epsilon_insensitive": Case("csr-float64-int32", bias=0.75, weighted=True),
    "squared_error": Case("dense-float64", weighted=True, offset=True),
    "quantile": Case("csr-float32-int32", weighted=True, offset=True, radius=2.0),
    "huber": Case("dense-float32", bias=0.25, offset=True),
}


class Setting:
    """K problems of a case on an engine, and the same in plain arrays."""

    def __init__(self, engine: str, loss_name: str, k: int, storage: str | None = None) -> None:
        self.engine, self.loss_name, self.k, self.case = engine, loss_name, k, CASES[loss_name]
        self.loss = LOSSES[loss_name]()
        X, y = toy(loss_name)
        rng = np.random.default_rng(5)
        n = len(y)
        self.columns = self._targets(X, y, rng)
        self.weight = rng.integers(0, 4, size=(n, k)) / 2 if self.case.weighted else None
        self.offset = rng.normal(size=(n, k)) if self.case.offset else None
        self.form = self.case.form if storage is None else FORMS[storage]
        self.storage = self.form.split("-")[0]
        self.stored, self.X = FORMATS[self.form](X), X
        self.n, self.d = self.X.shape
        self.lam = LAMS[:k]
        spread = np.arange(k) / 4  # every problem has its own bias and its own constant
        self.bias = None if self.case.bias is None else self.case.bias + spread
        self.constant = 0.2 - spread if self.case.offset else np.zeros(k)

    def _targets(self, X, y, rng):
        noise = rng.normal(size=(len(y), 2))
        columns = np.column_stack([y, X @ rng.normal(size=(X.shape[1], 2)) + noise])
        if self.loss.task == "classification":
            columns = np.where(columns >= 0, 1.0, -1.0)
        return columns[:, : self.k]

    def place(self) -> Setting:
        jobs = self.case.jobs
        self.data = place_on(
            self.engine, self.stored, jobs, CUT_SMALL if jobs > 1 else DEFAULT_TUNING
        )
        self.problem = self.problem_over(self.data)
        return self

    def problem_over(self, data, rows=None) -> Problem:
        """These problems over all or some of the rows."""
        columns = (self.columns, self.weight, self.offset)
        kept = (None if column is None else column[slice(None) if rows is None else rows]
                for column in columns)  # fmt: skip
        targets = data.targets(*(None if column is None else self._thin(column) for column in kept))
        return make_problem(
            targets, self.loss, self.lam, self.bias, self.constant, self.case.radius
        )

    def _thin(self, column):
        return np.asfortranarray(column) if self.k > 1 else np.ascontiguousarray(column[:, 0])

    # The same in plain arrays.

    @property
    def p(self) -> int:
        return self.d + (self.bias is not None)

    def rows(self, k: int) -> np.ndarray:
        """X of problem k, with its constant column."""
        if self.bias is None:
            return self.X
        return np.column_stack([self.X, np.full(self.n, self.bias[k])])

    def signs(self, k: int) -> np.ndarray:
        return np.ones(self.n) if self.loss.task == "regression" else self.columns[:, k]

    def fixed(self, k: int) -> np.ndarray:
        """o_i of problem k."""
        given = np.zeros(self.n) if self.offset is None else self.offset[:, k]
        y = self.columns[:, k] if self.loss.task == "regression" else 0.0
        return y - self.signs(k) * (given + self.constant[k])

    def weights(self, k: int) -> np.ndarray:
        return np.ones(self.n) if self.weight is None else self.weight[:, k]

    def responses(self, k: int, w) -> np.ndarray:
        return self.signs(k) * (self.rows(k) @ w) - self.fixed(k)

    def values(self, k: int, a) -> np.ndarray:
        return oracle.VALUES[self.loss_name](a, *oracle.DEFAULTS.get(self.loss_name, ()))

    def primal(self, k: int, w) -> float:
        c = self.weights(k)
        return c @ self.values(k, self.responses(k, w)) / c.sum() + self.lam[k] / 2 * w @ w

    def dual(self, k: int, alpha) -> float:
        c, lam = self.weights(k), self.lam[k]
        relative = np.divide(alpha, c, out=np.zeros(self.n), where=c > 0)
        arguments = oracle.DEFAULTS.get(self.loss_name, ())
        conjugates = c * oracle.CONJUGATES[self.loss_name](relative, *arguments)
        u = np.linalg.norm(self.rows(k).T @ (alpha * self.signs(k))) / c.sum()
        r = min(u / lam, self.case.radius)  # the norm of the w that is best for this alpha
        return (alpha @ self.fixed(k) - conjugates.sum()) / c.sum() - (r * u - lam / 2 * r * r)

    def w_of(self, k: int, alpha) -> np.ndarray:
        """w(alpha), where no radius confines it."""
        return self.rows(k).T @ (alpha * self.signs(k)) / (self.lam[k] * self.weights(k).sum())

    def random_points(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(W, alpha): W in the ball, alpha in the box and partly at its corners."""
        rng = np.random.default_rng(seed)
        W = rng.normal(size=(self.p, self.k))
        W *= 0.9 * min(self.case.radius, 1.5) / np.linalg.norm(W, axis=0)
        lower, upper = max(self.loss.lower, -3.0), min(self.loss.upper, 3.0)
        relative = lower + (upper - lower) * rng.random((self.n, self.k))
        relative[rng.random((self.n, self.k)) < 0.3] = 0.0
        at_bound = rng.random((self.n, self.k)) < 0.2
        relative[at_bound] = self.loss.upper if self.loss.upper < inf else 0.0
        alpha = np.column_stack([relative[:, k] * self.weights(k) for k in range(self.k)])
        return W, np.asfortranarray(alpha)


def close_to(found, expected, scale=1.0):
    """Equal but for the rounding of sums in float64."""
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * scale)


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


# What engines offer.

ON_HOSTS = (
    Naive(), Safe(), Guarded(), Aggressive(), Pegasos(), Blocks(blocks=2),
    Blocks(blocks=2, exchange="frequency"), Gram(), Gram(batches=2),
)  # fmt: skip
ON_A_DEVICE = {
    "dense": (Naive(), Safe(), Aggressive(), Pegasos(), Gram(), Gram(batches=2)),
    "csr": (Naive(), Safe(), Aggressive(), Pegasos(), Asynchronous()),
}
IN_PARTS = ("streamed", "ray")
DUAL_ON_HOSTS = tuple(method for method in ON_HOSTS if not isinstance(method, Pegasos))
BY_CHANCE = Asynchronous  # the same seed does not give the same bits


def offered(engine, storage):
    """The methods of an engine for "dense" or "csr" rows, one problem at a time."""
    if engine in IN_PARTS:
        return DUAL_ON_HOSTS
    return ON_HOSTS if engine in HOST_ENGINES else ON_A_DEVICE[storage]


# Every method on every storage that an engine offers it for; the kernels of the cpu engine are
# compiled for CSR rows elsewhere.
RUNS = [
    pytest.param(engine, storage, method, id=f"{engine}-{storage}-{method.name}{i}")
    for engine in ENGINES
    for storage in (FORMS if engine != "cpu" else ["dense"])
    for i, method in enumerate(offered(engine, storage))
]


def runs_of(*kinds):
    """The runs of some methods."""
    return [run for run in RUNS if isinstance(run.values[2], kinds)]


def scheduled(method, batch_size, **kwargs):
    """A schedule that every engine follows number by number, if it offers the method."""
    batches = method.batches if isinstance(method, Gram) else 1
    batches = 1 if batches == "auto" else batches
    options = {"beta_b": 2.0, "precision": "float64", "batches": batches, **kwargs}
    return Schedule(method, batch_size, **options)


def started(data, problem, schedule, dual=None):
    trainer = data.trainer(problem)
    trainer.start(schedule, dual)
    return trainer


def repeatable(method, batch_size):
    """A batch size with which two runs make the same steps."""
    return 1 if isinstance(method, BY_CHANCE) else batch_size


def everyone(problem):
    return np.ones(problem.k, np.bool_)


def at_once(data, problem, method):
    """As many of the problems as a trainer takes: all of them, or the last one alone."""
    if data.problems_at_once(method) >= problem.k:
        return problem
    return problem.only(problem.k - 1)


def train_all(data, problem, options, seed=0, stop=None, alpha=None):
    """A solution for each problem: all at once, or each on its own where that is what the engine
    can do; problem k has the seed + k."""
    if data.problems_at_once(options.method) >= problem.k:
        return train(data, problem, options, Start(seed, alpha), stop)
    return [
        train(
            data, problem.only(k), options,
            Start(seed + k, None if alpha is None else alpha[:, [k]]), stop,
        )[0]
        for k in range(problem.k)
    ]  # fmt: skip
