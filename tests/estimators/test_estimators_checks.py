"""scikit-learn's own checks, with no expected failure."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from batchsvm import BatchSVC, BatchSVCCV, BatchSVR

# Some checks compare two fits to seven digits, sample weights against copies of rows among them,
# which takes a gap that is as small: tol is a promise, and 1e-3 does not make that one.
CHECKS = parametrize_with_checks(
    [
        BatchSVC(tol=1e-10),
        BatchSVR(tol=1e-10),
        BatchSVCCV(tol=1e-10, lams=3, cv=3, max_epochs=300),
    ]
).mark
# scikit-learn 1.6 passes a generator, which newer versions of pytest warn of.
NAMES, PAIRS = CHECKS.args[0], list(CHECKS.args[1])


# Some of their data is made to be hard, and a warning that says so is what should come.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(NAMES, PAIRS, **CHECKS.kwargs)
def test_estimator_check(estimator, check):
    check(estimator)


def test_no_check_is_expected_to_fail():
    assert len(PAIRS) > 150
    assert not [pair for pair in PAIRS if getattr(pair, "marks", ())]
