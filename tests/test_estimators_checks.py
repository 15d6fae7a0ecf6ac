"""scikit-learn's own checks, with no expected failure."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from batchsvm import BatchSVC, BatchSVCCV, BatchSVR

# Some checks compare two fits to seven digits, sample weights against copies of rows among them,
# which takes a gap that is as small: tol is a promise, and 1e-3 does not make that one.
ESTIMATORS = [
    BatchSVC(tol=1e-10),
    BatchSVR(tol=1e-10),
    BatchSVCCV(tol=1e-10, lams=3, cv=3, max_epochs=300),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_estimator_check(estimator, check):
    check(estimator)
