"""The scikit-learn face: estimators whose every fit comes with a certificate."""

from batchsvm.estimators.classifier import BatchSVC
from batchsvm.estimators.cross_validation import BatchSVCCV
from batchsvm.estimators.regressor import BatchSVR

__all__ = ["BatchSVC", "BatchSVCCV", "BatchSVR"]
