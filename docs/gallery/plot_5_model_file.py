"""
A model file that anyone can check
==================================

A model file holds the dual point beside the coefficients. Who has the data can compute the
certificate anew, without believing a word of the file.
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

print(certify_model(model, data.X, data.y)[0])
print("accuracy on other data:", (model.predict(data.X_test) == data.y_test).mean())

# %%
# The file remembers how the fit went, too:

_ = ConvergenceDisplay.from_solution(again)
