"""The Python interface that liblinear-official and liblinear-multicore share."""

import ctypes

import numpy as np


class Liblinear:
    """-s 3, the dual of the hinge.

    Rows are drawn with C's rand(), which is seeded here; runs of the multi-core version
    differ nevertheless.
    """

    def __init__(self):
        from liblinear import liblinear, liblinearutil

        self.module, self.train = liblinear, liblinearutil.train
        self.seed = ctypes.CDLL(None).srand

    def prepare(self, X, y, lam):
        return self.module.problem(y, X), 1 / (lam * X.shape[0]), X.shape[1]

    def fit(self, prepared, tol, threads, seed):
        problem, C, d = prepared
        self.seed(seed + 1)  # to C, 0 and 1 are the same seed
        model = self.train(problem, f"-s 3 -c {C!r} -e {tol!r} -B -1 -q" + self.threads(threads))
        # The weights are of the class that came first; an array of C doubles, read at once.
        return np.ctypeslib.as_array(model.w, (d,)) * model.label[0]

    def threads(self, threads):
        return ""
