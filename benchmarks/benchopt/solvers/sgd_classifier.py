"""scikit-learn's SGDClassifier, averaged over the second half of so many epochs."""

import numpy as np
from benchopt import BaseSolver
from sklearn.linear_model import SGDClassifier


class Solver(BaseSolver):
    name = "SGDClassifier"
    sampling_strategy = "iteration"
    requirements = ["scikit-learn"]

    def set_objective(self, X, y, lam):
        self.X, self.y, self.lam = X, y, lam

    def run(self, n_iter):
        self.w = np.zeros(self.X.shape[1])
        if n_iter == 0:
            return
        model = SGDClassifier(
            alpha=self.lam, fit_intercept=False, max_iter=n_iter, tol=None,
            average=max(1, n_iter * self.X.shape[0] // 2), random_state=0,
        )  # fmt: skip
        self.w = model.fit(self.X, self.y).coef_[0]

    def get_result(self):
        return {"w": self.w}
