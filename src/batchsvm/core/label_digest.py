"""A digest of labels, by which a model recognises the data that it was trained on."""

from __future__ import annotations

import hashlib

import numpy as np


class LabelDigest:
    """SHA-256 of labels that come in chunks; how they are cut into chunks makes no difference.

    Labels that compare equal have the same digest in any type.

    >>> one, other = LabelDigest(), LabelDigest()
    >>> one.update(np.array([1, -1, 2]))
    >>> other.update(np.array([1.0, -1.0]))
    >>> other.update(np.array([2.0]))
    >>> one.hexdigest() == other.hexdigest()
    True
    """

    def __init__(self) -> None:
        self._found = hashlib.sha256()
        self._has_words = False

    def update(self, labels: np.ndarray) -> None:
        """The labels of the next rows: numbers throughout, or words throughout."""
        if labels.dtype.kind in "fiub":
            self._found.update((labels.astype("<f8") + 0.0).tobytes())  # + 0.0: minus zero is zero
            return
        if not self._has_words:
            self._found.update(b"words")
            self._has_words = True
        words = [str(label).encode() for label in labels.ravel().tolist()]
        self._found.update(b"".join(len(word).to_bytes(8, "little") + word for word in words))

    def hexdigest(self) -> str:
        return self._found.hexdigest()
