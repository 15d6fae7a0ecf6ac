"""The sets of the paper's kind, from the folder that BATCHSVM_DATA names."""

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from benchopt import BaseDataset
from sklearn.datasets import load_svmlight_file

LAM = {"rcv1": 1e-4, "arxiv": 5e-5, "news20": 1.25e-4, "cov": 1e-5}


class Dataset(BaseDataset):
    name = "files"
    requirements = ["numpy", "scipy", "scikit-learn"]
    parameters = {"file": ["rcv1", "arxiv", "news20", "cov"]}

    def get_data(self):
        path = Path(os.environ.get("BATCHSVM_DATA", ".")) / f"{self.file}.train.svm.bz2"
        if not path.exists():
            return {"X": None, "y": None, "lam": None}  # the objective skips it
        X, y = load_svmlight_file(path)
        longest = np.sqrt(X.multiply(X).sum(axis=1).max())
        return {"X": sp.csr_matrix(X / max(1.0, longest)), "y": y, "lam": LAM[self.file]}
