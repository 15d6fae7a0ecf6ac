"""
Many classes at once
====================

``fit_many`` trains one problem per class on the same rows, which are prepared once. Each problem
has a certificate of its own.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import batchsvm

X, labels = load_digits(return_X_y=True)
X = X / 16
train, test = slice(0, 1200), slice(1200, None)
with batchsvm.place(X[train], n_jobs=2) as placed:
    classes = batchsvm.fit_many(
        placed, labels[train], lam=1e-3, intercept="penalised", random_state=0
    )
scores = X[test] @ classes.coef.T + classes.intercept
accuracy = (classes.classes[scores.argmax(axis=1)] == labels[test]).mean()
print(classes)
print(f"accuracy on the test rows: {accuracy:.3f}")

# %%
# The coefficients of each digit, as a picture, and its proven gap:

figure, axes = plt.subplots(2, 5, figsize=(8, 3.8), layout="constrained")
for axis, digit, w, certificate in zip(
    axes.flat, classes.classes, classes.coef, classes.certificates, strict=True
):
    limit = abs(w).max()
    axis.imshow(w.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
    axis.set_title(f"{digit}: gap {certificate.relative_gap:.0e}", fontsize=9)
    axis.set_axis_off()
