"""batchsvm: linear SVMs in mini-batches, each fit with a certificate.

After Takac, Bijral, Richtarik, Srebro: Mini-Batch Primal and Dual Methods for SVMs,
ICML 2013 ("the paper" throughout).
"""

from typing import TYPE_CHECKING, Any

from batchsvm import losses, methods
from batchsvm.api import certify, fit, plan, sigma2
from batchsvm.certificate import Certificate, CertificateError
from batchsvm.container import ModelFileError
from batchsvm.model import Model, load, save
from batchsvm.path import Path, path
from batchsvm.planning import Plan
from batchsvm.solution import Checkpoint, History, Solution, Status
from batchsvm.spectral import beta_b

if TYPE_CHECKING:
    from batchsvm.estimators import BatchSVC, BatchSVCCV, BatchSVR

__version__ = "0.1.0"

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
    "Status",
    "beta_b",
    "certify",
    "fit",
    "load",
    "losses",
    "methods",
    "path",
    "plan",
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
