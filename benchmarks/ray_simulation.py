"""Training on many machines, simulated by one: rounds are computed, the network is a formula.

    python -m benchmarks.ray_simulation --workers 16 64 256

The steps are those of the ray engine (`engines/ray/local_training.py`, `engines/ray/rounds.py`),
one worker after another, so that rounds and gaps are what a cluster would show.  A round takes as
long as its slowest worker did here, and the exchange:

    2 ceil(log2 workers) hops of latency + 8 d / bandwidth, for w to the workers and the sum back
    and the driver's calls, one after another
"""

from __future__ import annotations

import argparse
from math import ceil, inf, log2
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from batchsvm.core.certificate import DUALS
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.engines import cpu
from batchsvm.engines.part_steps import iterations_per_visit
from batchsvm.engines.ray.local_training import LocalTraining, Order, Task
from batchsvm.engines.ray.rounds import RoundSize, joint_step
from batchsvm.losses import LOSSES
from batchsvm.methods import Safe
from batchsvm.methods.gram import LARGEST_FIRST_BETA
from benchmarks.streamed.parts import text_part
from benchmarks.words import table

LAM, TOL = 1e-5, 1e-3
MAX_EPOCHS = 200


class Network(NamedTuple):
    bandwidth: float = 1.25e9  # bytes per second: 10 Gbit/s
    latency: float = 5e-4  # seconds per hop, Ray's own share included
    call: float = 3e-4  # seconds of the driver per worker and round

    def exchange_seconds(self, workers: int, columns: int) -> float:
        hops = 2 * ceil(log2(max(workers, 2)))
        return hops * (self.latency + 8 * columns / self.bandwidth) + workers * self.call


class Found(NamedTuple):
    workers: int
    rounds: int
    epochs: float
    work_seconds: float
    exchange_seconds: float
    gap: float

    @property
    def seconds(self) -> float:
        return self.work_seconds + self.exchange_seconds


class Simulation:
    """One hinge problem over the parts of all workers."""

    def __init__(self, parts: list[tuple[sp.csr_array, np.ndarray]], network: Network) -> None:
        self._network, self._n = network, sum(y.size for _, y in parts)
        self._data = [cpu.place(X, 1) for X, _ in parts]
        self._columns = parts[0][0].shape[1]
        schedule = Schedule(Safe(), 1)
        total = np.array([float(self._n)])
        self._workers = []
        for j, (data, (_, y)) in enumerate(zip(self._data, parts, strict=True)):
            problem = make_problem(data.targets(y.astype(np.int8)), LOSSES["hinge"](), LAM)
            task = Task(problem, schedule, total, None, (j, 0))
            self._workers.append(LocalTraining(data, task))
        self._lam_n = np.array([LAM * self._n])
        self._per_visit = iterations_per_visit(schedule, self._data[0].n)

    def run(self) -> Found:
        count = len(self._workers)
        exchange = self._network.exchange_seconds(count, self._columns)
        size = RoundSize(self._per_visit * count, False)
        W = np.zeros((self._columns, 1), order="F")
        beta = np.array([min(float(count), LARGEST_FIRST_BETA)])
        rounds, iterations, work, gap, certified = 0, 0, 0.0, inf, 0.0
        while gap > TOL and iterations < MAX_EPOCHS * self._per_visit * count:
            rounds += 1
            share = max(1, size.iterations // count)
            order = Order(rounds, (0,), share, tuple(beta), (-inf,))
            found = [worker.work(order, W, StopFlag()) for worker in self._workers]
            delta = np.sum([own for own, _ in found], axis=0)
            numbers = np.array([report.numbers for _, report in found])
            products, squares = np.sum(W * delta, axis=0), np.sum(delta * delta, axis=0)
            step = joint_step(numbers, products, squares, self._lam_n, beta)
            beta, theta = step.betas, float(step.thetas[0])
            W = np.asfortranarray(W + theta * delta)
            if theta < 1.0:
                for worker in self._workers:
                    worker.settle(rounds, {0: theta})
            slowest = max(report.seconds for _, report in found)
            size.learn(share * count, slowest, exchange)
            work, iterations = work + slowest, iterations + share * count
            if iterations - certified >= self._per_visit * count:  # as the loop does, per epoch
                gap, certified = self._gap(W), iterations
        epochs = iterations / (self._per_visit * count)
        return Found(count, rounds, epochs, work, rounds * exchange, gap)

    def _gap(self, W: np.ndarray) -> float:
        """Of the point, relative to P; screens."""
        sums = [worker.sums(W, screen=True) for worker in self._workers]
        total = sums[0]
        for own in sums[1:]:
            total = total.plus(own)
        v = np.sum([worker.combination() for worker in self._workers], axis=0).ravel() / self._n
        primal = float(total.primals(np.array([LAM]))[0])
        dual = float(total.values[DUALS, 0]) / self._n - float(v @ v) / (2 * LAM)
        return (primal - dual) / primal


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--rows", type=int, default=1_024_000)
    parser.add_argument("--columns", type=int, default=200_000)
    options = parser.parse_args()
    lines = []
    for workers in options.workers:
        rows = options.rows // workers
        parts = [text_part(rows, options.columns, number) for number in range(workers)]
        found = Simulation(parts, Network()).run()
        print(found, flush=True)
        lines.append([
            str(workers), str(found.rounds), f"{found.epochs:.1f}", f"{found.work_seconds:.2f} s",
            f"{found.exchange_seconds:.2f} s", f"{found.seconds:.2f} s", f"{found.gap:.1e}",
        ])  # fmt: skip
    names = ["workers", "rounds", "epochs", "work", "exchanges", "together", "gap"]
    print(table(names, lines))


if __name__ == "__main__":
    main()
