"""The labels that a source brings: collected chunk by chunk, and their classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from batchsvm.core.label_digest import LabelDigest
from batchsvm.engines.targets import NO_LABELS, HostTargets

MAX_CLASSES = 2**16  # numbers with more distinct values are targets of a regression


@dataclass(frozen=True, eq=False)
class Labels:
    """What the labels of all rows are; each part holds its own as numbers or as codes."""

    classes: np.ndarray | None  # in increasing order; None if there are too many
    codes: np.ndarray | None  # of words: the class of each code; None where labels are numbers
    # Of the labels of all rows in the order of the source (`LabelDigest`), where they were read so.
    digest: str | None = None

    @property
    def usual(self) -> str:
        """How they are taken where nobody says it: as signs if there are at most two classes."""
        return "signs" if self.classes is not None and self.classes.size <= 2 else "numbers"

    def numbers(self, stored: np.ndarray) -> np.ndarray:
        """The targets of a regression."""
        if self.codes is not None:
            raise ValueError("y must hold numbers for a regression loss, not words")
        return stored

    def class_numbers(self, stored: np.ndarray) -> np.ndarray:
        """The number of the class of each row."""
        assert self.classes is not None
        if self.codes is not None:
            return self.codes[stored]
        return np.searchsorted(self.classes.astype(np.float64), stored).astype(np.int32)

    def signs(self, stored: np.ndarray) -> np.ndarray:
        """-1 and +1, for two classes."""
        assert self.classes is not None
        if self.classes.size == 1:  # by its sign where it has one
            positive = self.codes is not None or bool(self.classes[0] > 0)
            return np.full(stored.size, 1 if positive else -1, np.int8)
        upper = self.classes[1] if self.codes is None else np.flatnonzero(self.codes == 1)[0]
        return 2 * (stored == upper).view(np.int8) - 1


class LabelCollector:
    """Labels as they come; `take` returns what is stored of them."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._numbers: np.ndarray | None = np.empty(0)
        self._kind: str | None = None
        self._dtype: np.dtype[Any] | None = None
        self._digest = LabelDigest()

    def take(self, y: np.ndarray | None, name: str) -> np.ndarray | None:
        """The labels of a chunk of the part of this name."""
        kind = _kind_of(y, name)
        if self._kind is not None and kind != self._kind:
            raise ValueError(
                f"y must be of one kind in all parts, but {name} has {kind} where parts before it"
                f" have {self._kind}"
            )
        self._kind = kind
        if y is None:
            return None
        self._digest.update(y)
        if kind == "words":
            words, inverse = np.unique(y.astype(str), return_inverse=True)
            new = [self._words.setdefault(str(word), len(self._words)) for word in words]
            return np.array(new, np.int32)[inverse.ravel()]
        return self._take_numbers(y, name)

    def _take_numbers(self, y: np.ndarray, name: str) -> np.ndarray:
        stored = y.astype(np.float64)
        if not np.isfinite(stored).all():
            bad = int(np.flatnonzero(~np.isfinite(stored))[0])
            raise ValueError(f"y must be finite, but {name} holds {float(stored[bad])!r}")
        if y.dtype.kind in "iu" and y.size and max(-int(y.min()), int(y.max())) > 2**53:
            raise ValueError(f"y must hold integers below 2^53, but {name} holds larger ones")
        if self._numbers is not None:
            self._numbers = np.union1d(self._numbers, stored)
            if self._numbers.size > MAX_CLASSES:
                self._numbers = None
        self._dtype = y.dtype if self._dtype is None else np.result_type(self._dtype, y.dtype)
        return stored

    def found(self) -> Labels | None:
        """What the labels are, after the last chunk; None if there are none."""
        if self._kind == "words":
            words = np.array(list(self._words))
            order = np.argsort(words)
            codes = np.empty(words.size, np.int32)
            codes[order] = np.arange(words.size, dtype=np.int32)
            return Labels(words[order], codes, self._digest.hexdigest())
        if self._kind != "numbers":
            return None
        classes = None if self._numbers is None else self._numbers.astype(self._dtype)
        return Labels(classes, None, self._digest.hexdigest())


def _kind_of(y: np.ndarray | None, name: str) -> str:
    if y is None:
        return "no labels"
    if y.dtype.kind in "biuf":
        return "numbers"
    if y.dtype.kind == "U" or all(isinstance(label, str) for label in y.tolist()):
        return "words"
    raise ValueError(f"y must hold numbers or words, but {name} holds {y.dtype}")


@dataclass(frozen=True, eq=False)
class OwnTargets:
    """`Targets` of one part whose labels lie with its rows, until these are read."""

    labels: Labels
    how: str  # "signs", "numbers" or "codes"
    shape: HostTargets = field(repr=False)  # without y; weights and offset if the caller gave some
    class_weights: np.ndarray | None = None  # that weights of rows are multiplied by

    @property
    def k(self) -> int:
        return self.shape.k

    @property
    def has_offset(self) -> bool:
        return self.shape.has_offset

    def only(self, k: int) -> OwnTargets:
        return replace(self, shape=self.shape.only(k))

    def some(self, which: Sequence[int]) -> OwnTargets:
        return replace(self, shape=self.shape.some(which))

    def read(self, stored: np.ndarray, weights: np.ndarray | None) -> HostTargets:
        """The targets, from what lies with the rows."""
        ways = {
            "signs": self.labels.signs,
            "numbers": self.labels.numbers,
            "codes": self.labels.class_numbers,
        }
        given = self.shape.sample_weight
        weights = weights if given is None else given
        if self.class_weights is not None:
            factors = self.class_weights[self.labels.class_numbers(stored)]
            weights = factors if weights is None else factors * weights
        return replace(self.shape, y=ways[self.how](stored), sample_weight=weights)


def wanted_labels(
    labels: Labels | None, how: str, arrays: Sequence[np.ndarray | None]
) -> tuple[Labels, int, int]:
    """The labels of the rows, refused if they cannot be had "how"; the number of problems, which
    weights and offsets may have a column for; and the number of classes of codes."""
    if labels is None:
        raise ValueError(NO_LABELS)
    if how == "numbers":
        labels.numbers(np.empty(0))
    elif labels.classes is None:
        raise ValueError("y must have two classes for a classification loss, not 65537 or more")
    elif how == "signs" and labels.classes.size > 2:
        raise ValueError(
            f"y must have two classes for a classification loss, not {labels.classes.size}"
            f" (the first are {labels.classes[:3].tolist()})"
        )
    classes = labels.classes.size if how == "codes" and labels.classes is not None else 0
    width = max((a.shape[1] for a in arrays if a is not None and a.ndim == 2), default=1)
    return labels, classes or width, classes
