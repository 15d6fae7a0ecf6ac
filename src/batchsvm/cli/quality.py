"""How well predictions meet the labels of the data, summed up part by part."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchsvm.cli.output import label_text

MAX_NAMED = 10_000  # labels that the model does not know


class Quality:
    """Accuracy or mean absolute error of a model over parts that are added one after another."""

    def __init__(self, model: Any) -> None:
        self.is_regressor = model.classes is None
        self.known = set() if self.is_regressor else set(_texts(model.classes).tolist())
        self.rows = self.right = self.strange = 0
        self.strangers: set[str] = set()
        self.error = 0.0
        self.is_labelled = self.is_numeric = True

    def add(self, predicted: np.ndarray, y: np.ndarray | None) -> None:
        """The next rows; without labels for all of them there is nothing to say."""
        self.rows += len(predicted)
        if y is None:
            self.is_labelled = False
        elif self.is_regressor:
            self.is_numeric &= y.dtype.kind in "fiub"
            if self.is_numeric:
                self.error += float(np.abs(predicted - y).sum())
        else:
            truth = _texts(y)
            foreign = np.array([label not in self.known for label in truth.tolist()])
            self.right += int((_texts(predicted) == truth).sum())
            self.strange += int(foreign.sum())
            self.strangers.update(np.unique(truth[foreign]).tolist())
            if len(self.strangers) > MAX_NAMED:
                self.strangers = set(sorted(self.strangers)[:MAX_NAMED])

    def facts(self) -> dict[str, Any]:
        """None in the place of a number where the labels are none for this model."""
        if not self.is_labelled or not self.rows:
            return {}
        if self.is_regressor:
            return {"mean_absolute_error": self.error / self.rows if self.is_numeric else None}
        return {
            "accuracy": None if self.strange == self.rows else self.right / self.rows,
            "unknown_labels": sorted(self.strangers),
            "rows_with_unknown_labels": self.strange,
        }

    def words(self) -> str:
        found = self.facts()
        if not found:
            return ""
        if "accuracy" not in found:
            error = found["mean_absolute_error"]
            if error is None:
                return "no mean absolute error: the labels are no numbers"
            return f"mean absolute error {error:.6g}"
        accuracy, labels = found["accuracy"], found["unknown_labels"]
        some = ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
        if accuracy is None:
            return f"no accuracy: the model knows none of the labels, which are {some}"
        text = f"accuracy {accuracy:.6g}"
        if labels:
            text += f", where {self.strange:,} rows count as wrong, since the model does not know"
            text += f" {some}"
        return text


def _texts(labels: np.ndarray) -> np.ndarray:
    """Labels as text: a CSV may hold 1 where LIBSVM text held 1.0."""
    return np.array([label_text(label) for label in labels.tolist()])
