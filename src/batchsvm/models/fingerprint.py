"""What a model remembers of the data it was trained on: its shape, and a digest of its labels."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from batchsvm.core.arrays import to_host


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

    >>> a, b = fingerprint(np.eye(2), [1, -1]), fingerprint(np.eye(2), np.array([1.0, -1.0]))
    >>> a == b, fingerprint(np.eye(2), ["1", "-1"]) == a
    (True, False)
    """
    n, d = X.shape
    return Fingerprint(int(n), int(d), None if y is None else labels_digest(y))


def labels_digest(y: Any) -> str:
    labels = np.asarray(to_host(y))
    if labels.dtype.kind in "fiub":
        raw = (labels.astype("<f8") + 0.0).tobytes()  # + 0.0: minus zero is zero
    else:
        words = [str(label).encode() for label in labels.ravel().tolist()]
        raw = b"words" + b"".join(len(word).to_bytes(8, "little") + word for word in words)
    return hashlib.sha256(raw).hexdigest()
