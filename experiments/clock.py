"""Wall-clock time of an iteration, on one and on several threads."""

from __future__ import annotations

from statistics import median

from experiments.cells import PAPER, Cell, method_of, quietly
from experiments.sets import load

CLOCKED = tuple(method for method in PAPER if method != "naive")  # which costs what safe does
TURNS = 5
LEAST_SECONDS = 0.025  # that a run takes, unless it reaches the optimum before


def seconds_an_iteration(
    name: str, method: str, b: int, threads: tuple[int, ...]
) -> dict[str, float]:
    """The median over some turns, by the number of threads, which take turns.

    Certificates and set-up are left out: they depend on how often one looks.
    """
    iterations = _enough(name, method, b)
    times: dict[int, list[float]] = {jobs: [] for jobs in threads}
    for turn in range(TURNS + 1):  # the first one compiles
        for jobs in threads:
            seconds, done = _run(name, method, b, jobs, iterations)
            if turn:
                times[jobs].append(seconds / done)
    return {str(jobs): median(found) for jobs, found in times.items()}


def _enough(name: str, method: str, b: int) -> int:
    iterations = 1
    seconds, done = _run(name, method, b, 1, iterations)
    while seconds < LEAST_SECONDS and done == iterations:
        iterations *= 4
        seconds, done = _run(name, method, b, 1, iterations)
    return iterations


def _run(name: str, method: str, b: int, jobs: int, iterations: int) -> tuple[float, int]:
    """Seconds and iterations of a run, which may reach the optimum before it has done all."""
    data = load(name)
    chosen = method_of(Cell(name, method, b, seed=0))
    history = quietly(
        data.X, data.y, "hinge", data.lam, chosen, b, tol=0,
        max_epochs=iterations * b / data.X.shape[0], n_jobs=jobs, random_state=0,
    ).history  # fmt: skip
    return float(history.seconds[-1]), int(history.iteration[-1])
