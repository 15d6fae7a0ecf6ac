"""scikit-learn's LinearSVC: LIBLINEAR's dual coordinate descent, along its tolerance."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.svm import LinearSVC


class Solver(BaseSolver):
    name = "LinearSVC"
    sampling_strategy = "tolerance"
    requirements = ["scikit-learn"]

    def skip(self, X, y, lam):
        if getattr(X, "indices", np.empty(0, np.int32)).dtype != np.int32:
            return True, "LIBLINEAR takes int32 indices only"
        return False, None

    def set_objective(self, X, y, lam):
        self.X, self.y, self.C = X, y, 1 / (lam * X.shape[0])

    def run(self, tolerance):
        self.w = np.zeros(self.X.shape[1])
        if tolerance > 10:  # benchopt's first point is the start
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LinearSVC(
                loss="hinge", C=self.C, tol=tolerance, fit_intercept=False, max_iter=100_000,
                random_state=0,
            )  # fmt: skip
            self.w = model.fit(self.X, self.y).coef_[0]

    def get_result(self):
        return {"w": self.w}
