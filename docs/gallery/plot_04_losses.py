"""
Regression with four losses
===========================

The absolute, Huber, quantile and epsilon-insensitive loss on data with outliers. A column of ones
serves as the intercept. Each fit is certified.
"""

import matplotlib.pyplot as plt
import numpy as np

import batchsvm
from batchsvm import losses

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-2, 2, 200))
y = 1.5 * x + rng.normal(scale=0.4, size=200)
y[::9] += 6  # outliers
X = np.column_stack([x, np.ones_like(x)])

figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
axis.plot(x, y, ".", color="0.6")
for name, loss in {
    "absolute": losses.Absolute(),
    "Huber": losses.Huber(delta=0.5),
    "90 % quantile": losses.Quantile(quantile=0.9),
    "epsilon-insensitive, 0.5": losses.EpsilonInsensitive(epsilon=0.5),
}.items():
    solution = batchsvm.fit(X, y, loss, lam=1e-4, tol=1e-3, random_state=0)
    axis.plot(x, X @ solution.w, label=f"{name}, gap {solution.certificate.gap:.1e}")
axis.set_xlabel("x")
axis.set_ylabel("y")
_ = axis.legend(frameon=False)
