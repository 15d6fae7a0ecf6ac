"""What a fit leaves behind: the certificates of all classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from batchsvm.core.certificate import Certificate
from batchsvm.core.solution import LinearModel


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
        if name.startswith("_") or not hasattr(self.worst, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.worst, name)

    def __str__(self) -> str:
        return f"{len(self)} classes, the worst is {self.worst_label!r}: {self.worst}"


def gather_certificates(models: Sequence[LinearModel], labels: list[Any]) -> Any:
    """The certificate of the only model, or all of them."""
    certificates = [model.solution.certificate for model in models]
    return certificates[0] if len(certificates) == 1 else ClassCertificates(certificates, labels)
