"""The Python interface that liblinear-official and liblinear-multicore share."""

import ctypes

import numpy as np
import scipy.sparse as sp

DUAL = {"hinge": 3, "squared_hinge": 1, "logistic": 7}
PRIMAL = {"squared_hinge": 2, "logistic": 0}


class Liblinear:
    """Coordinate descent on the dual, without an intercept.

    Rows are drawn with C's rand(), which is seeded here; runs of the multi-core version
    differ nevertheless.
    """

    solvers = DUAL

    def __init__(self):
        from liblinear import liblinear, liblinearutil

        self.module, self.train = liblinear, liblinearutil.train
        self.seed = ctypes.CDLL(None).srand

    def prepare(self, X, y, lam, loss, intercept):
        # -R leaves the intercept out of the penalty; LIBLINEAR has it for the primal solvers only.
        options = f"-s {self.solvers[loss]} -c {1 / (lam * X.shape[0])!r} -q"
        options += " -B 1 -R" if intercept else " -B -1"
        rows = sp.csr_matrix(X, dtype=np.float64)
        return self.module.problem(y, rows, 1 if intercept else -1), options, X.shape[1], intercept

    def fit(self, prepared, tol, threads, seed):
        problem, options, d, intercept = prepared
        self.seed(seed + 1)  # to C, 0 and 1 are the same seed
        model = self.train(problem, f"{options} -e {tol!r}" + self.threads(threads))
        # The weights are of the class that came first; an array of C doubles, read at once.
        w = np.ctypeslib.as_array(model.w, (d + intercept,)) * model.label[0]
        return w[:d], w[d] if intercept else 0.0

    def threads(self, threads):
        return ""


class Multicore(Liblinear):
    def threads(self, threads):
        return f" -m {threads}"
