"""
A regularisation path
=====================

``path`` trains from the largest ``lam`` to the smallest, each from the solution of the one before,
and certifies every point. A validation set shows which ``lam`` to choose.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import batchsvm

X, y = load_digits(return_X_y=True)
X, y = X / 16, y % 2  # even or odd?
X_train, y_train, X_test, y_test = X[:1200], y[:1200], X[1200:], y[1200:]
lams = np.geomspace(1e-4, 1e-1, 13)
path = batchsvm.path(X_train, y_train, lams, random_state=0)
epochs = sum(model.solution.history.epoch[-1] for model in path.models)
alone = sum(
    batchsvm.fit(X_train, y_train, lam=lam, random_state=0).history.epoch[-1] for lam in lams
)
print(f"{epochs:.0f} epochs along the path, {alone:.0f} for separate fits")

# %%

figure, (above, below) = plt.subplots(2, sharex=True, figsize=(6.4, 5.6), layout="constrained")
above.semilogx(path.lams, path.coefs, color="tab:blue", linewidth=0.8, alpha=0.6)
above.set_ylabel("coefficients")
for rows, labels, name in ((X_train, y_train, "training"), (X_test, y_test, "validation")):
    accuracy = ((rows @ path.coefs.T > 0) == labels[:, np.newaxis]).mean(axis=0)
    below.semilogx(path.lams, accuracy, marker=".", label=name)
below.set_xlabel("lam")
below.set_ylabel("accuracy")
below.grid(alpha=0.3)
_ = below.legend(frameon=False)
