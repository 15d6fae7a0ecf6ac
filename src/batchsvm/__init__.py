"""batchsvm: linear SVMs in mini-batches, each fit with a certificate.

After Takac, Bijral, Richtarik, Srebro: Mini-Batch Primal and Dual Methods for SVMs,
ICML 2013 ("the paper" throughout).
"""

import sys
from importlib import import_module
from importlib.util import spec_from_loader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batchsvm import losses, methods
    from batchsvm.api import certify, fit, fit_many, path, place, plan, proven, sigma2
    from batchsvm.core.certificate import Certificate, CertificateError
    from batchsvm.core.path import Path
    from batchsvm.core.planning import Plan
    from batchsvm.core.solution import Checkpoint, History, Solution, Solutions, Status
    from batchsvm.core.spectral import beta_b
    from batchsvm.estimators import BatchSVC, BatchSVCCV, BatchSVR
    from batchsvm.files import datasets
    from batchsvm.models import Model, ModelFileError, load, predict_parts, save

__version__ = "0.1.0"

# Each name and the module that has it, which is imported when the name is first asked for: the
# command line has to be there to answer Ctrl-C before Numba and SciPy, which take a second.
_MODULES = {
    "api": ("certify", "fit", "fit_many", "path", "place", "plan", "proven", "sigma2"),
    "core.certificate": ("Certificate", "CertificateError"),
    "core.path": ("Path",),
    "core.planning": ("Plan",),
    "core.solution": ("Checkpoint", "History", "Solution", "Solutions", "Status"),
    "core.spectral": ("beta_b",),
    "estimators": ("BatchSVC", "BatchSVCCV", "BatchSVR"),
    "models": ("Model", "ModelFileError", "load", "predict_parts", "save"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = (
    "api", "cli", "compiled", "core", "datasets", "displays", "engines", "estimators", "files",
    "losses", "methods", "models",
)  # fmt: skip

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
    "predict_parts",
    "proven",
    "save",
    "sigma2",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"batchsvm.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"batchsvm.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


class _Alias:
    """Finds `batchsvm.datasets`, which is `batchsvm.files.datasets` under a shorter name."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        return spec_from_loader(name, _Alias()) if name == "batchsvm.datasets" else None  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> Any:
        module = import_module("batchsvm.files.datasets")
        self.spec = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = self.spec  # the import system has put that of the short name there


sys.meta_path.append(_Alias)


def __dir__() -> list[str]:
    return sorted(__all__)
