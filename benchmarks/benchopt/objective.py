"""The L2-regularised hinge without an intercept, as benchopt wants it."""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Linear SVM, hinge, no intercept"
    min_benchopt_version = "1.9"
    requirements = ["numpy", "scipy"]
    test_dataset_name = "generated"

    def skip(self, X, y, lam):
        if X is None:
            return True, "BATCHSVM_DATA does not name a folder that holds this set"
        return False, None

    def set_data(self, X, y, lam):
        self.X, self.y, self.lam = X, y, lam

    def get_objective(self):
        return {"X": self.X, "y": self.y, "lam": self.lam}

    def evaluate_result(self, w):
        margins = self.y * (self.X @ w)
        return {
            "value": float(np.maximum(0, 1 - margins).mean() + self.lam / 2 * (w @ w)),
            "training_error": float((margins <= 0).mean()),
        }

    def get_one_result(self):
        return {"w": np.zeros(self.X.shape[1])}
