"""One cell of the experiments: how many iterations to a 0.001-accurate primal solution.

The number is found by bracketing: a run with checkpoints 25 % apart finds an interval, and a
second run with the same seed looks at that interval 2 % apart.
"""

from __future__ import annotations

import functools
import time
import warnings
from dataclasses import asdict, dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm.methods import METHODS
from experiments.sets import load

ACCURACY = 1e-3
COARSE, FINE = 1.25, 1.02


@dataclass(frozen=True)
class Cell:
    """A method on a set with a batch size and a seed, and what is changed of it."""

    data: str
    method: str
    b: int
    seed: int
    averaging: str = ""
    loss: str = "hinge"
    variant: str = ""  # a name of VARIANTS
    max_epochs: float = 100.0
    least_iterations: int = 1200  # allowed even where they are more epochs than that

    @property
    def key(self) -> str:
        return "/".join(str(value) for value in asdict(self).values())


# What the experiments change beyond the paper: arguments of the method.
VARIANTS: dict[str, dict[str, object]] = {
    "": {},
    "gamma 0.5": {"gamma": 0.5},
    "gamma 0.8": {"gamma": 0.8},
    "gamma 0.99": {"gamma": 0.99},
    "3 rounds": {"rounds": 3},
    "literal step": {"step": "literal"},
    "permutation": {"sampling": "permutation"},
    "crude sigma2": {"sigma2": "crude"},
    "sigma2 = 1": {"sigma2": 1.0},
    "wrong beta": {"sigma2": 1e-12},  # beta_b = 1 whatever b is: a failure that tests plant
}


@functools.cache
def sigma2(name: str, how: str = "auto") -> batchsvm.spectral.Sigma2:
    """sigma^2 of the rows scaled to unit norm, once for each process."""
    return batchsvm.sigma2(load(name).X, how)


@functools.cache
def optimum(name: str, loss: str, tol: float = 1e-8) -> batchsvm.Certificate:
    """A certificate whose dual value is the optimum to within tol."""
    data = load(name)
    return quietly(
        data.X, data.y, loss, data.lam, tol=tol, max_epochs=20_000, random_state=0
    ).certificate


def quietly(*args, **kwargs) -> batchsvm.Solution:
    """A fit that may well stop before its tol."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return batchsvm.fit(*args, **kwargs)


def method_of(cell: Cell):
    arguments = {"sampling": "subsets", "sigma2": sigma2(cell.data), **VARIANTS[cell.variant]}
    if arguments["sigma2"] == "crude":
        arguments["sigma2"] = sigma2(cell.data, "crude")
    if cell.variant == "literal step":  # with the sigma^2 that belongs to it
        arguments["sigma2"] = batchsvm.sigma2(load(cell.data).X, normalize=False)
    return METHODS[cell.method](**arguments)


def iterations_to_accuracy(cell: Cell) -> dict[str, object]:
    """The cell's result: iterations (None: never within max_epochs), and where it ended."""
    began = time.perf_counter()
    data, best = load(cell.data), optimum(cell.data, cell.loss)
    n = data.X.shape[0]
    most = budget(cell, n)
    first = max(1, int(0.2 * n / cell.b))
    found, before, reached = _first_below(cell, best, _grid(first, most, COARSE))
    if found is not None and found - before > 1:
        found, _, reached = _first_below(cell, best, _grid(max(before, 1), found, FINE))
    return {
        "iterations": found,
        "sub_optimality": reached,
        "seconds": time.perf_counter() - began,
    }


def budget(cell: Cell, n: int) -> int:
    """The iterations after which a run counts as one that never gets there."""
    return max(int(np.ceil(cell.max_epochs * n / cell.b)), cell.least_iterations)


def _grid(first: int, last: int, growth: float) -> list[int]:
    count = int(np.ceil(np.log(max(last / first, 1.0)) / np.log(growth))) + 1
    return np.unique(np.geomspace(first, last, max(count, 2)).round().astype(int)).tolist()


def _first_below(cell: Cell, best, grid: list[int]) -> tuple[int | None, int, float]:
    """The first iteration of the grid that is accurate, the one looked at before, and how far."""
    data = load(cell.data)
    seen = [(0, np.inf)]

    def look(checkpoint):
        t, error = checkpoint.iteration, checkpoint.certificate.primal - best.dual
        seen.append((t, error))
        hopeless = checkpoint.epoch > 20 and t > 300 and error > 100 * ACCURACY
        return t > 0 and (error <= ACCURACY or hopeless)

    quietly(
        data.X, data.y, cell.loss, data.lam, method_of(cell), cell.b, tol=0,
        max_epochs=grid[-1] * cell.b / data.X.shape[0], averaging=cell.averaging or None,
        random_state=cell.seed, checkpoints=grid, callback=look,
    )  # fmt: skip
    (before, _), (last, gap) = seen[-2:]
    return (last, before, gap) if gap <= ACCURACY else (None, before, gap)


def trajectory(name: str, method: str, b: int, max_epochs: float = 40.0) -> list[dict[str, object]]:
    """Figure 2: sub-optimality and test error along a run, with the decaying average."""
    data, best = load(name), optimum(name, "hinge")
    cell = Cell(name, method, b, seed=0, averaging="decay", max_epochs=max_epochs)
    rows = []

    def look(checkpoint):
        error = float(np.mean((data.X_test @ checkpoint.w > 0) != (data.y_test > 0)))
        rows.append(
            {
                "data": name, "method": method, "b": b, "iteration": checkpoint.iteration,
                "primal": checkpoint.certificate.primal - best.dual,
                "dual": best.primal - checkpoint.certificate.dual, "test_error": error,
            }
        )  # fmt: skip

    last = int(np.ceil(max_epochs * data.X.shape[0] / b))
    quietly(
        data.X, data.y, "hinge", data.lam, method_of(cell), b, tol=0, max_epochs=max_epochs,
        averaging="decay", random_state=0, checkpoints=_grid(1, last, 1.2), callback=look,
    )  # fmt: skip
    return rows
