"""This library, all defaults; its certificates are where benchopt may look."""

import warnings
from itertools import count

import numpy as np
from benchopt import BaseSolver

import batchsvm


class Solver(BaseSolver):
    name = "batchsvm"
    sampling_strategy = "callback"
    requirements = ["pip::batchsvm"]
    parameters = {"n_jobs": [1, 2]}

    def set_objective(self, X, y, lam):
        self.X, self.y, self.lam = X, y, lam

    def get_next(self, stop_val):
        return stop_val + 1  # at every certificate: run lets them grow apart

    def warm_up(self):
        self.run_once()  # compiles

    def run(self, callback):
        self.w = np.zeros(self.X.shape[1])

        # More often than by default, for a curve with more points; certificates cost a little.
        often = (int(self.X.shape[0] * 1.3**k) for k in count())

        def look(checkpoint):
            self.w = checkpoint.w.copy()
            return not callback()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tol=0 is never reached: benchopt says when to stop
            batchsvm.fit(
                self.X, self.y, lam=self.lam, tol=0.0, max_epochs=1e6, n_jobs=self.n_jobs,
                random_state=0, callback=look, checkpoints=often,
            )  # fmt: skip

    def get_result(self):
        return {"w": self.w}
