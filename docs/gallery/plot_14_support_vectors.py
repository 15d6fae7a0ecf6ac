"""
Which rows are support vectors
==============================

A certificate also limits where the exact optimum can be. ``batchsvm.proven`` says which rows are
proven to be no support vectors of the optimum, and which are proven to be at their upper bound. A
smaller ``tol`` settles more rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import batchsvm

rng = np.random.default_rng(0)
y = rng.choice([-1, 1], size=300)
X = rng.normal(size=(300, 2)) + 1.1 * y[:, np.newaxis]

names = {0: "no support vector", 1: "at its upper bound", -1: "open"}
colours = {0: "0.75", 1: "tab:red", -1: "tab:blue"}
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for axis, tol in zip(axes, (1e-1, 1e-6), strict=True):
    solution = batchsvm.fit(X, y, lam=0.01, tol=tol, random_state=0)
    state = batchsvm.proven(X, y, solution)
    for value, name in names.items():
        rows = state == value
        axis.scatter(*X[rows].T, s=14, color=colours[value], label=f"{name}: {np.sum(rows)} rows")
    axis.set_title(f"tol = {tol:g}")
    axis.set_xlabel("first feature")
    axis.set_ylim(-5, 7)  # room for the legend
    axis.legend(fontsize=8, loc="upper left")
_ = axes[0].set_ylabel("second feature")
