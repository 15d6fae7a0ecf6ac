"""
Data larger than memory
=======================

A folder of files takes the place of ``X``. The rows are read part by part within ``max_memory``,
and the certificate covers all of them. The files of this example are small, so that it runs in
seconds; large ones are used in the same way.
"""

import tempfile
from pathlib import Path

import numpy as np

import batchsvm
from batchsvm.displays import ConvergenceDisplay

rng = np.random.default_rng(0)
truth = rng.normal(size=20)
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for day in range(5):
        X = rng.normal(size=(2000, 20)).astype(np.float32)
        y = np.where(X @ truth + 2 * rng.normal(size=2000) > 0, 1, -1)
        np.savez(folder / f"day-{day}.npz", X=X, y=y)
    solution = batchsvm.fit(folder, lam=1e-2, max_memory="100MB", random_state=0)

    # Predictions are made in one pass over the files, too.
    model = batchsvm.BatchSVC(lam=1e-2, random_state=0).fit(folder)
    for part in batchsvm.predict_parts(model, folder):
        accuracy = (part.predictions == part.y).mean()
        print(f"{Path(part.name).name}: {len(part.y):,} rows, accuracy {accuracy:.3f}")

print(solution)

# %%
# Each pass over the files ends with a certificate, which needs no further read:

_ = ConvergenceDisplay.from_solution(solution)
