"""
Imbalanced classes
==================

Three rows in a hundred are positive. Without weights, the hinge loss hardly notices them. Class
weights move the model along the trade-off between precision and recall.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import PrecisionRecallDisplay, balanced_accuracy_score, recall_score
from sklearn.model_selection import train_test_split

from batchsvm import BatchSVC

X, y = make_classification(
    6000, 20, n_informative=6, n_clusters_per_class=1, weights=[0.97], flip_y=0.01, class_sep=0.8,
    random_state=0,
)  # fmt: skip
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

figure, axis = plt.subplots(figsize=(6, 4.2), layout="constrained")
for class_weight in (None, {0: 1, 1: 5}, "balanced"):
    model = BatchSVC(lam=1e-3, class_weight=class_weight, random_state=0).fit(X_train, y_train)
    predicted = model.predict(X_test)
    recall = recall_score(y_test, predicted)
    balanced = balanced_accuracy_score(y_test, predicted)
    print(f"class_weight={class_weight!s:12} recall {recall:.2f}, balanced accuracy {balanced:.2f}")
    PrecisionRecallDisplay.from_estimator(
        model, X_test, y_test, ax=axis, name=f"class_weight={class_weight}"
    )
_ = axis.legend(loc="lower left", frameon=False, fontsize=8)

# %%
# The curves are close to each other: the weights mainly move the threshold. The certificate is that
# of the weighted objective, and row weights of k have exactly the effect of k copies.

print(model.certificate_)
