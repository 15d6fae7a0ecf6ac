"""Sparse rows of norm 1 whose labels a linear model explains but for noise."""

import numpy as np
import scipy.sparse as sp
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "generated"
    requirements = ["numpy", "scipy"]
    parameters = {"n_samples, n_features": [(20_000, 10_000)], "density": [0.003]}
    test_parameters = {"n_samples, n_features": [(200, 50)], "density": [0.2]}

    def get_data(self):
        rng = np.random.default_rng(0)
        X = sp.random(self.n_samples, self.n_features, self.density, "csr", rng=rng)
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        X = sp.csr_matrix(sp.diags(1 / np.maximum(norms, 1e-12)) @ X)
        scores = X @ rng.standard_normal(self.n_features)
        scores += 0.5 * rng.standard_normal(self.n_samples)
        return {"X": X, "y": np.where(scores > 0, 1.0, -1.0), "lam": 1 / self.n_samples}
