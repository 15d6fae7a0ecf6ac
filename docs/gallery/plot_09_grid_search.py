"""
Grid search in a pipeline
=========================

The estimators work in scikit-learn's searches. Here ``GridSearchCV`` chooses the degree of
polynomial features, the loss and ``lam`` together. If ``lam`` is all that is searched for,
:class:`batchsvm.BatchSVCCV` is faster: it follows a path on each fold.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from batchsvm import BatchSVC

X, y = make_moons(400, noise=0.25, random_state=0)
pipeline = make_pipeline(
    PolynomialFeatures(include_bias=False), StandardScaler(), BatchSVC(random_state=0)
)
grid = {
    "polynomialfeatures__degree": [1, 3, 5],
    "batchsvc__loss": ["hinge", "logistic"],
    "batchsvc__lam": [1e-1, 1e-2, 1e-3],
}
search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
for parameter, value in search.best_params_.items():
    print(f"{parameter}: {value}")
print(f"accuracy in cross-validation: {search.best_score_:.3f}")

# %%
# The model is linear in the polynomial features, and curved in the original ones:

side = np.linspace(-2, 3, 200)
grid_x, grid_y = np.meshgrid(side, side)
values = search.decision_function(np.column_stack([grid_x.ravel(), grid_y.ravel()]))
figure, axis = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
axis.contourf(grid_x, grid_y, values.reshape(grid_x.shape), [-1e9, -1, 0, 1, 1e9], cmap="RdBu_r")
axis.scatter(*X.T, c=y, cmap="RdBu_r", edgecolors="black", s=18, linewidths=0.5)
axis.set_xlabel("first feature")
_ = axis.set_ylabel("second feature")
