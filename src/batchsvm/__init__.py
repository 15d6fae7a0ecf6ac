"""batchsvm: linear SVMs in mini-batches, each fit with a certificate.

After Takac, Bijral, Richtarik, Srebro: Mini-Batch Primal and Dual Methods for SVMs,
ICML 2013 ("the paper" throughout).
"""

from batchsvm import losses, methods
from batchsvm.api import certify, fit, plan, sigma2
from batchsvm.certificate import Certificate, CertificateError
from batchsvm.container import ModelFileError
from batchsvm.model import Model, load, save
from batchsvm.planning import Plan
from batchsvm.solution import Checkpoint, History, Solution, Status
from batchsvm.spectral import beta_b

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "CertificateError",
    "Checkpoint",
    "History",
    "Model",
    "ModelFileError",
    "Plan",
    "Solution",
    "Status",
    "beta_b",
    "certify",
    "fit",
    "load",
    "losses",
    "methods",
    "plan",
    "save",
    "sigma2",
]
