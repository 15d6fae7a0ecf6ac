"""The public functions."""

from batchsvm.api.certify import certify, proven
from batchsvm.api.place import place
from batchsvm.api.plan import plan, sigma2
from batchsvm.api.train import fit, fit_many, path

__all__ = ["certify", "fit", "fit_many", "path", "place", "plan", "proven", "sigma2"]
