"""One problem on the simulated device and on the reference engine, for the tests of sparse rows."""

from __future__ import annotations

import numpy as np

from batchsvm.core.layout import Schedule
from batchsvm.core.options import read_options
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.training import Start, train
from batchsvm.engines import place_on
from batchsvm.losses import LOSSES
from helpers import FORMATS, LAM, toy
from simulated import place_simulated

N, D = 60, 6
OFTEN = {"tol": 1e-6, "max_epochs": 4000}


class Both:
    """One problem on the simulated device and on the reference engine."""

    def __init__(self, loss_name="hinge", form="csr-float64-int32", n=N, full=True, **kwargs):
        X, y = toy(loss_name, n=n, d=D)
        rng = np.random.default_rng(1)
        weight = rng.integers(0, 4, n) / 2 if full else None  # with zeros
        offset = rng.normal(size=n) if full else None
        stated = {"bias": 0.5, "offset": 0.2} if full else {}
        self.X, self.y, self.stored = X, y, FORMATS[form](X)
        self.gpu, self.host = place_simulated(self.stored), place_on("reference", self.stored, 1)
        self.problem, self.host_problem = (
            make_problem(
                data.targets(y, weight, offset), LOSSES[loss_name](), LAM, **stated, **kwargs
            )
            for data in (self.gpu, self.host)
        )

    def trainer(self, method, b, dual=None, **kwargs):
        options = {"beta_b": 1 + (b - 1) * 0.4, "seed": 3, "precision": "float64", **kwargs}
        trainer = self.gpu.trainer(self.problem)
        trainer.start(Schedule(method, b, **options), dual)
        return trainer

    def batches(self, trainer, count):
        """The rows of the next so many batches: as `run` will take them."""
        inner = trainer._trainer
        numbers = inner.state.order[inner._done : inner._done + count]
        cut = inner.batches.cut[numbers]
        return [rows[rows >= 0].astype(np.int64) for rows in cut]


def run(trainer, count, target=-np.inf):
    return trainer.run(count, np.array([target]), StopFlag())


def fit(data, problem, method, seed=0, **options):
    [solution] = train(data, problem, read_options(method=method, **options), Start(seed))
    return solution
