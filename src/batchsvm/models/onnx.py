"""Models for ONNX runtimes, through skl2onnx (an extra: pip install 'batchsvm[onnx]').

A linear model is a linear model: whatever has coefficients is put into scikit-learn's own
linear classifier or regressor, for which skl2onnx has a converter; in a pipeline, that takes
the place of the last step.  ONNX computes in float32, so that scores agree to about 1e-6 of
their size.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from batchsvm.files.atomic import replacing
from batchsvm.models.model import Model, model_of_estimator, model_of_solution


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None) -> bytes:
    """A model in ONNX, also written to `path` if one is given.

    Parameters
    ----------
    model : Model, Solution, fitted linear estimator or pipeline
        An estimator is anything with `coef_`, `intercept_` and, for a classifier, `classes_`; a
        scikit-learn Pipeline ends in one, after steps that skl2onnx can convert.
    path : path, optional
        Replaced at once.

    Returns
    -------
    bytes
        A graph with the input X (float32, shape (n, d)).  A classifier has the output `label`
        and a second one, a column a class: for the logistic loss `probabilities`, those of
        `predict_proba`, and for all others `scores`, its decision values (minus and plus the
        score for two classes).  A regressor has `variable`.
    """
    try:
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import FloatTensorType
    except ImportError:
        raise ModuleNotFoundError(
            "ONNX export needs skl2onnx: pip install 'batchsvm[onnx]'"
        ) from None
    before, last = _steps(model)
    made = _as_model(last)
    shell = _scikit_learn(made)
    outputs, options = None, None
    if made.classes is not None:
        proper = _has_probabilities(made)
        outputs = [("label", None), ("probabilities" if proper else "scores", None)]
        options = {id(shell): {"zipmap": False} if proper else {"raw_scores": True}}
    graph = convert_sklearn(
        _pipeline(before, shell) if before else shell,
        initial_types=[("X", FloatTensorType([None, _columns(model, made)]))],
        final_types=outputs,
        options=options,
    )
    content: bytes = graph.SerializeToString()
    if path is not None:
        with replacing(path) as sink:
            sink.write(content)
    return content


def _steps(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """What a pipeline does before its last step, and that step; nothing and the model else."""
    if not hasattr(model, "steps"):
        return [], model
    *before, (_, last) = model.steps
    return [step for step in before if step[1] not in (None, "passthrough")], last


def _pipeline(before: list[tuple[str, Any]], last: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return Pipeline([*before, ("batchsvm", last)])


def _columns(model: Any, made: Model) -> int:
    """Columns of what comes in, which in a pipeline need not be what the last step gets."""
    return int(getattr(model, "n_features_in_", made.n_features))


def _has_probabilities(model: Model) -> bool:
    return model.loss_name == "logistic"


def _as_model(model: Any) -> Model:
    if isinstance(model, Model):
        return model
    if hasattr(model, "coef_"):
        return model_of_estimator(model)
    if hasattr(model, "w") and hasattr(model, "certificate"):
        return model_of_solution(model)
    raise TypeError(
        "model must be a Model, a Solution, a fitted linear estimator with coef_ or a pipeline"
        " that ends in one, not"
        f" {type(model).__name__}"
    )


def _scikit_learn(model: Model) -> Any:
    """scikit-learn's linear model with these coefficients."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.svm import LinearSVC

    if model.classes is None:
        shell = LinearRegression()
        shell.coef_, shell.intercept_ = model.coef[0], float(model.intercept[0])
    else:
        shell = LogisticRegression() if _has_probabilities(model) else LinearSVC()
        shell.multi_class = "ovr"  # skl2onnx would take many classes for a softmax
        shell.coef_, shell.intercept_ = model.coef, model.intercept
        shell.classes_ = _labels(model.classes)
    shell.n_features_in_ = model.n_features
    return shell


def _labels(classes: np.ndarray) -> np.ndarray:
    """ONNX knows labels that are integers or words."""
    if classes.size < 2:
        raise ValueError(f"model must have two or more classes for ONNX, not {classes.tolist()}")
    if classes.dtype.kind == "f":
        if not (classes == classes.astype(np.int64)).all():
            raise ValueError(f"classes must be integers or words for ONNX, not {classes.tolist()}")
        return classes.astype(np.int64)
    return classes.astype(str) if classes.dtype.kind in "OU" else classes.astype(np.int64)
