"""One-vs-rest: a problem for each class against the others, or a single one for two classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batchsvm.core.arrays import like, namespace_of, to_host

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset, Targets


class Classes(NamedTuple):
    """The labels in order, and for each row the number of its label."""

    labels: np.ndarray
    codes: np.ndarray

    @property
    def k(self) -> int:
        """How many problems these make."""
        return problem_count(self.labels)

    def targets(self, data: Dataset, sample_weight: np.ndarray | None = None) -> Targets:
        """The targets of the problems; of two classes, the larger label counts as +1."""
        if self.k > 1:
            return data.targets(self.codes, sample_weight, classes=self.k)
        return data.targets(self.signs(0), sample_weight)

    def signs(self, k: int) -> np.ndarray:
        """-1 and +1 for the rows of problem k."""
        if self.labels.size == 1:
            return np.full(self.codes.size, sign_of_only(self.labels), np.int8)
        positive = k if self.k > 1 else 1
        return np.where(self.codes == positive, 1, -1).astype(np.int8)

    def take(self, rows: np.ndarray) -> Classes:
        """Those of some of the rows."""
        return self._replace(codes=self.codes[rows])


def problem_count(labels: np.ndarray) -> int:
    return 1 if labels.size <= 2 else labels.size


def sign_of_only(labels: np.ndarray) -> int:
    """What a single class counts as: by its sign where it has one."""
    numeric = labels.dtype.kind in "fiub"
    return -1 if numeric and not labels[0] > 0 else 1


def positive_labels(labels: np.ndarray) -> list[Any]:
    """The label that counts as +1 in each of the problems."""
    found = labels.tolist()
    return found[-1:] if len(found) <= 2 else found


def encode(y: np.ndarray, labels: np.ndarray) -> Classes:
    """The numbers of labels that are known already; ValueError names one that is not."""
    unknown = np.setdiff1d(y, labels)
    if unknown.size:
        raise ValueError(
            f"the labels must be among the model's classes {labels[:5].tolist()}, but"
            f" {unknown[0].item()!r} is not"
        )
    order = np.argsort(labels)  # of a model of another library, they may come in any order
    return Classes(labels, order[np.searchsorted(labels, y, sorter=order)])


def two_numbers(y: np.ndarray) -> Classes | None:
    """The classes of a y that holds two whole numbers, else None.

    Sorting 20,000 labels takes a tenth of a fit on them; two whole numbers need none.
    """
    if y.dtype.kind not in "biuf" or not y.size:
        return None
    low, high = y.min(), y.max()
    upper = y == high
    if low != high and low == int(low) and high == int(high) and (upper | (y == low)).all():
        return Classes(np.array([low, high]), upper.astype(np.intp))
    return None


def whole_numbers(y: np.ndarray) -> Classes | None:
    """The classes of a y of whole numbers that lie close together, else None: they are counted,
    which takes a tenth of the time of sorting a million labels."""
    if y.dtype.kind not in "iu" or not y.size:
        return None
    low, high = int(y.min()), int(y.max())
    if high - low >= max(1024, y.size):
        return None
    near = y.astype(np.intp) - low
    is_there = np.bincount(near) > 0
    return Classes(
        (np.flatnonzero(is_there) + low).astype(y.dtype), (np.cumsum(is_there) - 1)[near]
    )


def find_classes(y: np.ndarray) -> Classes:
    """The classes of y."""
    return two_numbers(y) or whole_numbers(y) or Classes(*np.unique(y, return_inverse=True))


def choose(labels: np.ndarray, scores: Any) -> Any:
    """The label that scores stand for: of shape (n,) for up to two classes, else (n, K).

    Scores of another library give labels of this library, unless labels are words.
    """
    if namespace_of(scores) is not None:
        return _choose_on_device(labels, scores)
    if labels.size == 1:
        return np.full(scores.shape[0], labels[0])
    codes = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
    return labels[codes]


def _choose_on_device(labels: np.ndarray, scores: Any) -> Any:
    if labels.size == 1 or labels.dtype.kind not in "biuf":
        return like(choose(labels, to_host(scores)), scores)
    xp, table = namespace_of(scores), like(labels, scores)
    if scores.ndim == 2:
        return table[xp.argmax(scores, axis=1)]
    return xp.where(scores > 0, table[1], table[0])
