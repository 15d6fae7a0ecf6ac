"""What a fit leaves behind: the certificates of all classes, and the warning if they fall short."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from batchsvm.certificate import Certificate
from batchsvm.intercept import LinearModel
from batchsvm.shortfall import shortfall


class ClassCertificates(tuple[Certificate, ...]):
    """One certificate for each class; `primal`, `gap` and the rest are those of the worst.

    The worst is the one with the largest relative gap.
    """

    labels: list[Any]

    def __new__(cls, certificates: Sequence[Certificate], labels: list[Any]) -> ClassCertificates:
        self = super().__new__(cls, certificates)
        self.labels = labels
        return self

    def __getnewargs__(self) -> tuple[list[Certificate], list[Any]]:
        return list(self), self.labels

    @property
    def worst_label(self) -> Any:
        return self.labels[self.index(self.worst)]

    @property
    def worst(self) -> Certificate:
        return max(self, key=lambda certificate: certificate.relative_gap)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in Certificate.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.worst, name)

    def __str__(self) -> str:
        return f"{len(self)} classes, the worst is {self.worst_label!r}: {self.worst}"


def gather_certificates(models: Sequence[LinearModel], labels: list[Any]) -> Any:
    """The certificate of the only model, or all of them."""
    certificates = [model.solution.certificate for model in models]
    return certificates[0] if len(certificates) == 1 else ClassCertificates(certificates, labels)


def warn_of_shortfall(
    models: Sequence[LinearModel], labels: list[Any], max_epochs: float, go_on: str
) -> None:
    """One warning for all classes that stopped above tol, in the words of the worst."""
    short = [k for k, model in enumerate(models) if shortfall(model.solution, max_epochs)]
    if not short:
        return
    worst = max(short, key=lambda k: models[k].solution.certificate.relative_gap)
    sentence = shortfall(models[worst].solution, max_epochs, go_on)
    if len(models) > 1:
        sentence = (
            f"{len(short)} of {len(models)} classes stopped early. The worst is"
            f" {labels[worst]!r}, where {sentence}"
        )
    warn_caller(str(sentence))


def warn_caller(sentence: str) -> None:
    """A ConvergenceWarning at the line that called us, not at one of ours or scikit-learn's."""
    depth, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals["__name__"].split(".")[0] in ("batchsvm", "sklearn"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(sentence, ConvergenceWarning, stacklevel=depth)
