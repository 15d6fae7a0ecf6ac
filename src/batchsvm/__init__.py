"""batchsvm: linear SVMs in mini-batches, each fit with a certificate.

After Takac, Bijral, Richtarik, Srebro: Mini-Batch Primal and Dual Methods for SVMs,
ICML 2013 ("the paper" throughout).
"""

import sys
from typing import TYPE_CHECKING, Any

from batchsvm import losses, methods
from batchsvm.api import certify, fit, fit_many, path, place, plan, proven, sigma2
from batchsvm.core.certificate import Certificate, CertificateError
from batchsvm.core.path import Path
from batchsvm.core.planning import Plan
from batchsvm.core.solution import Checkpoint, History, Solution, Solutions, Status
from batchsvm.core.spectral import beta_b
from batchsvm.files import datasets
from batchsvm.models import Model, ModelFileError, load, save

if TYPE_CHECKING:
    from batchsvm.estimators import BatchSVC, BatchSVCCV, BatchSVR

__version__ = "0.1.0"
sys.modules["batchsvm.datasets"] = datasets  # an alias of batchsvm.files.datasets

__all__ = [
    "BatchSVC",
    "BatchSVCCV",
    "BatchSVR",
    "Certificate",
    "CertificateError",
    "Checkpoint",
    "History",
    "Model",
    "ModelFileError",
    "Path",
    "Plan",
    "Solution",
    "Solutions",
    "Status",
    "beta_b",
    "certify",
    "datasets",
    "fit",
    "fit_many",
    "load",
    "losses",
    "methods",
    "path",
    "place",
    "plan",
    "proven",
    "save",
    "sigma2",
]


def __getattr__(name: str) -> Any:
    """The estimators, when one is asked for: scikit-learn takes half a second to import."""
    if name in ("BatchSVC", "BatchSVCCV", "BatchSVR"):
        from batchsvm import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
