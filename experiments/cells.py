"""One cell of the experiments: how many iterations to a 0.001-accurate primal solution.

A run is looked at 50 % apart at first, and the closer it comes the closer together, so that
the number is exact to 2 %; where it got there sooner than expected, a second run with the
same seed looks at the last interval 2 % apart.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import exp, inf, log

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm.methods import METHODS
from experiments.sets import Data, load

PAPER = ("pegasos", "naive", "safe", "aggressive")  # the methods of its experiments
# Its Section 4.2 names the joint update over a batch, and sets it aside.
FIGURE_1 = (*PAPER, "gram")
ACCURACY = 1e-3
COARSE, FINE = 1.5, 1.02  # how much later the next look is
STUCK = 0.03  # an error that falls like t^-p with a smaller p does not fall


@dataclass(frozen=True)
class Cell:
    """A method on a set with a batch size and a seed, and what is changed of it."""

    data: str
    method: str
    b: int
    seed: int
    averaged: bool = False  # look at the decaying average too, beside the last iterate
    loss: str = "hinge"
    variant: str = ""  # a name of VARIANTS
    max_epochs: float = 100.0
    least_iterations: int = 1400  # allowed even where they are more epochs than that

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
def sigma2(name: str, how: str = "auto") -> batchsvm.core.spectral.Sigma2:
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
    if cell.method == "gram":  # batches that keep their rows: no other way to draw them
        return METHODS["gram"]()
    arguments = {"sampling": "subsets", "sigma2": sigma2(cell.data), **VARIANTS[cell.variant]}
    if arguments["sigma2"] == "crude":
        arguments["sigma2"] = sigma2(cell.data, "crude")
    if cell.variant == "literal step":  # with the sigma^2 that belongs to it
        arguments["sigma2"] = batchsvm.sigma2(load(cell.data).X, normalize=False)
    return METHODS[cell.method](**arguments)


class Search:
    """The looks at one series of points: when the next is due, and whether it is worth it."""

    def __init__(self, most: float) -> None:
        self.most = most
        self.looks: list[tuple[int, float]] = []  # iteration, primal sub-optimality

    def note(self, t: int, error: float) -> None:
        self.looks.append((t, max(error, 1e-300)))

    @property
    def growth(self) -> float:
        """How much later the next look is due: a third of the way to where the last two
        looks, on log-log axes, point."""
        if len(self.looks) < 2:
            return COARSE
        (s, before), (t, now) = self.looks[-2:]
        if now >= before:
            return COARSE if now > 2 * ACCURACY else FINE
        slope = max(log(before / now) / log(t / s), 1e-9)
        way = log(now / ACCURACY) / (3 * slope)
        return exp(min(max(way, log(FINE)), log(COARSE)))

    @property
    def reached(self) -> bool:
        return bool(self.looks) and self.looks[-1][1] <= ACCURACY

    @property
    def is_over(self) -> bool:
        return bool(self.looks) and (self.reached or self.is_hopeless())

    def slope(self) -> float:
        """p where the smallest error so far falls like t^-p, since half of the iterations."""
        t = self.looks[-1][0]
        half = max((s for s, _ in self.looks if 2 * s <= t), default=self.looks[0][0])
        before = min(error for s, error in self.looks if s <= half)
        now = min(error for _, error in self.looks)
        return log(before / now) / log(t / half) if t > half else 0.0

    def is_hopeless(self) -> bool:
        """Whether a run will not get there in the iterations that are left.

        At half of its iterations, a run that converges linearly, error exp(-ct), has p = ct
        and would need 1.44 times p from then on; it is given 2.5 times.
        """
        t, error = self.looks[-1][0], min(error for _, error in self.looks)
        stuck = 4 * t > self.most and self.slope() <= STUCK and error > 10 * ACCURACY
        too_slow = 2 * t > self.most and (
            error * (t / self.most) ** (2.5 * self.slope()) > ACCURACY
        )
        return stuck or too_slow

    def outcome(self) -> str:
        """ "reached", "unfinished" (still getting better), or "failed" (hardly so)."""
        return "reached" if self.reached else "unfinished" if self.slope() > STUCK else "failed"

    def bracket(self) -> tuple[int, int]:
        """The look that was accurate, and the one before."""
        return self.looks[-2][0] if len(self.looks) > 1 else 0, self.looks[-1][0]


def iterations_to_accuracy(cell: Cell) -> dict[str, dict[str, object]]:
    """For the last iterate ("") and the average ("decay"), which are looked at in one run:
    iterations (None: not within the budget), how it ended, and how far away."""
    n = load(cell.data).X.shape[0]
    most = budget(cell, n)
    kinds = ("", "decay") if cell.averaged else ("",)
    searches = {kind: Search(most) for kind in kinds}
    _run(cell, searches, _due(searches, max(1, n // (2 * cell.b)), most), most)
    wide = {
        kind: search.bracket()
        for kind, search in searches.items()
        if search.reached and search.bracket()[1] > max(FINE * search.bracket()[0], 1.0)
    }
    if wide:
        again = {kind: Search(inf) for kind in kinds}
        looks = {t for before, found in wide.values() for t in _grid(before, found, FINE)}
        _run(cell, again, iter(sorted(looks)), max(looks))
        searches |= {kind: again[kind] for kind in wide}
    return {
        kind: {
            "iterations": search.looks[-1][0] if search.reached else None,
            "outcome": search.outcome(),
            "sub_optimality": search.looks[-1][1],
        }
        for kind, search in searches.items()
    }


def budget(cell: Cell, n: int) -> int:
    """The iterations a run is given."""
    return max(int(np.ceil(cell.max_epochs * n / cell.b)), cell.least_iterations)


def _due(searches: dict[str, Search], first: int, most: int) -> Iterator[int]:
    """The iterations to look at; asked for one at a time, after the look before."""
    t = first
    while t < most:
        yield t
        t = max(t + 1, int(t * min(s.growth for s in searches.values() if not s.is_over)))


def _run(cell: Cell, searches: dict[str, Search], looks: Iterator[int], most: int) -> None:
    data, best = load(cell.data), optimum(cell.data, cell.loss)

    def look(checkpoint: batchsvm.Checkpoint) -> bool:
        t = checkpoint.iteration
        if t == 0:
            return False
        for kind, search in searches.items():
            if search.is_over:
                continue
            certified = kind == "decay" or not cell.averaged
            primal = (
                checkpoint.certificate.primal
                if certified
                else primal_of(data, cell.loss, checkpoint.iterate)
            )
            search.note(t, primal - best.dual)
        return all(search.is_over for search in searches.values())

    quietly(
        data.X, data.y, cell.loss, data.lam, method_of(cell), cell.b, tol=0,
        max_epochs=most * cell.b / data.X.shape[0], averaging="decay" if cell.averaged else None,
        random_state=cell.seed, checkpoints=looks, callback=look,
    )  # fmt: skip


def primal_of(data: Data, loss: str, w: np.ndarray) -> float:
    """P(w), written down once more."""
    responses = np.where(data.y > 0, 1.0, -1.0) * (data.X @ w)
    values = batchsvm.losses.LOSSES[loss]().value(responses)
    return float(np.mean(values) + data.lam / 2 * (w @ w))


def _grid(first: int, last: int, growth: float) -> list[int]:
    first = max(first, 1)
    count = int(np.ceil(log(max(last / first, 1.0)) / log(growth))) + 1
    return np.unique(np.geomspace(first, last, max(count, 2)).round().astype(int)).tolist()


def trajectory(name: str, method: str, b: int, max_epochs: float = 40.0) -> list[dict[str, object]]:
    """Figure 2: sub-optimality and test error along a run, with the decaying average."""
    data, best = load(name), optimum(name, "hinge")
    cell = Cell(name, method, b, seed=0, max_epochs=max_epochs)
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
