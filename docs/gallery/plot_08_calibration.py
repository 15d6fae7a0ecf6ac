"""
Probabilities and calibration
=============================

The logistic loss estimates probabilities directly. The decision values of the hinge loss become
probabilities by calibration on held-out folds. Both are compared with observed frequencies.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from batchsvm import BatchSVC

X, y = make_classification(8000, 20, n_informative=4, flip_y=0.1, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
models = {
    "logistic": BatchSVC("logistic", lam=1e-4, random_state=0),
    "hinge, sigmoid": CalibratedClassifierCV(BatchSVC(lam=1e-4, random_state=0)),
    "hinge, isotonic": CalibratedClassifierCV(
        BatchSVC(lam=1e-4, random_state=0), method="isotonic"
    ),
}
figure, axis = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
for name, model in models.items():
    model.fit(X_train, y_train)
    score = brier_score_loss(y_test, model.predict_proba(X_test)[:, 1])
    print(f"{name:16} Brier score {score:.4f}")
    CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=10, ax=axis, name=name)
_ = axis.legend(frameon=False)
