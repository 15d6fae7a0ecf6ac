"""
A model file that anyone can check
==================================

A model file contains the dual point as well as the coefficients. Anyone who has the data can
compute the certificate again, and need not trust the numbers that the file states.
"""

import tempfile
from pathlib import Path

import batchsvm
from batchsvm.datasets import load
from batchsvm.displays import ConvergenceDisplay
from batchsvm.models.fitting import certify_model

data = load("breast-cancer")
solution = batchsvm.fit(
    data.X, data.y, "logistic", lam=1e-3, tol=1e-5, checkpoints=range(50, 10**6, 100),
    random_state=0,
)  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "cancer.model"
    solution.save(path, data.y)
    print(f"{path.stat().st_size:,} bytes")
    model = batchsvm.load(path)
    again = batchsvm.Solution.load(path)

accuracy = (model.predict(data.X_test) == data.y_test).mean()
print(certify_model(model, data.X, data.y)[0])
print(f"accuracy on the test rows: {accuracy:.3f}")

# %%
# The file also contains the history of the fit:

_ = ConvergenceDisplay.from_solution(again)
