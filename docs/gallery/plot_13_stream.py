"""
Rows that arrive once
=====================

``partial_fit`` uses every row once and forgets it: Pegasos on the population objective. There is no
certificate, since the objective is an expectation over rows that have not arrived yet. A fit on the
rows that were kept shows how close the stream comes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from batchsvm import BatchSVC

X, y = load_digits(return_X_y=True)
X, y = X / 16, y % 2
order = np.random.default_rng(0).permutation(len(y))
X, y = X[order], y[order]
train, test = slice(0, 1400), slice(1400, None)

stream = BatchSVC(lam=1e-3, batch_size=4, random_state=0)
seen, accuracies = [], []
for start in range(0, 1400, 50):
    rows = slice(start, start + 50)
    stream.partial_fit(X[rows], y[rows], classes=[0, 1])
    seen.append(stream.stream_.rows)
    accuracies.append(stream.score(X[test], y[test]))
certified = BatchSVC(lam=1e-3, random_state=0).fit(X[train], y[train])

figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
axis.plot(seen, accuracies, marker=".", label="partial_fit, each row once")
axis.axhline(
    certified.score(X[test], y[test]), color="black", linestyle=":",
    label="fit on all rows, certified",
)  # fmt: skip
axis.set_xlabel("rows seen")
axis.set_ylabel("accuracy on test rows")
axis.grid(alpha=0.3)
_ = axis.legend(frameon=False, loc="lower right")
print(f"{stream.stream_.rows:,} rows in {stream.stream_.batches:,} batches")
