"""What a model remembers of the data it was trained on: its shape, and a digest of its labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batchsvm.core.arrays import to_host
from batchsvm.core.label_digest import LabelDigest
from batchsvm.engines import is_placed


class Fingerprint(NamedTuple):
    """Rows, columns, and SHA-256 of the labels (None if they are not known)."""

    n: int
    d: int
    labels: str | None = None

    def differences(self, other: Fingerprint) -> list[str]:
        """In words, what tells this data from the other."""
        found = []
        if self.n != other.n:
            found.append(f"{other.n:,} rows, not {self.n:,}")
        if self.d != other.d:
            found.append(f"{other.d:,} columns, not {self.d:,}")
        if self.labels and other.labels and self.labels != other.labels and self.n == other.n:
            found.append("other labels")
        return found


def fingerprint(X: Any, y: Any = None) -> Fingerprint:
    """The fingerprint of data; labels that compare equal have the same digest in any type.

    Without y, the labels are those that placed data bring themselves, if they do.

    >>> a, b = fingerprint(np.eye(2), [1, -1]), fingerprint(np.eye(2), np.array([1.0, -1.0]))
    >>> a == b, fingerprint(np.eye(2), ["1", "-1"]) == a
    (True, False)
    """
    if is_placed(X):
        own = None if X.labels is None else X.labels.digest or None  # which may not be known
        return Fingerprint(X.n, X.d, own if y is None else labels_digest(y))
    n, d = X.shape
    return Fingerprint(int(n), int(d), None if y is None else labels_digest(y))


def labels_digest(y: Any) -> str:
    digest = LabelDigest()
    digest.update(np.asarray(to_host(y)))
    return digest.hexdigest()
